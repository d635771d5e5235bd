"""Plans: which release meets limits with the least loss of information, and its application to the file."""

from keyhole.plan.planning import Plan
from keyhole.plan.protect import protect
from keyhole.plan.recipe import Recipe, load_plan

__all__ = ["Plan", "Recipe", "load_plan", "protect"]

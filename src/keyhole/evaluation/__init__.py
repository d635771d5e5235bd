"""Evaluate estimators: compare them on one file, or validate them on samples drawn from a known population."""

from keyhole.evaluation.comparison import Comparison, Outcome, compare
from keyhole.evaluation.running import validate

__all__ = ["Comparison", "Outcome", "compare", "validate"]

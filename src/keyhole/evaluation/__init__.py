"""Evaluate estimators: compare them on one file, or validate them on samples drawn from a known population."""

from keyhole.evaluation.comparison import Outcome, compare
from keyhole.evaluation.running import DEFAULT_ESTIMATORS, validate

__all__ = ["DEFAULT_ESTIMATORS", "Outcome", "compare", "validate"]

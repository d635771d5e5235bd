"""Does an estimator find the truth? Samples drawn from a file that is the population, and figures over many of them."""

from keyhole.evaluation.running import DEFAULT_ESTIMATORS, validate

__all__ = ["DEFAULT_ESTIMATORS", "validate"]

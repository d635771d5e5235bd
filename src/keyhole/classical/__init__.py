"""Classical estimators of disclosure risk, as in other software, on the scale of tau1 and tau2."""

from keyhole.classical.catalogue import CLASSICAL, estimate_classical
from keyhole.classical.sample import EstimatorError, Sample, make_sample

__all__ = ["CLASSICAL", "EstimatorError", "Sample", "estimate_classical", "make_sample"]

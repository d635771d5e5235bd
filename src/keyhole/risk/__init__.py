"""From draws to r1, r2, tau1 and tau2: whether the chains converged, and whether the model fits."""

from keyhole.risk.advice import Verdict
from keyhole.risk.diagnosis import Diagnosis, diagnose, weigh_groups
from keyhole.risk.fit import Fit, check_fit
from keyhole.risk.half_sample import SelfCheck, check_half
from keyhole.risk.measures import Expected, Measure, Risk, summarise_risk
from keyhole.risk.release import ReleaseRisk

__all__ = [
    "Diagnosis",
    "Expected",
    "Fit",
    "Measure",
    "ReleaseRisk",
    "Risk",
    "SelfCheck",
    "Verdict",
    "check_fit",
    "check_half",
    "diagnose",
    "summarise_risk",
    "weigh_groups",
]

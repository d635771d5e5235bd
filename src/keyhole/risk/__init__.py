"""From kept draws to r1, r2, tau1 and tau2, and whether the model fits."""

from keyhole.risk.fit import Fit, check_fit
from keyhole.risk.measures import Expected, Measure, Risk, summarise_risk
from keyhole.risk.self_check import SelfCheck, check_half

__all__ = ["Expected", "Fit", "Measure", "Risk", "SelfCheck", "check_fit", "check_half", "summarise_risk"]

"""From kept draws to r1, r2, tau1 and tau2."""

from keyhole.risk.measures import Expected, Measure, Risk, summarise_risk

__all__ = ["Expected", "Measure", "Risk", "summarise_risk"]

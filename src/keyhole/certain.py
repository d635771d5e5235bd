"""Answers that need no sampling: nobody is alone in the sample, or the sample is the whole population."""

import numpy as np

from keyhole.microdata import CellCounts
from keyhole.risk import Risk
from keyhole.risk.measures import certain_measure
from keyhole.sampling import Diagnosis
from keyhole.sampling.convergence import certain_diagnosis


def find_certain(counts: CellCounts, population: int) -> str | None:
    """Say why the answer is certain, or return None if it has to be estimated."""
    if not len(counts.unique_record):
        return "No sampling was needed: no record is alone in the sample."
    if population == len(counts.cell_count):
        return "No sampling was needed: the sample is the whole population."
    return None


def make_certain(counts: CellCounts, reason: str) -> tuple[Risk, Diagnosis]:
    """With nobody left outside the sample, every sample unique is a population unique."""
    one = np.ones(len(counts.unique_record))
    measure = certain_measure(float(len(one)))
    risk = Risk(tau1=measure, tau2=measure, r1=one, r1_low=one, r1_high=one, r2=one, r2_low=one, r2_high=one)
    return risk, certain_diagnosis(reason)

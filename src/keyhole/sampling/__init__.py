"""Chains: where they start, how long they run, whether to believe them."""

from keyhole.sampling.convergence import Diagnosis, diagnose, read_diagnosis, weigh_groups
from keyhole.sampling.gates import Gate
from keyhole.sampling.rounds import run_chains
from keyhole.sampling.trace import Event, Notice, OnProgress, Progress, Trace

__all__ = [
    "Diagnosis",
    "Event",
    "Gate",
    "Notice",
    "OnProgress",
    "Progress",
    "Trace",
    "diagnose",
    "read_diagnosis",
    "run_chains",
    "weigh_groups",
]

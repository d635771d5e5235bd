"""Chains: where they start, how long they run, and the draws they make."""

from keyhole.sampling.runner import run_chains
from keyhole.sampling.trace import Event, Notice, OnProgress, Progress, Trace

__all__ = ["Event", "Notice", "OnProgress", "Progress", "Trace", "run_chains"]

"""The half-sample check: half of the file serves as the sample, the whole file as a population that is known.

A random half of the records is fitted as a sample from a population of n, and tau1 and tau2 of its uniques are
predicted: how many of them are unique in the whole file, and how many correct matches an intruder who knows the whole
file would expect. The true numbers are counted. This tests the model at half the size of the file and at a sampling
fraction of one half.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keyhole.data import count_cells
from keyhole.diagnostics.laws import Estimate
from keyhole.kernels.state import Records
from keyhole.readable import Readable
from keyhole.risk.diagnosis import diagnose
from keyhole.risk.measures import Measure, measure
from keyhole.sampling import OnProgress, run_chains
from keyhole.seeds import HALF_SAMPLE, make_seeds
from keyhole.settings import Settings
from keyhole.zeros import Zeros

TIME_SHARE = 0.25
"""Time limit of the check, as a share of that of the run, in addition to it."""


@dataclass(frozen=True)
class SelfCheck(Readable):
    """half: number of records fitted; uniques: those alone in the half; observed, predicted: tau1 and tau2."""

    half: int
    uniques: int
    observed: dict[str, float]
    predicted: dict[str, Estimate]
    ok: bool
    message: str


def check_half(
    records: Records, settings: Settings, zeros: Zeros | None = None, on_progress: OnProgress | None = None
) -> SelfCheck | None:
    """Fit a random half and compare; None if no record is alone in the half, so that there is nothing to predict."""
    first, second = make_seeds(settings.seed, HALF_SAMPLE).spawn(2)
    n = len(records.level)
    chosen = np.sort(np.random.default_rng(first).choice(n, n // 2, replace=False))
    level = np.ascontiguousarray(records.level[chosen])
    half = records._replace(level=level, answer_total=records.answer_total[chosen])
    unique = count_cells(half.level).unique_record if len(chosen) else chosen
    if not len(unique):
        return None
    chosen_settings = settings.model_copy(
        update={
            "seed": int(second.generate_state(1, np.uint64)[0] >> 1),
            "time_limit": settings.time_limit * TIME_SHARE,
        }
    )
    trace = run_chains(half, unique, n, chosen_settings, zeros, on_progress)
    grade = diagnose(trace).grade
    found = {name: measure(law, trace.quantities[f"{name}_expected"], grade) for name, law in trace.laws.items()}
    observed = count_matches(records.level, chosen[unique])
    ok = all(found[name].interval[0] <= observed[name] <= found[name].interval[1] for name in found)
    return SelfCheck(
        half=len(chosen),
        uniques=len(unique),
        observed=observed,
        predicted={name: Estimate(found[name].mean, found[name].interval) for name in found},
        ok=ok,
        message=explain(len(chosen), len(unique), observed["tau1"], found["tau1"], ok, grade != "not converged"),
    )


def count_matches(level: NDArray[np.int32], unique: NDArray[np.int64]) -> dict[str, float]:
    """Return tau1 and tau2 of these records, with the file as the population."""
    size = count_cells(level).cell_count[unique]
    return {"tau1": float((size == 1).sum()), "tau2": float((1.0 / size).sum())}


def explain(half: int, uniques: int, observed: float, tau1: Measure, ok: bool, finished: bool) -> str:
    low, high = tau1.interval
    text = (
        f"Of {uniques:,} records that are alone in a random half ({half:,} records), the model expects {low:,.0f} to "
        f"{high:,.0f} to be alone in the whole file; {observed:,.0f} are."
    )
    if not ok and low <= observed <= high:
        text += " Correct matches (tau2) are outside their interval."
    elif not ok:
        text += f" It is likely to put the risk of this file too {'high' if observed < low else 'low'}."
    return text if finished else f"{text} (The chains of this check had too little time to agree.)"

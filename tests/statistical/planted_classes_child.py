"""Run the probes of planted_classes.py, interpreted, one copy of keyhole after the other; write their p-values.

python -m tests.statistical.planted_classes_child JOBS RESULTS

Each job imports keyhole and the tests anew from its own folder; numba and scipy, slow to import, stay.
"""

import json
import math
import sys
import time
import traceback
from pathlib import Path
from unittest.mock import patch

import numpy as np
from scipy.stats import ks_2samp

from keyhole.kernels import classes as kernels
from keyhole.kernels import visits
from tests.exact.test_classes_labels import BOXES, check_labels, check_shards
from tests.exact.test_classes_predict import check_frozen, check_sticks
from tests.exact.test_classes_visits import check_choice, check_layouts, check_weights
from tests.oracle.classes_sampler import QUANTITIES
from tests.statistical.classes_bench import FEW, MOVES, Bench, draw_fresh, draw_moved
from tests.statistical.planted_child import import_from
from tests.statistical.planted_classes import ClassesProbe
from tests.statistical.test_ordered import check_ordered

TIMES = 5
FIRST = 150
REFERENCE = 1_500
BOX = ({0: {0}, 1: {0, 1}}, {0: {1}, 1: {2}})
BENCHES = {
    bench.name: bench
    for bench in (
        Bench("plain", (2, 3), records=5, cap=2.0),
        Bench("blanks and shards", (2, 3), records=4, cap=2.0, blank=0.4, shard=FEW),
        Bench("rules", (2, 3), BOX, records=4, cap=2.0),
        Bench("rules, fixed base", (2, 3), BOX, records=4, cap=2.0, adaptive=False, strength=0.5),
        Bench("visits", (2, 3), records=5, visited=True),
        Bench("visits to equal records", (2, 2), records=12, visited=True),
        Bench("two records under rules", (2, 3), BOX, records=2, adaptive=False, strength=0.5),
    )
}
LIMITS = {"logarithms": ("TINY", math.inf)}
"""Sums of weights are in logarithms always; otherwise only large files reach them."""
CHECKS = {
    "freeze": lambda rng: check_frozen(rng, BENCHES["rules"]),
    "sticks": lambda rng: check_sticks(rng, Bench("three variables"), 400),
    "labels": lambda rng: check_labels(rng, (), 400),
    "labels under rules": lambda rng: check_labels(rng, BOXES, 400),
    "shards": check_shards,
    "ordered, rules": lambda rng: check_ordered(rng, "rules", 4_000, 5),
    "layouts of visits": check_layouts,
    "weights of visits": lambda rng: check_weights(rng, 15),
    "choice of visits": check_choice,
}
"""What is compared with brute force."""


class CompiledMath:
    """The module math, with log 0 as compiled code has it."""

    def __getattr__(self, name):
        return getattr(math, name)

    def log(self, x):
        return math.log(x) if x > 0.0 else -math.inf


def smallest_p(first, second):
    """The smallest p-value, corrected for the number of quantities; equal constants are left out."""
    values = [
        ks_2samp(x, y, method="asymp").pvalue
        for x, y in zip(first.T, second.T, strict=True)
        if np.ptp(np.concatenate([x, y])) > 0.0
    ]
    return float(min(1.0, min(values) * len(QUANTITIES)))


def sample(probe: ClassesProbe, seed: int, reference, enough: float) -> float:
    """The p-value of moved states, after as many batches as it takes to fall below `enough`, or all of them."""
    rng = np.random.default_rng(seed)
    limit = LIMITS.get(probe.case, ("TINY", kernels.TINY))
    if probe.step in CHECKS:
        with patch.object(kernels, *limit), patch.object(visits, *limit):
            CHECKS[probe.step](rng)
        return 1.0
    bench = BENCHES[probe.case]
    moved, left = np.empty((0, len(QUANTITIES))), probe.replicates
    with patch.object(kernels, "math", CompiledMath()), patch.object(kernels, *limit):
        while left > 0:
            size = min(max(len(moved), FIRST), left)
            drawn = draw_moved(rng, bench, size, TIMES, MOVES[probe.step], strict=False)
            moved, left = np.concatenate([moved, drawn]), left - size
            value = smallest_p(reference, moved)
            if value < enough:
                break
    return value


def main() -> None:
    """Run the jobs [name, folder, probe, seed]; a copy that crashes or fails a check gets 0."""
    jobs, enough = json.loads(Path(sys.argv[1]).read_text())
    target = Path(sys.argv[2])
    references: dict[tuple[str, int], np.ndarray] = {}
    results = {}
    for name, folder, fields, seed in jobs:
        probe = ClassesProbe(*fields)
        size = max(REFERENCE, probe.replicates)
        key = probe.case, size
        began = time.perf_counter()
        if key not in references and probe.step not in CHECKS:
            references[key] = draw_fresh(np.random.default_rng(seed + 1), BENCHES[probe.case], size)
        child = import_from(folder, "tests.statistical.planted_classes_child")
        try:
            value = child.sample(probe, seed, references.get(key), enough)
        except (ArithmeticError, AssertionError, LookupError, ValueError):
            traceback.print_exc()
            value = 0.0
        results[name] = [value, time.perf_counter() - began]
        target.write_text(json.dumps(results))


if __name__ == "__main__":
    main()

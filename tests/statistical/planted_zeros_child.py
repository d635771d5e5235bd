"""Run the probes of planted_zeros.py, interpreted, one copy of keyhole after the other; write their p-values.

python -m tests.statistical.planted_zeros_child JOBS RESULTS

Each job imports keyhole and the tests anew from its own folder; numba and scipy, slow to import, stay.
"""

import dataclasses
import json
import sys
import time
import traceback
from pathlib import Path

import numpy as np
from scipy.stats import norm

from keyhole.kernels.state import State
from tests.oracle.rejection import World, draw_file, draw_rows
from tests.statistical import test_impossible as zeros
from tests.statistical.planted_child import import_from
from tests.statistical.planted_zeros import ZerosProbe

KNOWN = {"counts": 3, "remainder": 1}
REFERENCE = 3000
MOSTLY = ({0: {0}, 1: {0, 1}}, {0: {1}, 1: {1, 2}}, {0: {1}, 1: {0}})
"""Five of the six cells: most people are imputed, so that what is done with them shows."""
BENCHES = {
    "mixed": zeros.Bench("mixed", False, zeros.LEVELS, MOSTLY, 3),
    "hdp three": zeros.Bench("hdp", False, zeros.THREE, zeros.THREE_BOXES, 4),
}
FIXED = World(
    gamma=0.5,
    record=(0.5, 0.2),
    alpha=1.5,
    strength=[0.3, 0.3, 0.3],
    base=[np.full(2, 0.5), np.full(3, 1.0 / 3.0), np.full(2, 0.5)],
    weight=np.array([0.5, 0.3, 0.2]),
    theta=[
        np.array([[0.8, 0.2], [0.4, 0.6], [0.1, 0.9]]),
        np.array([[0.2, 0.4, 0.4], [0.1, 0.2, 0.7], [0.6, 0.2, 0.2]]),
        np.array([[0.3, 0.7], [0.8, 0.2], [0.5, 0.5]]),
    ],
)
"""Parameters of `counts`; about half of the people are impossible. `remainder` knows only the first profile."""


def complete_world(rng, known):
    """Break what the known profiles of FIXED leave of the weight into sticks, as the prior has it."""
    if known == len(FIXED.weight):
        return FIXED
    weight, rest = list(FIXED.weight[:known]), 1.0 - FIXED.weight[:known].sum()
    while rest > 1e-7:
        nu = rng.random() ** (1.0 / FIXED.gamma)
        weight.append(rest * (1.0 - nu))
        rest *= nu
    theta = [
        np.concatenate([rows[:known], draw_rows(rng, strength * base, len(weight) - known)])
        for rows, strength, base in zip(FIXED.theta, FIXED.strength, FIXED.base, strict=True)
    ]
    return dataclasses.replace(FIXED, weight=np.array(weight), theta=theta)


def impute(rng, records, prior, state, work):
    """Count anew, then draw the imputed people, given that they are few."""
    zeros.tally_answers(rng, records, prior, state, work)
    zeros.impute_few(rng, records, prior, state, work)


def finish(rng, records, prior, state, work):
    """Complete the counts, then draw the parameters that they inform."""
    zeros.draw_augmented_answers(rng, records, prior, state, work)
    zeros.drop_empty_profiles(rng, records, prior, state, work)
    zeros.draw_weights(rng, records, prior, state, work)
    zeros.draw_profiles(rng, records, prior, state, work)


def impute_and_concentrate(rng, records, prior, state, work):
    """Impute, and draw the concentrations."""
    impute(rng, records, prior, state, work)
    for _ in range(5):
        zeros.draw_concentrations(rng, records, prior, state, work)
    finish(rng, records, prior, state, work)


STEPS = {"concentrations": impute_and_concentrate}


def measure(records, state):
    """The numbers of test_impossible.py, and some that look at the imputed people."""
    tables = state.profile_tables[: state.profile_total[0]].astype(float)
    imputed, people = tables.sum() - state.table_total.sum(), float(state.augmented_total[0])
    most = tables.argmax()
    largest = state.level_profile[:, most].max()
    return (
        *zeros.quantities(records, state),
        imputed,
        np.log(state.shared_concentration[0]) * (imputed - 1.4 * people),
        (tables**2).sum() / tables.sum() ** 2,
        largest,
        state.weight[most],
        largest * np.log(tables[most]),
        state.weight[most] * np.log(tables[most]),
    )


def move_pool(rng, bench, replicates, times, step):
    """Return the measures of states drawn by rejection and moved `times` times."""
    out = []
    for _ in range(replicates):
        records, state, work = bench.draw(rng)
        for _ in range(times):
            step(rng, records, bench.prior, state, work)
        assert work.status[0] == 0
        out.append(measure(records, state))
    return np.array(out)


def impute_counts(rng, bench, draws, profiles):
    """Return people, tables by profile and answers by level and profile that keyhole imputes given known profiles."""
    records, state, work = bench.draw(rng)
    state.profile_total[0], state.weight[:profiles] = profiles, FIXED.weight[:profiles]
    state.remainder[0] = max(1.0 - FIXED.weight[:profiles].sum(), 1e-12)
    state.weight_concentration[0], state.record_concentration[:] = FIXED.gamma, FIXED.record
    state.base_strength[:], state.base_level[:] = FIXED.strength, np.concatenate(FIXED.base)
    state.table_label[:] = 0
    state.level_profile[:, :profiles] = np.concatenate([theta[:profiles].T for theta in FIXED.theta])
    zeros.fill_eppf(rng, records, bench.prior, state, work)
    zeros.tally_answers(rng, records, bench.prior, state, work)
    before, out = State(*(field.copy() for field in state)), []
    for _ in range(draws):
        for field, old in zip(state, before, strict=True):
            field[:] = old
        zeros.draw_augmented_records(rng, records, bench.prior, state, work)
        zeros.draw_augmented_answers(rng, records, bench.prior, state, work)
        tables = (state.profile_tables - before.profile_tables)[:profiles]
        answers = (state.level_count - before.level_count)[:, :profiles]
        out.append([state.augmented_total[0], *tables, *answers.ravel(), *state.augmented_tables.ravel()])
    return np.array(out, float)


def reject_counts(rng, bench, draws, profiles):
    """Return the same numbers by rejection."""
    out = []
    variables = len(bench.levels)
    for _ in range(draws):
        _, excluded = draw_file(rng, complete_world(rng, profiles), bench.model, bench.n, bench.boxes)
        tables = np.zeros(profiles)
        answers = np.zeros((int(bench.start[-1]), profiles))
        seatings = np.zeros((variables + 1, variables + 1))
        for person in excluded:
            seatings[len(person.cell), len(person.tables)] += 1
            for k, cell in person.tables:
                if k >= profiles:
                    continue
                tables[k] += 1
                for j, x in cell.items():
                    answers[bench.start[j] + x, k] += 1
        out.append([len(excluded), *tables, *answers.ravel(), *seatings.ravel()])
    return np.array(out)


def sample(probe: ZerosProbe, seed: int, reference: bool) -> np.ndarray:
    """Return what the probe measures, by replicate: by rejection alone for the reference."""
    rng = np.random.default_rng(seed)
    bench = BENCHES[probe.case]
    if probe.kind in KNOWN:
        return (reject_counts if reference else impute_counts)(rng, bench, probe.replicates, KNOWN[probe.kind])
    return move_pool(rng, bench, probe.replicates, 0 if reference else probe.times, STEPS[probe.kind])


def judge(probe: ZerosProbe, ours: np.ndarray, theirs: np.ndarray) -> float:
    """Return the smallest p-value, corrected for the number of quantities."""
    if probe.kind not in KNOWN:
        return float(min(1.0, zeros.smallest_p(theirs, ours)))
    frequent = (ours + theirs).sum(axis=0) > 100
    ours, theirs = ours[:, frequent], theirs[:, frequent]
    parts = [np.column_stack([x, (x[:, 0] - x[:, 0].mean()) ** 2]) for x in (ours, theirs)]
    error = np.sqrt(sum(x.var(axis=0) for x in parts) / probe.replicates)
    z = np.abs(parts[0].mean(axis=0) - parts[1].mean(axis=0)) / error
    return float(min(1.0, 2.0 * norm.sf(z.max()) * len(z)))


def main() -> None:
    """Run the jobs [name, folder, probe, seed]; a copy that crashes gets 0."""
    jobs, target = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    references: dict[tuple[int, str], np.ndarray] = {}
    results = {}
    for name, folder, fields, seed in jobs:
        probe = ZerosProbe(**fields)
        key = KNOWN.get(probe.kind, 0), probe.case
        if key not in references:
            more = dataclasses.replace(probe, replicates=probe.replicates if probe.kind in KNOWN else REFERENCE)
            references[key] = sample(more, seed + 1, reference=True)
        began = time.perf_counter()
        child = import_from(folder, "tests.statistical.planted_zeros_child")
        try:
            value = judge(probe, child.sample(probe, seed, reference=False), references[key])
        except (ArithmeticError, AssertionError, LookupError, ValueError):
            traceback.print_exc()
            value = 0.0
        results[name] = [value, time.perf_counter() - began]
        target.write_text(json.dumps(results))


if __name__ == "__main__":
    main()

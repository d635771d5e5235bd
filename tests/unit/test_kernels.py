"""What must hold for kernels beside their laws: same bits, counts in step, scratch is scratch, movement."""

import importlib
import math
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import gamma, kstest, norm

import keyhole.kernels
from keyhole.kernels.eppf import fill_fixed_alpha_eppf, fill_random_alpha_eppf
from keyhole.kernels.state import Records, State
from keyhole.kernels.sweep import LABEL_PASSES, run_sweep, run_sweeps
from keyhole.sampling.start import make_prior, start_state
from tests.oracle.model import seating_weight
from tests.statistical import running
from tests.statistical.invariance import SETTINGS, draw_pool
from tests.statistical.running import make_pool_work
from tests.unit.kernel_digest import digest, run, start_models

ROOT = Path(__file__).parents[2]
TURN = (running.DROP, running.WEIGHTS, running.PROFILES, running.LABELS, running.TALLY)
PARTS = tuple(
    running.alone(number)
    for number in (
        running.SEATS, running.LABELS, running.TALLY, *LABEL_PASSES * TURN, running.DROP, running.WEIGHT_CONCENTRATION,
        running.LAYOUTS, running.BASE, running.CONCENTRATIONS, running.WEIGHTS, running.PROFILES,
    )
)  # fmt: skip


def sweep(rng, records, prior, state, work):
    """One sweep."""
    run_sweep(rng, records, prior, state, work)


def sweep_by_parts(rng, records, prior, state, work, before=lambda work: None):
    """The same, kernel by kernel."""

    for kernel in PARTS:
        before(work)
        kernel(rng, records, prior, state, work)


fill_eppf = running.alone(running.SEATING)
LEVEL = 1e-6


def test_compiled_and_interpreted_give_the_same_bits():
    interpreted = subprocess.run(
        [sys.executable, "-m", "tests.unit.kernel_digest", "7"],
        cwd=ROOT,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert interpreted.returncode == 0, interpreted.stderr[-2000:]
    assert interpreted.stdout.split() == run(7)
    assert interpreted.stdout.split() != run(8)


def test_a_sweep_is_its_kernels_in_order():
    """The order of docs/model.md section 3, bit for bit."""
    whole, parts = list(start_models(3)), list(start_models(3))
    for one, other in zip(whole, parts, strict=True):
        sweep(*one)
        sweep_by_parts(*other)
        assert digest(one[0], one[3]) == digest(other[0], other[3])


def spoil(work):
    """Fill scratch with what must never be read: NaN, or numbers out of range."""
    # `cells` is tried in test_cells.
    for name, field in work._asdict().items():
        if name not in ("status", "cells"):
            field[...] = np.nan if field.dtype.kind == "f" else np.iinfo(field.dtype).max


def test_scratch_is_scratch():
    clean, spoilt = list(start_models(4)), list(start_models(4))
    for one, other in zip(clean, spoilt, strict=True):
        for _ in range(5):
            sweep(*one)
            sweep_by_parts(*other, before=spoil)
        assert digest(one[0], one[3]) == digest(other[0], other[3])


def test_counts_stay_in_step():
    """Recount tables, sizes and answers from seats and labels after every sweep."""
    for rng, records, prior, state, work in start_models(5):
        for _ in range(50):
            run_sweep(rng, records, prior, state, work)
            check_counts(records, prior, state)


def check_counts(records, prior, state):
    total = int(state.profile_total[0])
    tables, count = np.zeros(total, np.int64), np.zeros((records.level_start[-1], total), np.int64)
    for i, row in enumerate(records.level):
        present = row >= 0
        seats = state.seat[i][present]
        m = int(state.table_total[i])
        sizes = np.bincount(seats, minlength=m)
        assert len(sizes) == m
        assert (sizes > 0).all()
        assert (state.table_size[i, :m] == sizes).all()
        assert (state.table_size[i, m:] == 0).all()
        assert (state.seat[i][~present] == 255).all()
        np.add.at(tables, state.table_label[i, :m], 1)
        np.add.at(count, (row[present], state.table_label[i, seats]), 1)
    assert (state.profile_tables[:total] == tables).all()
    assert (state.level_count[:, :total] == count).all()
    assert prior.finite or (tables > 0).all()
    assert state.weight[:total].sum() + state.remainder[0] == pytest.approx(1.0, abs=1e-12)
    for first, last in zip(records.level_start[:-1], records.level_start[1:], strict=True):
        assert state.level_profile[first:last, :total].sum(axis=0) == pytest.approx(1.0, abs=1e-12)
        assert state.base_level[first:last].sum() == pytest.approx(1.0, abs=1e-12)


def test_every_learned_number_moves_in_every_sweep():
    """Strengths, which have an acceptance, in most sweeps."""
    learned = {
        ("hdp", "paper"): ["weight_concentration"],
        ("hdp", "adaptive"): ["weight_concentration", "record_concentration", "base_strength", "base_level"],
        ("mixed", "paper"): ["shared_concentration"],
        ("mixed", "adaptive"): ["shared_concentration", "base_strength", "base_level"],
    }
    for names, (rng, records, prior, state, work) in zip(learned.values(), start_models(6), strict=True):
        strengths = np.zeros(len(state.base_strength))
        for _ in range(100):
            before = {name: getattr(state, name).copy() for name in names}
            run_sweep(rng, records, prior, state, work)
            for name in names:
                moved = getattr(state, name) != before[name]
                if name == "base_strength":
                    strengths += moved
                else:
                    assert moved.all(), name
        assert "base_strength" not in names or strengths.min() > 50


def companions(state):
    """For each answer, the answers with its label, as bits: the same for all namings of profiles."""
    n, width = state.seat.shape
    labels = [state.table_label[i, state.seat[i, j]] for i in range(n) for j in range(width)]
    return np.array([sum(1 << b for b, other in enumerate(labels) if other == label) for label in labels])


@pytest.mark.parametrize("name", ["hdp paper", "mixed paper"])
def test_every_answer_moves_in_100_sweeps(name):
    """In at least 99.9 % of 1,000 replications that start from the stationary law."""
    setting = SETTINGS[name]
    pool = draw_pool(setting, 1_000, seed=1)
    rng = np.random.default_rng(2)
    work = make_pool_work(pool, setting.prior)
    stuck = 0
    for r in range(1_000):
        state = State(*(field[r] for field in pool.state))
        records = Records(pool.level[r], np.full(setting.records, 3), pool.level_start)
        start = companions(state)
        still = np.ones(len(start), bool)
        for _ in range(100):
            run_sweep(rng, records, setting.prior, state, work)
            still &= companions(state) == start
            if not still.any():
                break
        stuck += still.any()
    assert stuck <= 1


@pytest.mark.parametrize("prior_name", ["paper", "adaptive"])
def test_prior_without_data(rng, prior_name):
    """No records: chains reach the prior, whose laws are known."""
    records = Records(np.zeros((0, 2), np.int32), np.zeros(0, np.int64), np.array([0, 2, 5]))
    prior = make_prior("hdp", prior_name, records.level_start)
    state, work = start_state(rng, records, prior, 1)
    drawn = []
    for _ in range(2_000):
        assert run_sweeps(rng, records, prior, state, work, 15) == 15
        shape, rate = state.record_concentration
        strength = math.log(state.base_strength[1] / 3.0)
        drawn.append([state.weight_concentration[0], math.log(shape / rate), math.log(shape), strength])
    sample = np.array(drawn)
    assert kstest(sample[:, 0], gamma(2.0).cdf).pvalue > LEVEL
    if prior_name == "paper":
        assert (sample[:, 1:] == [math.log(2.0), math.log(2.0), 0.0]).all()
        return
    for column, sd in ((1, 2.0), (2, 1.0), (3, 1.5)):
        assert kstest(sample[:, column], norm(0.0, sd).cdf).pvalue > LEVEL
        assert kstest(sample[:, column], norm(0.0, 1.4 * sd).cdf).pvalue < LEVEL  # negative control


@pytest.mark.parametrize("rows", [1, 2])
def test_one_and_two_records(rng, rows):
    level = np.array([[0, 2], [1, 3]], np.int32)[:rows]
    records = Records(level, np.full(rows, 2), np.array([0, 2, 5]))
    for model in ("hdp", "mixed"):
        prior = make_prior(model, "adaptive", records.level_start)
        state, work = start_state(rng, records, prior, 3)
        assert run_sweeps(rng, records, prior, state, work, 50) == 50
        check_counts(records, prior, state)


@pytest.mark.parametrize("shape", [0.05, 0.4, 2.0, 20.0])
@pytest.mark.parametrize("mean", [3e-4, 0.05, 2.0, 300.0])
def test_seating_weights(shape, mean):
    """V(f, m) by the kernel against adaptive quadrature, over the whole range that the prior reaches."""
    for width in (1, 2, 8):
        eppf = np.zeros((width + 1, width + 2))
        fill_random_alpha_eppf(shape, shape / mean, eppf)
        for f in range(1, width + 1):
            for m in range(1, f + 1):
                expected = math.exp(seating_weight(f, m, shape, shape / mean))
                assert eppf[f, m] == pytest.approx(expected, rel=1e-8), (f, m)


def test_shared_seating_weights():
    eppf = np.zeros((6, 7))
    fill_fixed_alpha_eppf(1.7, eppf)
    for f in range(1, 6):
        rising = math.prod(1.7 + r for r in range(f))
        for m in range(1, f + 1):
            assert eppf[f, m] == pytest.approx(1.7**m / rising, rel=1e-13)


def test_seating_follows_the_concentrations():
    for rng, records, prior, state, work in start_models(9):
        for _ in range(10):
            run_sweep(rng, records, prior, state, work)
        eppf = state.eppf.copy()
        fill_eppf(rng, records, prior, state, work)
        assert (eppf == state.eppf).all()


SIGNATURES = """
import importlib, pkgutil
import keyhole.kernels
from tests.unit.kernel_digest import run
run(1)
many = {}
for module in pkgutil.iter_modules(keyhole.kernels.__path__):
    for name, kernel in vars(importlib.import_module(f"keyhole.kernels.{module.name}")).items():
        if len(getattr(kernel, "signatures", ())) > 1:
            many[name] = kernel.signatures
print(len(many), many)
"""


def test_one_signature_for_each_kernel():
    """Two signatures mean that some call passes another type: it compiles twice and may round differently."""
    done = subprocess.run([sys.executable, "-c", SIGNATURES], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("0 "), done.stdout


def test_kernels_take_no_fastmath():
    """Reordered sums would change bits from one machine to the next."""
    for module in pkgutil.iter_modules(keyhole.kernels.__path__):
        for name, kernel in vars(importlib.import_module(f"keyhole.kernels.{module.name}")).items():
            options = getattr(kernel, "targetoptions", {})
            assert not options.get("fastmath"), name
            assert not options.get("parallel"), name

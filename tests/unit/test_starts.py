"""The first sweeps of a chain with rules, or under `paper`, only find a place to start from."""

from dataclasses import replace

import numpy as np
import pytest

from keyhole.errors import Stopped
from keyhole.kernels.state import Records
from keyhole.kernels.sweep import run_sweeps
from keyhole.sampling import Progress, run_chains
from keyhole.sampling import runner as blocks
from keyhole.sampling.chain import find_position, run_block, start_chain
from keyhole.sampling.problem import START_SWEEPS, count_start_sweeps, make_problem
from keyhole.sampling.start import start_state
from keyhole.settings import make_settings
from keyhole.zeros.boxes import confine, make_grid
from keyhole.zeros.rule_files import Rule
from keyhole.zeros.zeros import make_zeros
from tests.unit.short_runs import SHORT, SIZES, digest, make_data

FOREVER = 1e9


def make_rules():
    """Two cells that no record of the short file has."""
    grid = make_grid(SIZES.tolist())
    boxes = [
        confine(grid, 0, [2]) & confine(grid, 1, [2]) & confine(grid, 2, [0]),
        confine(grid, 0, [2]) & confine(grid, 1, [3]) & confine(grid, 2, [1]),
    ]
    return make_zeros((), [Rule(f"rule {x}", f"line {x}", "", "", (box,)) for x, box in enumerate(boxes)], grid)


def pose(records=None, **options):
    found, unique, population = make_data()
    return make_problem(records or found, unique, population, make_settings(**SHORT | options), make_rules())


def shorten_start(problem, sweeps):
    first, last = problem.phases
    return replace(problem, phases=(replace(first, sweeps=sweeps), last))


def start(problem, profiles=5):
    return find_position(start_chain(0, profiles, np.random.SeedSequence(7), problem))


def test_without_rules_a_chain_starts_at_once():
    records, unique, population = make_data()
    problem = make_problem(records, unique, population, make_settings(**SHORT), None)
    assert problem.start_sweeps == 0
    assert start(problem).since == 0


@pytest.mark.parametrize("rules", [None, make_rules()], ids=["no rules", "rules"])
@pytest.mark.parametrize("model", ["hdp", "mixed"])
def test_what_paper_keeps_fixed_is_learned_at_the_start_only(model, rules):
    records, unique, population = make_data()
    settings = make_settings(**SHORT | {"model": model, "prior": "paper"})
    problem = make_problem(records, unique, population, settings, rules)
    assert problem.start_sweeps == START_SWEEPS
    problem = shorten_start(problem, 20)
    fixed, _ = start_state(np.random.default_rng(1), records, problem.prior, 5)
    names = ["base_strength", "base_level", *([] if model == "mixed" else ["record_concentration", "eppf"])]
    position = start(problem)
    for made in range(1, 31):
        position = run_block(problem, position, 100, (1, 1), 0.0).position
        same = [np.array_equal(getattr(position.state, name), getattr(fixed, name)) for name in names]
        assert not any(same) if made < 20 else all(same)


def test_scratch_of_the_start_does_not_serve_the_rules():
    problem = pose()
    chain = start_chain(0, 5, np.random.SeedSequence(7), problem)
    with pytest.raises(ValueError, match="made for another prior"):
        run_sweeps(chain.rng, problem.records, problem.prior, problem.phases[-1].tuning, chain.state, chain.work, 1)


def test_large_files_have_a_shorter_start():
    def sized(records):
        return Records(np.zeros((records, 10), np.int32), np.full(records, 10), np.arange(11))

    sweeps = [count_start_sweeps(sized(n)) for n in (0, 10, 20_000, 40_000, 100_000, 1_000_000)]
    assert sweeps == [400, 400, 400, 200, 80, 20]


def test_nobody_is_imputed_before_the_rules_hold():
    problem = shorten_start(pose(), 30)
    position = start(problem)
    assert (position.phase, position.since) == (0, 0)
    imputed = []
    for made in range(1, 61):
        position = run_block(problem, position, 100, (1, 1), 0.0).position
        imputed.append(int(position.state.augmented_total[0]))
        phase, since = (0, made) if made < 30 else (1, (made - 30) % problem.thin)
        draws = max(made - 30, 0) // problem.thin
        assert (position.phase, position.draws, position.since) == (phase, draws, since)
    assert not any(imputed[:30])
    assert any(imputed[30:])


@pytest.mark.parametrize("model", ["hdp", "mixed"])
def test_a_start_is_the_same_sweep_by_sweep(model):
    problem = shorten_start(pose(model=model), 10)
    whole = run_block(problem, start(problem), 4, (1, 1), FOREVER)
    position = start(problem)
    while position.draws < 4:
        position = run_block(problem, position, 4, (1, 1), 0.0).position
    assert all(np.array_equal(x, y) for x, y in zip(position.state, whole.position.state, strict=True))
    assert position[1:] == whole.position[1:]


def test_missing_answers_are_drawn_at_the_start_too():
    records, _, _ = make_data()
    level = records.level.copy()
    level[::4, 1] = -1
    problem = shorten_start(pose(Records(level, (level >= 0).sum(axis=1), records.level_start)), 10)
    state = run_block(problem, start(problem), 1, (1, 1), FOREVER).position.state
    assert state.table_size.sum() == level.size
    used = int(state.profile_total[0])
    assert np.allclose(np.add.reduceat(state.level_profile[:, :used], records.level_start[:-1]), 1.0)


def test_a_run_stopped_in_its_start_goes_on_bit_for_bit(tmp_path, monkeypatch):
    data, rules, settings = make_data(), make_rules(), make_settings(**SHORT)
    whole = run_chains(*data, settings, rules)
    assert whole.start_sweeps == START_SWEEPS
    monkeypatch.setattr(blocks, "BLOCK_SECONDS", 0.0)
    stopped_at = []

    def stop_in_the_start(event):
        if isinstance(event, Progress) and event.sweeps >= 20:
            stopped_at.append(event)
            raise KeyboardInterrupt

    with pytest.raises(Stopped):
        run_chains(*data, settings, rules, stop_in_the_start, checkpoint=tmp_path)
    assert (stopped_at[0].draws, stopped_at[0].sweeps) == (0, 20)
    assert "profiles, 20 sweeps, " in str(stopped_at[0])
    gone_on = run_chains(*data, settings, rules, checkpoint=tmp_path, resume=True)
    assert digest(gone_on) == digest(whole)

"""The lift: learned before the first draw, fixed and shared from then on, and taken back by refusing draws."""

from dataclasses import replace

import numpy as np
import pytest

from keyhole.errors import Stopped
from keyhole.kernels.lift import sum_lift
from keyhole.kernels.state import LIFT_BINS, Records
from keyhole.sampling import Progress, blocks, chain, problem, run_chains
from keyhole.sampling.chain import advance, find_position, run_block, start_chain
from keyhole.sampling.diagnostics import effective_draws
from keyhole.sampling.history import start_history
from keyhole.sampling.problem import count_learning_sweeps, make_problem
from keyhole.sampling.rounds import share_lift
from keyhole.settings import make_settings
from tests.unit.short_runs import digest

SIZES = np.array([4, 5, 3, 4])
SHORT = {"prior": "paper", "chains": 2, "workers": 2, "max_sweeps": 40, "seed": 3}
FOREVER = 1e9


def make_data():
    """200 records of two kinds, their sample uniques, and the population."""
    rng = np.random.default_rng(8)
    kind = rng.random(200) < 0.3
    code = np.where(kind[:, None], rng.integers(0, SIZES, (200, 4)), rng.integers(0, (SIZES + 1) // 2, (200, 4)))
    start = np.concatenate([[0], np.cumsum(SIZES)])
    level = (code + start[:-1]).astype(np.int32)
    _, index, count = np.unique(level, axis=0, return_index=True, return_counts=True)
    return Records(level, np.full(200, 4), start), np.sort(index[count == 1]), 5000


@pytest.fixture
def quick(monkeypatch):
    """A start of 15 sweeps, and 25 to learn the lift."""
    monkeypatch.setattr(problem, "START_SWEEPS", 15)
    monkeypatch.setattr(problem, "LEARNING_SWEEPS", 25)
    monkeypatch.setattr(problem, "FEWEST_LEARNING_SWEEPS", 5)


def pose(**options):
    return make_problem(*make_data(), make_settings(**SHORT | options), None)


def start(found, number=0):
    return find_position(start_chain(number, 5, np.random.SeedSequence(7).spawn(2)[number], found))


def test_files_without_room_and_large_ones_have_no_lift():
    def sized(n):
        return Records(np.zeros((n, 8), np.int32), np.full(n, 8), np.arange(9))

    sweeps = [count_learning_sweeps(sized(n)) for n in (0, 191, 192, 5_000, 10_000, 15_000, 15_001)]
    assert sweeps == [0, 0, 3_000, 3_000, 1_500, 1_000, 0]


def test_only_the_model_of_the_article_has_one():
    assert pose().prior.lift_least == pytest.approx(6 / 200)
    assert pose().prior.split_merge_proposals == 0
    for options in ({"prior": "adaptive"}, {"model": "mixed", "profiles": 3}):
        found = pose(**options)
        assert (found.prior.lift_least, found.learning_sweeps) == (np.inf, 0)
        assert found.prior.split_merge_proposals > 0
    assert pose().start_prior.lift_least == np.inf


def test_heights_add_up_over_profiles_of_lifted_weight(rng):
    found = pose()
    prior = found.prior._replace(lift_least=0.04, lift_most=0.36)
    state = start(found).state
    state.profile_total[0], state.remainder[0] = 5, 0.01
    state.weight[:5] = [0.05, 0.30, 0.36, 0.039, 0.20]
    state.lift[:] = rng.random(LIFT_BINS)
    roots = np.sqrt([0.05, 0.30, 0.20])
    steps = ((roots - 0.2) / 0.4 * LIFT_BINS).astype(int)
    assert sum_lift(rng, prior, state, True) == pytest.approx(state.lift[steps].sum())
    state.remainder[0] = 0.5
    unseen = [sum_lift(rng, prior, state, True) - state.lift[steps].sum() for _ in range(50)]
    assert min(unseen) >= -1e-12
    assert max(unseen) > 0.1


def test_heights_are_learned_before_the_first_draw_and_then_fixed(quick):
    found = pose()
    assert (found.start_sweeps, found.learning_sweeps, found.first_sweeps) == (15, 25, 40)
    position = start(found)
    assert position.since == -40
    heights = []
    for _ in range(60):
        position = run_block(found, position, 1_000, (1, 1), 0.0).position
        heights.append(position.state.lift.copy())
    assert not np.any(heights[14])
    assert all(np.any(heights[x] != heights[x - 1]) for x in range(15, 40))
    assert all(np.array_equal(heights[x], heights[39]) for x in range(40, 60))
    assert np.all(heights[39] >= 0.0)
    assert np.any(heights[39] > 0.0)


def test_with_no_draw_wanted_a_block_ends_with_the_start(quick):
    found = pose()
    block = run_block(found, start(found), 0, (1, 1), FOREVER)
    assert (block.position.since, block.position.draws, block.quantities) == (0, 0, [])


def test_refused_draws_are_counted_and_come_at_the_same_sweeps(quick):
    found = pose()
    position = run_block(found, start(found), 0, (1, 1), FOREVER).position
    position.state.lift[:] = 1.0
    whole = run_block(found, position, 20, (1, 1), FOREVER).position
    assert (whole.draws, whole.since) == (20, 0)
    assert whole.refused > 5
    made, pieces = 0, position
    while pieces.draws < 20:
        pieces = run_block(found, pieces, 20, (1, 1), 0.0).position
        made += 1
    assert made == (20 + whole.refused) * found.spacing
    assert all(np.array_equal(x, y) for x, y in zip(pieces.state, whole.state, strict=True))
    assert pieces[1:] == whole[1:]
    history = start_history(0, 5, whole, len(found.cell_level))
    history.quantities = [{}] * 20
    assert history.sweeps(found) == 40 + made


def test_chains_share_the_mean_and_sharing_twice_changes_nothing(quick):
    found = pose()
    histories = [start_history(c, 5, start(found, c % 2), 3) for c in range(3)]
    learned = np.random.default_rng(1).random((3, LIFT_BINS))
    for history, lift in zip(histories, learned, strict=True):
        history.position.state.lift[:] = lift
    share_lift(histories)
    shared = [history.position.state.lift for history in histories]
    assert shared[0] == pytest.approx(learned.mean(axis=0))
    share_lift(histories)
    assert all(np.array_equal(history.position.state.lift, shared[0]) for history in histories)


@pytest.mark.parametrize("when", ["learning", "drawing"])
def test_a_run_stopped_on_the_way_goes_on_bit_for_bit(tmp_path, monkeypatch, quick, when):
    data, settings = make_data(), make_settings(**SHORT)
    whole = run_chains(*data, settings)
    assert (whole.start_sweeps, whole.learning_sweeps) == (15, 25)
    assert whole.refused > 0
    assert digest(run_chains(*data, make_settings(**SHORT | {"workers": 1}))) == digest(whole)
    monkeypatch.setattr(blocks, "BLOCK_SECONDS", 0.0)
    first = 20 if when == "learning" else 45

    def stop(event):
        if isinstance(event, Progress) and event.sweeps >= first:
            raise KeyboardInterrupt

    with pytest.raises(Stopped):
        run_chains(*data, settings, on_progress=stop, checkpoint=tmp_path)
    resumed = run_chains(*data, settings, checkpoint=tmp_path, resume=True)
    assert digest(resumed) == digest(whole)
    assert resumed.refused == whole.refused


def draw_chain(found, heights, seed, draws):
    """Effective profiles and expected tau1 of every draw."""
    one = start_chain(0, 5, np.random.SeedSequence(seed), found)
    while one.since < 0:
        chain.run_one_sweep(one, found)
    one.state.lift[:] = heights
    out = []
    for _ in range(draws):
        advance(one, found)
        out.append([one.quantities[-1]["effective_profiles"], one.quantities[-1]["tau1_expected"]])
    return np.array(out).T


def compare(first, second):
    """The largest difference of means in their Monte Carlo standard errors."""
    z = []
    for one, other in zip(first, second, strict=True):
        errors = [values.std() / np.sqrt(effective_draws(values[None], "bulk")) for values in (one, other)]
        z.append((one.mean() - other.mean()) / np.hypot(*errors))
    return float(np.abs(z).max())


def test_refusing_draws_takes_the_lift_back(quick, monkeypatch):
    """Draws under a strong lift follow the posterior of a run without one; if all were kept they would not."""
    found = replace(pose(), spacing=4)
    heights = np.linspace(1.5, 0.0, LIFT_BINS)
    plain = draw_chain(found, 0.0, 1, 900)
    assert compare(draw_chain(found, heights, 2, 900), plain) < 5.0
    monkeypatch.setattr(chain, "may_draw", lambda one, posed: one.since >= posed.spacing)
    assert compare(draw_chain(found, heights, 3, 900), plain) > 6.0


def test_progress_reckons_with_refused_draws(quick, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_SECONDS", 0.0)
    told = []
    run_chains(*make_data(), make_settings(**SHORT), on_progress=told.append)
    events = [event for event in told if isinstance(event, Progress)]
    assert max(event.sweeps for event in events) > 40 + 40
    assert {event.wanted for event in events} == {20, 200}
    assert all(event.round_left >= 0.0 for event in events)


def test_the_start_is_made_whole_even_when_time_is_over(quick, monkeypatch):
    monkeypatch.setattr(problem, "LEARNING_SWEEPS", 400)
    told = []
    settings = make_settings(**SHORT | {"time_limit": 0.1, "max_sweeps": None})
    found = run_chains(*make_data(), settings, on_progress=told.append)
    assert (found.stopped, found.learning_sweeps) == ("time", 400)
    assert found.quantities["tau1"].shape[1] >= blocks.FEWEST - int(0.5 * blocks.FEWEST)
    assert max(event.sweeps for event in told if isinstance(event, Progress)) >= 415 + blocks.FEWEST * found.spacing

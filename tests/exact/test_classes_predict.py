"""A draw of `classes` says what its parameters say: q(c) = sum_k w_k P_k(c) / s_k, summed over every cell of the table.

Brute force lists the possible cells; keyhole sums over boxes and sets.
"""

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import kstest

from keyhole.kernels.cells import make_cell_work
from keyhole.kernels.classes import Tally, find_possible
from keyhole.kernels.freeze import LEFT, Draw
from keyhole.kernels.importance import importance_probabilities
from keyhole.kernels.population import draw_people, draw_possible_people
from keyhole.sampling.classes import NO_LABELS, ClassState, freeze_classes, sweep_classes
from keyhole.sampling.events import Coarsening, describe_cells, leave_out, make_events
from keyhole.sampling.predict import make_draw, measure, predict, shorten
from keyhole.sampling.trace import pad_draws
from tests.exact.enumeration import chi_square_p
from tests.oracle.boxes import fillings
from tests.oracle.classes_oracle import possible_cells
from tests.statistical.boxes import box_arrays
from tests.statistical.classes_bench import BENCHES, Bench, as_levels, lay_out

NAMES = ("no rules", "missing answers, shards", "rules", "rules, missing answers, shards", "two possible cells in six")
PEOPLE = 1000.0


def run(rng, bench: Bench, sweeps: int = 5):
    """Cells and the state of a chain that starts from the prior."""
    cells, (labels, profiles, _) = lay_out(bench.draw(rng), bench.start, bool(bench.boxes))
    state = ClassState(Tally(labels.records, labels.level_count), profiles, NO_LABELS)
    for _ in range(sweeps):
        state = sweep_classes(rng, cells, bench.prior, state)
    return cells, state


def table(bench: Bench, level_profile: NDArray) -> tuple[NDArray, NDArray]:
    """P_k(c) of the possible cells, (K, cells), and s_k."""
    product = np.array(
        [
            np.prod([level_profile[bench.start[j] + x] for j, x in enumerate(cell)], axis=0)
            for cell in possible_cells(bench.levels, bench.boxes)
        ]
    ).T
    return product, product.sum(axis=1)


def brute_force(bench: Bench, weight: NDArray, level_profile: NDArray) -> NDArray:
    """q of all possible cells."""
    product, possible = table(bench, level_profile)
    return weight @ (product / possible[:, None])


def possible_boxes(bench: Bench):
    return box_arrays(bench.levels, bench.boxes)[1] if bench.boxes else None


def predict_all(rng, bench: Bench, draw: Draw):
    """q of all possible cells, as keyhole has it."""
    cells = as_levels(np.array(possible_cells(bench.levels, bench.boxes)), bench.start)
    return predict(rng, draw, describe_cells(cells, bench.start, possible_boxes(bench)), bench.prior.rules)


def check_frozen(rng, bench: Bench) -> None:
    """Where hardly anybody is expected in the remainder, it is one more profile with the base levels."""
    for _ in range(20):
        cells, state = run(rng, bench)
        profiles = state.profiles
        if profiles.remainder[0] > 0.4 * LEFT:
            profiles = profiles._replace(remainder=np.array([0.4 * LEFT]))
            state = state._replace(profiles=profiles)
        draw = freeze_classes(rng, cells, bench.prior, state, 1.0)
        weight = np.append(profiles.weight, profiles.remainder)
        rows = np.column_stack([profiles.level_profile, profiles.base_level])
        found = predict_all(rng, bench, draw)
        assert found.q == pytest.approx(brute_force(bench, weight / weight.sum(), rows), rel=1e-9, abs=1e-300)
        assert found.q.sum() == pytest.approx(1.0, rel=1e-9)
        assert found.error == 0.0


@pytest.mark.parametrize("name", NAMES)
def test_a_draw_without_new_sticks_is_its_state(rng, name):
    check_frozen(rng, BENCHES[name])


@pytest.mark.parametrize("name", NAMES)
def test_a_draw_keeps_the_profiles_and_their_weights(rng, name):
    """The weights before they are divided by s_k are those of the state, the sticks, and less than LEFT people."""
    bench = BENCHES[name]
    for _ in range(20):
        cells, state = run(rng, bench)
        draw, profiles = freeze_classes(rng, cells, bench.prior, state, PEOPLE), state.profiles
        used = len(profiles.weight)
        assert np.array_equal(draw.level_profile[:, :used], profiles.level_profile)
        assert np.array_equal(draw.level_profile[:, -1], profiles.base_level)
        assert np.add.reduceat(draw.level_profile, bench.start[:-1]) == pytest.approx(1.0)
        weight = draw.weight * table(bench, draw.level_profile)[1]
        weight /= weight.sum()
        assert weight[:used] == pytest.approx(profiles.weight, rel=1e-9)
        assert weight[used:].sum() == pytest.approx(profiles.remainder[0], rel=1e-9)
        assert weight[-1] * PEOPLE < LEFT
        assert predict_all(rng, bench, draw).q == pytest.approx(brute_force(bench, weight, draw.level_profile))


def check_sticks(rng, bench: Bench, draws: int) -> None:
    """nu ~ Beta(gamma, 1), so that nu^gamma is uniform, and the rows of new profiles follow H."""
    cells, state = run(rng, bench)
    hyper = {
        "weight_concentration": np.array([0.7]),
        "base_strength": np.array([1.5, 2.0, 3.0]),
        "base_level": np.array([0.3, 0.7, 0.2, 0.3, 0.5, 0.6, 0.4]),
        "remainder": np.array([0.4]),
    }
    profiles = state.profiles._replace(weight=state.profiles.weight * 0.6 / state.profiles.weight.sum(), **hyper)
    state, used = state._replace(profiles=profiles), len(profiles.weight)
    uniform, rows = [], []
    for _ in range(draws):
        draw = freeze_classes(rng, cells, bench.prior, state, 100.0)
        weight = draw.weight * table(bench, draw.level_profile)[1]
        left = np.cumsum((weight / weight.sum())[::-1])[::-1]
        uniform.append((left[used + 1] / left[used]) ** 0.7)
        rows.append(draw.level_profile[:, used])
    assert left[used] == pytest.approx(0.4)
    assert kstest(uniform, "uniform").pvalue > 1e-6
    rows = np.array(rows)
    mean, strength = hyper["base_level"], np.repeat(hyper["base_strength"], bench.levels)
    variance = mean * (1.0 - mean) / (strength + 1.0)
    assert np.abs((rows.mean(axis=0) - mean) / np.sqrt(variance / len(rows))).max() < 4.5
    squares = (rows - mean) ** 2
    assert np.abs((squares.mean(axis=0) - variance) / (squares.std(axis=0) / np.sqrt(len(rows)))).max() < 4.5


@pytest.mark.parametrize("name", ["no rules", "rules"])
def test_sticks_have_their_law(rng, name):
    check_sticks(rng, BENCHES[name], 2_000)


@pytest.mark.parametrize("name", NAMES)
def test_cells_with_missing_answers_and_coarse_cells_are_sums(rng, name):
    bench = BENCHES[name]
    cells, state = run(rng, bench)
    draw = freeze_classes(rng, cells, bench.prior, state, PEOPLE)
    possible = possible_cells(bench.levels, bench.boxes)
    q = dict(zip(possible, predict_all(rng, bench, draw).q, strict=True))
    options = itertools.product(*([-1, *range(d)] for d in bench.levels))
    blanks = [row for row in options if -1 in row and any(cell in q for cell in fillings(bench.levels, row))]
    level = as_levels(np.array(blanks), bench.start)
    found = predict(rng, draw, describe_cells(level, bench.start, possible_boxes(bench)), bench.prior.rules).q
    sums = [sum(q.get(cell, 0.0) for cell in fillings(bench.levels, row)) for row in blanks]
    assert found == pytest.approx(sums, rel=1e-9)
    # Variable 0 left out, and the first two categories of the next one merged.
    merged = tuple(
        [((0, 1), *((x,) for x in range(2, bench.levels[1])))]
        + [tuple((x,) for x in range(d)) for d in bench.levels[2:]]
    )
    for coarsening in (leave_out(bench.levels, 0), Coarsening(tuple(range(1, len(bench.levels))), merged)):
        coarse = [tuple(row) for row in coarsening.apply(np.array(possible, np.int32)).tolist()]
        wanted = sorted(set(coarse))
        events = make_events(np.array(wanted, np.int32), coarsening, bench.levels, possible_boxes(bench))
        sums = [sum(q[c] for c, name in zip(possible, coarse, strict=True) if name == row) for row in wanted]
        assert predict(rng, draw, events, bench.prior.rules).q == pytest.approx(sums, rel=1e-9)


@pytest.mark.parametrize("name", ["no rules", "rules"])
def test_stored_draws_say_nearly_the_same(rng, name):
    """Single precision."""
    bench = BENCHES[name]
    cells, state = run(rng, bench)
    draw = freeze_classes(rng, cells, bench.prior, state, PEOPLE)
    q, stored = (predict_all(rng, bench, found).q for found in (draw, shorten(draw, bench.prior.rules)))
    assert stored == pytest.approx(q, rel=1e-5, abs=1e-30)
    assert measure(stored, 100).expected == pytest.approx(measure(q, 100).expected, rel=1e-5)


@pytest.mark.parametrize("tiny", [1e-10, 1e-50])
def test_a_profile_with_a_tiny_possible_mass_is_stored_with_its_people(rng, tiny):
    """Divided by s_k the profile has half of the people, however small s_k is."""
    bench = BENCHES["rules"]
    rows = np.array([[1.0 - tiny, 0.5], [tiny, 0.5], [0.5, 0.3], [0.5, 0.3], [tiny, 0.4], [0.3, 0.8], [0.7, 0.2]])
    weight = np.array([0.5, 0.5]) / find_possible(bench.prior.rules, rows)
    draw = make_draw(weight / weight.sum(), rows, np.zeros(2), np.zeros(1), True, 3)
    wanted = brute_force(bench, np.array([0.5, 0.5]), rows)
    assert predict_all(rng, bench, draw).q == pytest.approx(wanted, rel=1e-9)
    stored = shorten(draw, bench.prior.rules)
    assert predict_all(rng, bench, stored).q == pytest.approx(wanted, rel=1e-5)
    # Beside a draw in single precision too, as a result folder has them.
    single = draw._replace(level_profile=draw.level_profile.astype(np.float32))
    packed = pad_draws(((single, stored),))
    again = draw._replace(weight=packed["weight"][0, 1], level_profile=packed["level_profile"][0, 1])
    assert predict_all(rng, bench, again).q == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_people_drawn_from_a_draw_are_in_cells_as_often_as_predicted(rng, name):
    bench = BENCHES[name]
    cells, state = run(rng, bench)
    draw = freeze_classes(rng, cells, bench.prior, state, PEOPLE)
    rules, people = bench.prior.rules, np.zeros((20_000, len(bench.levels)), np.int32)
    if bench.boxes:
        work = make_cell_work(int(np.diff(rules.possible_start).max()), len(draw.weight))
        draw_possible_people(
            rng, rules, draw.weight, draw.level_profile, len(draw.weight), draw.eppf, bench.start, work, people
        )
    else:
        draw_people(rng, draw, bench.start, people)
    possible = [tuple(row) for row in as_levels(np.array(possible_cells(bench.levels, bench.boxes)), bench.start)]
    place = {cell: x for x, cell in enumerate(possible)}
    count = np.bincount([place[tuple(person)] for person in people], minlength=len(possible))
    assert chi_square_p(count, predict_all(rng, bench, draw).q * len(people)) > 1e-6


def test_particles_agree_with_the_sum(rng):
    """Particles are for records with several tables; with a single one they must find the same probabilities."""
    bench = BENCHES["no rules"]
    cells, state = run(rng, bench)
    draw = freeze_classes(rng, cells, bench.prior, state, PEOPLE)
    level = as_levels(np.array(possible_cells(bench.levels, ())), bench.start)
    found = np.zeros(len(level))
    importance_probabilities(rng, draw, level, 50, found)
    assert found == pytest.approx(predict_all(rng, bench, draw).q, rel=1e-9)


@pytest.mark.parametrize("name", ["rules", "rules, missing answers, shards", "two possible cells in six"])
def test_possible_mass_is_that_of_all_cells(rng, name):
    """Also where it is tiny: no digit is lost to subtraction."""
    bench = BENCHES[name]
    rows = np.concatenate([rng.dirichlet(np.full(d, 0.03), 200).T for d in bench.levels])
    mass = table(bench, rows)[1]
    assert mass.min() < 1e-12
    large = mass > 1e-150
    assert find_possible(bench.prior.rules, rows)[large] == pytest.approx(mass[large], rel=1e-12)

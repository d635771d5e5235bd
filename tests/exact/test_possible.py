"""People drawn among the possible, against exact cell probabilities and against rejection, both from the oracle."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2

from keyhole.kernels.cells import make_cell_work
from keyhole.kernels.eppf import fill_fixed_alpha_eppf, fill_random_alpha_eppf
from keyhole.kernels.population import draw_possible_people
from keyhole.kernels.state import no_rules
from keyhole.sampling.layout import make_rules
from tests.oracle.model import Draw, Model, draw_from_prior
from tests.oracle.rejection import World, draw_person, find_box
from tests.oracle.risk import plain_cell_probability

LEVELS = (2, 3, 2, 4)
START = np.concatenate([[0], np.cumsum(LEVELS)]).astype(np.int64)
IMPOSSIBLE = ({0: {0}, 1: {0, 1}}, {0: {1}, 1: {2}, 2: {0}}, {0: {1}, 1: {0, 1}, 3: {2, 3}})
POSSIBLE = ({0: {0}, 1: {2}}, {0: {1}, 1: {2}, 2: {1}}, {0: {1}, 1: {0, 1}, 3: {0, 1}})
MODELS = {
    "hdp": Model(LEVELS),
    "hdp adaptive": Model(LEVELS, adaptive=True),
    "mixed": Model(LEVELS, finite=True, profiles=3),
}
PEOPLE = 100_000
LEVEL = 1e-6


def box_rows(boxes):
    rows = np.ones((len(boxes), START[-1]), np.uint8)
    for row, box in zip(rows, boxes, strict=True):
        for j, admitted in box.items():
            row[START[j] : START[j + 1]] = [x in admitted for x in range(LEVELS[j])]
    return rows


RULES = {"rules": make_rules(box_rows(IMPOSSIBLE), box_rows(POSSIBLE), START), "no rules": no_rules()}


def draw_cells(rng, draw: Draw, model: Model, rules, people: int, record=None) -> Counter:
    """Count the cells of people whom the kernel draws; `record` in place of the right (a, b), to plant an error."""
    weight = np.array([*draw.weight, draw.remainder])
    rows = [np.concatenate(theta) for theta in (*draw.theta, draw.hyper.base)]
    eppf = np.zeros((len(LEVELS) + 1, len(LEVELS) + 2))
    if model.finite:
        fill_fixed_alpha_eppf(draw.hyper.alpha, eppf)
    else:
        fill_random_alpha_eppf(*(record or draw.hyper.record), eppf)
    out = np.zeros((people, len(LEVELS)), np.int32)
    work = make_cell_work(3, len(weight))
    draw_possible_people(rng, rules, weight, np.array(rows).T.copy(), len(weight), eppf, START, work, out)
    return Counter(map(tuple, (out - START[:-1]).tolist()))


def p_value(found: Counter, expected: dict) -> float:
    """Chi-square test; cells with fewer than ten expected are taken together."""
    assert found.keys() <= expected.keys()
    rare = [cell for cell, e in expected.items() if e < 10.0]
    pairs = [(found[cell], e) for cell, e in expected.items() if e >= 10.0]
    if sum(expected[cell] for cell in rare) >= 10.0:
        pairs.append((sum(found[cell] for cell in rare), sum(expected[cell] for cell in rare)))
    return float(chi2.sf(sum((o - e) ** 2 / e for o, e in pairs), len(pairs) - 1))


def exact_counts(draw: Draw, model: Model, boxes) -> dict:
    cells = [cell for cell in np.ndindex(*LEVELS) if find_box(cell, boxes) is None]
    chance = {cell: plain_cell_probability(draw, model, cell) for cell in cells}
    total = sum(chance.values())
    return {cell: PEOPLE * p / total for cell, p in chance.items()}


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("name", MODELS)
def test_people_fall_into_cells_as_often_as_they_should(rng, name, rules):
    draw = draw_from_prior(rng, MODELS[name], 6)
    expected = exact_counts(draw, MODELS[name], IMPOSSIBLE if rules == "rules" else ())
    assert p_value(draw_cells(rng, draw, MODELS[name], RULES[rules], PEOPLE), expected) > LEVEL


@pytest.mark.parametrize("rules", RULES)
def test_a_wrong_concentration_is_noticed(rng, rules):
    """Negative control: the same people, but answers that share tables more often."""
    draw = draw_from_prior(rng, MODELS["hdp"], 6)
    expected = exact_counts(draw, MODELS["hdp"], IMPOSSIBLE if rules == "rules" else ())
    assert p_value(draw_cells(rng, draw, MODELS["hdp"], RULES[rules], PEOPLE, (0.5, 1.0)), expected) < LEVEL


@pytest.mark.parametrize("name", ["hdp", "mixed"])
def test_rejection_finds_the_same_people(rng, name):
    """Draw people one by one and throw the impossible ones away; a two-sample chi-square."""
    draw = draw_from_prior(rng, MODELS[name], 6)
    weight = np.array(draw.weight) / sum(draw.weight)
    theta = [np.array([row[j] for row in draw.theta]) for j in range(len(LEVELS))]
    hyper = draw.hyper
    world = World(hyper.gamma, hyper.record, hyper.alpha, hyper.strength, hyper.base, weight, theta)
    model = "mixed" if MODELS[name].finite else "hdp"
    drawn = (tuple(person.cell[j] for j in range(len(LEVELS))) for person in
             (draw_person(rng, world, model) for _ in range(20_000)))  # fmt: skip
    plain = Counter(cell for cell in drawn if find_box(cell, IMPOSSIBLE) is None)
    draw.weight, draw.remainder = list(weight), 0.0
    ours = draw_cells(rng, draw, MODELS[name], RULES["rules"], sum(plain.values()))
    cells = [cell for cell in plain | ours if plain[cell] + ours[cell] >= 20]
    distance = sum((plain[cell] - ours[cell]) ** 2 / (plain[cell] + ours[cell]) for cell in cells)
    assert len(cells) >= 5
    assert chi2.sf(distance, len(cells) - 1) > LEVEL

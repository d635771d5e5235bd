"""Labels of `classes` given weights and rows: those of a cell are one multinomial with weights w_k P_k(c) / s_k.

Under rules P_k(c) of a cell with missing answers is that of the possible cells that agree with it, and the missing
answers are drawn from them. All of it is listed by brute force.
"""

from unittest.mock import patch

import numpy as np
import pytest
from scipy.stats import chi2

from keyhole.kernels.classes import Cells, draw_labels, find_possible
from keyhole.sampling import classes, shards
from tests.oracle.boxes import fillings
from tests.oracle.classes_oracle import possible_cells
from tests.statistical.boxes import Box
from tests.statistical.classes_bench import FEW, as_levels, make_prior

LEVELS = (2, 3, 2)
START = np.concatenate([[0], np.cumsum(LEVELS)]).astype(np.int64)
BOXES = ({0: {0}, 1: {0, 1}}, {0: {1}, 1: {2}, 2: {0}})
ROWS = [(-1, 1, 0), (0, -1, -1), (0, 2, 0), (0, 2, 1), (1, -1, 0), (1, -1, 1), (1, 0, 0), (1, 0, 1), (1, 1, 0)]
SIZES = np.array([3, 40, 1, 2, 7, 1, 60, 1, 2])
"""With five profiles, some cells have fewer than three records for each profile, and some more."""


def exact_shares(boxes: tuple[Box, ...], weight, rows):
    """P(profile) of a record of each cell, (cells, K), and with rules its joint law with each level, (., levels, K)."""
    possible = possible_cells(LEVELS, boxes)
    product = {c: np.prod([rows[START[j] + x] for j, x in enumerate(c)], axis=0) for c in possible}
    relative = weight / sum(product.values())
    shares, answers = [], []
    for row in ROWS:
        agreeing = [cell for cell in fillings(LEVELS, row) if cell in product]
        joint = np.zeros((START[-1], len(weight)))
        for cell in agreeing:
            for j, x in enumerate(cell):
                if boxes or row[j] >= 0:
                    joint[START[j] + x] += relative * product[cell]
        share = relative * sum(product[cell] for cell in agreeing)
        shares.append(share / share.sum())
        answers.append(joint / share.sum())
    return np.array(shares), np.array(answers)


def check_labels(rng, boxes: tuple[Box, ...], draws: int) -> None:
    """Draw labels many times, in two parts; compare shares by chi-square, tallies and answers with expectations."""
    rows = np.concatenate([rng.dirichlet(np.full(d, 0.4), 5).T for d in LEVELS])
    weight = np.array([0.4, 0.25, 0.15, 0.1, 0.02])
    cells = Cells(as_levels(np.array(ROWS), START), SIZES, START)
    rules = make_prior(LEVELS, boxes, True).rules
    possible = find_possible(rules, rows)
    shares, answers = exact_shares(boxes, weight, rows)
    count, tally = np.zeros(shares.shape), []
    for _ in range(draws):
        level_count = 0
        for first, last in ((0, 4), (4, len(ROWS))):
            found = draw_labels(rng, cells, first, last, rules, weight, rows, possible)
            size = np.zeros((last - first, len(weight)))
            size[np.repeat(np.arange(last - first), np.diff(found.start)), found.profile] = found.size
            assert (size.sum(axis=1) == SIZES[first:last]).all()
            assert (found.records == size.sum(axis=0)).all()
            count[first:last] += size
            level_count = level_count + found.level_count
        tally.append(level_count)
    expected = draws * SIZES[:, None] * shares
    frequent = expected > 5.0
    statistic = ((count - expected) ** 2 / np.maximum(expected, 1e-300))[frequent].sum()
    assert chi2.sf(statistic, frequent.sum() - (frequent.sum(axis=1) > 0).sum()) > 1e-6
    tallies = np.array(tally, float)
    wanted = np.tensordot(SIZES, answers, axes=1)
    # A record is one of wanted / n such answers; the variance is at most that of a Poisson count.
    seen = wanted * draws > 50.0
    error = np.sqrt(np.maximum(wanted, 1e-300) / draws)
    assert np.abs((tallies.mean(axis=0) - wanted) / error)[seen].max() < 4.5
    assert tallies.sum() == pytest.approx(draws * (SIZES @ [3 if boxes else sum(x >= 0 for x in r) for r in ROWS]))
    assert np.abs(tallies[:, wanted == 0.0]).sum() == 0.0


@pytest.mark.parametrize("boxes", [(), BOXES], ids=["no rules", "rules"])
def test_labels_of_a_cell_are_one_multinomial(rng, boxes):
    for _ in range(3):
        check_labels(rng, boxes, 1_500)


def check_shards(rng) -> None:
    """Every cell is in one shard, and every shard of every sweep has numbers of its own."""
    numbers = []
    cells = Cells(as_levels(np.array(ROWS), START), SIZES, START)
    met: list[tuple[int, int]] = []

    def note(stream, cells, first, last, *others):
        met.append((first, last))
        numbers.append(stream.random())
        return kernel(stream, cells, first, last, *others)

    kernel, prior = classes.draw_labels, make_prior(LEVELS, (), True)
    parameters = np.ones(1), np.ones((int(START[-1]), 1)), np.ones(1)
    with patch.object(shards, "SHARD", FEW), patch.object(classes, "draw_labels", note):
        for _ in range(20):
            met.clear()
            classes.tally_labels(rng, cells, prior, *parameters, shards.here)
            assert [x for first, last in met for x in range(first, last)] == list(range(9))
            assert all(0 < last - first <= FEW for first, last in met)
    assert len(set(numbers)) == len(numbers) == 100


def test_shards_have_streams_of_their_own(rng):
    check_shards(rng)

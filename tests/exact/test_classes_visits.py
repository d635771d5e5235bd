"""The weights with which a visited record of `classes` draws its profile are ratios of joint probabilities.

The joint probability of labels and answers, weights and rows integrated out, is computed record by record here: a
Chinese restaurant, and a Polya urn at every node of every tree. The first key has three layouts, the second is flat.
"""

from unittest.mock import patch

import numpy as np
import pytest

from keyhole.kernels import visits
from keyhole.kernels.classes import Cells, Profiles
from keyhole.kernels.visits import count_labels, visit_records
from tests.statistical.prior_pool import make_prior
from tests.statistical.test_ordered import LAYOUTS, START, leaves, size_class

RECORDS, PROFILES = 9, 3
TREES = make_prior(False, True, [5, 2], ordered=True).trees


def log_urn(tree, strength, pi, answers):
    """Log probability of answers one after the other, the splits of a tree integrated out."""
    if isinstance(tree, int):
        return 0.0
    share = np.array([pi[leaves(part)].sum() for part in tree])
    s = strength[size_class(tree)]
    seen, value = np.zeros(len(tree)), 0.0
    for answer in answers:
        edge = next((x for x, part in enumerate(tree) if answer in leaves(part)), None)
        if edge is not None:
            value += np.log((s * share[edge] / share.sum() + seen[edge]) / (s + seen.sum()))
            seen[edge] += 1
    return value + sum(log_urn(part, strength, pi, answers) for part in tree)


def log_joint(level, label, layout, strength, pi, gamma):
    """Log probability of labels and answers given layouts, strengths and pi."""
    value, sizes = 0.0, {}
    for i, k in enumerate(label):
        value += np.log(sizes.get(k, gamma) / (i + gamma))
        sizes[k] = sizes.get(k, 0) + 1
    for k in sizes:
        mine = level[label == k]
        value += log_urn(LAYOUTS[layout[k]], strength, pi[:5], mine[mine[:, 0] >= 0, 0])
        count = np.zeros(2)
        for v in mine[mine[:, 1] >= 0, 1] - 5:
            value += np.log((strength[3] * pi[5 + v] + count[v]) / (strength[3] + count.sum()))
            count[v] += 1
    return value


def draw_example(rng):
    """Records with blanks, labels, layouts and hyperparameters at random."""
    level = np.column_stack([rng.integers(0, 5, RECORDS), 5 + rng.integers(0, 2, RECORDS)]).astype(np.int32)
    level[rng.random(level.shape) < 0.15] = -1
    level[0] = 2, -1
    rows, size = np.unique(level, axis=0, return_counts=True)
    label = np.append(np.arange(PROFILES), rng.integers(0, PROFILES, RECORDS - PROFILES))
    label = rng.permutation(label).astype(np.int32)
    layout = np.stack([rng.integers(0, 3, PROFILES), np.zeros(PROFILES, np.int64)])
    strength, gamma = np.exp(rng.normal(size=4)), rng.gamma(2.0)
    pi = np.concatenate([rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(2))])
    old = Profiles(
        np.zeros(0), np.zeros(1), np.zeros((7, 0)), np.zeros(0), np.array([gamma]), strength, pi, layout
    )  # fmt: skip
    return Cells(np.ascontiguousarray(rows), size.astype(np.int64), START), label, old


def check_weights(rng, examples):
    """Compare the chances of every record's labels."""
    for _ in range(examples):
        cells, label, old = draw_example(rng)
        gamma, strength, pi = old.weight_concentration[0], old.base_strength, old.base_level
        nodes = visits.make_nodes(TREES, START, strength, pi)
        held = visits.hold_records(TREES, nodes, cells, label, old.layout)
        every = np.repeat(cells.level, cells.size, axis=0)
        score, cumulative = np.zeros(len(held.records)), np.zeros(len(held.records))
        for i, level in enumerate(every):
            each = visits.weigh_profiles(TREES, nodes, held, gamma, pi, level, PROFILES, score, cumulative)
            found = score[: PROFILES + 1].copy()
            assert np.allclose(cumulative[: PROFILES + 1], np.cumsum(found))
            found[label[i]] = visits.weigh_own(TREES, nodes, held, level, label[i], each)
            logs = []
            for k in range(PROFILES + 1):
                moved = label.copy()
                moved[i] = k
                logs.append(log_joint(every, moved, np.append(old.layout[0], 0), strength, pi, gamma))
            wanted = np.exp(np.array(logs) - max(logs))
            if (label == label[i]).sum() == 1:
                # Alone in its profile: that it stays means a new one.
                wanted[label[i]] = 0.0
            assert np.allclose(found / found.sum(), wanted / wanted.sum(), rtol=1e-9, atol=1e-14)


def check_moves(rng, examples):
    """Profiles from which records came and went are those that hold the records anew."""
    for _ in range(examples):
        cells, label, old = draw_example(rng)
        nodes = visits.make_nodes(TREES, START, old.base_strength, old.base_level)
        held = visits.hold_records(TREES, nodes, cells, label, old.layout)
        every = np.repeat(cells.level, cells.size, axis=0)
        for i in rng.permutation(RECORDS):
            k = rng.integers(PROFILES)
            visits.move_record(TREES, nodes, held, every[i], label[i], -1)
            visits.move_record(TREES, nodes, held, every[i], k, 1)
            label[i] = k
        again = visits.hold_records(TREES, nodes, cells, label, old.layout)
        for a, b in zip(held, again, strict=True):
            assert np.allclose(a, b)


def check_choice(rng):
    """The label that is drawn has its weight, that of the record's own profile being another than in the sums."""
    weight, own = np.array([0.5, 0.0, 2.0, 1.0]), 0.7
    for k in range(3):
        wanted = weight.copy()
        wanted[k] = own
        drawn = [visits.draw_other(rng, np.cumsum(weight), 3, k, own) for _ in range(20_000)]
        share = np.bincount(drawn, minlength=4) / len(drawn)
        assert np.abs(share - wanted / wanted.sum()).max() < 4.5 * np.sqrt(0.25 / len(drawn))
        assert k == 1 or share[1] == 0.0


def check_layouts(rng):
    """A profile that opens has each layout with the same probability."""
    nodes = visits.make_nodes(TREES, START, np.ones(4), np.repeat([0.2, 0.5], [5, 2]))
    held = visits.make_held(2, len(TREES.edge_first), 7, 600)
    for k in range(600):
        visits.open_profile(rng, TREES, nodes, held, k)
    share = np.bincount(held.layout[0], minlength=3) / 600
    assert np.abs(share - 1 / 3).max() < 4.5 * np.sqrt(2 / 9 / 600)
    assert (held.layout[1] == 0).all()


def test_layouts_of_new_profiles_are_uniform(rng):
    check_layouts(rng)


def test_weights_are_ratios_of_joint_probabilities(rng):
    check_weights(rng, 40)


def test_moves_of_records_keep_the_counts(rng):
    check_moves(rng, 40)


def test_a_label_is_drawn_by_weight(rng):
    check_choice(rng)


@pytest.mark.parametrize("passes", [1, 5])
def test_labels_are_named_without_gaps(rng, passes):
    """Also where more profiles are opened than there was room for at first."""
    opened = 0
    for _ in range(30):
        cells, label, old = draw_example(rng)
        old = old._replace(weight_concentration=np.array([50.0]))
        more = Cells(cells.level, 40 * cells.size, START)
        found, layout = visit_records(rng, more, TREES, np.repeat(label[: len(cells.size)], more.size), old, passes)
        tally = count_labels(more, found, layout.shape[1])
        assert (tally.records > 0).all()
        assert tally.records.sum() == len(found) == 40 * RECORDS
        assert ((layout >= 0) & (layout < np.array([[3], [1]]))).all()
        opened = max(opened, layout.shape[1])
    assert opened > PROFILES + visits.SPARE


def test_tiny_weights_in_logarithms(rng):
    """Interpreted, since a compiled kernel has its constants inside."""
    parts = ("weigh_profiles", "weigh_own", "add_weights", "is_flat")
    plain = {name: getattr(visits, name) for name in parts}
    with patch.multiple(visits, TINY=np.inf, **{name: getattr(f, "py_func", f) for name, f in plain.items()}):
        check_weights(rng, 10)

"""Which keys are taken as ordered, and the layouts that they get."""

import numpy as np
import polars as pl
import pytest

import keyhole as kh
from keyhole.data import Variable, encode, read_codebook, read_microdata
from keyhole.data.columns import SourceOptions
from keyhole.data.order import list_ordered, note_order, order_keys
from keyhole.errors import CodebookError, InputError
from keyhole.kernels.classes import Tally
from keyhole.kernels.profiles import drop_empty_profiles
from keyhole.kernels.state import Records
from keyhole.sampling.classes import drop_empty
from keyhole.sampling.start import make_prior, start_state
from keyhole.sampling.trees import LAYOUT_TOTAL, make_trees


def note(*categories, labels=None, **options):
    found = note_order(Variable("A", categories, labels), **options)
    return found.orderable, found.ordered


@pytest.mark.parametrize(
    ("categories", "ordered"),
    [
        (("1", "2", "3"), (0, 3)),
        (("-1", "0", "2.5"), (0, 3)),
        (("1", "2"), None),
        (("1", "2", "3", ""), (0, 3)),
        (("1", "2", "3", "not stated"), (0, 3)),
        (("refused", "1", "2", "3"), (1, 4)),
        (("1", "refused", "2", "3", "4"), None),
        (("0-4", "5-9", "10-14", "85+"), (0, 4)),
        (("under 5", "5-9", "10-14", "15 and over"), (0, 4)),
        (("0-4", "10-14", "5-9"), None),
        (("3", "2", "1"), None),
        (("high", "low", "middle"), None),
        ((), None),
    ],
)
def test_numbers_and_bands_are_ordered(categories, ordered):
    assert note(*categories) == ((0, 0) if ordered is None else ordered, ordered is not None)


def test_labels_decide_whether_codes_are_numbers():
    assert note("1", "2", "3", labels=("north", "south", "west")) == ((0, 3), False)
    assert note("1", "2", "3", "9", labels=("0-4", "5-9", "10 or more", "not stated")) == ((0, 3), True)


def test_a_mark_decides_over_what_categories_look_like():
    assert note("low", "middle", "high", "", marked=True) == ((0, 3), True)
    assert note("1", "2", "3", marked=False) == ((0, 3), False)
    assert note("1", "2", "3", "9", outside={"9"}, marked=True) == ((0, 3), True)


def read(**options):
    frame = pl.DataFrame({"AGE": [1, 2, 3, 4, 4], "EDUC": ["low", "high", "middle", "low", None], "SEX": list("mfmfm")})
    book = {"EDUC": ["low", "middle", "high"]}
    return read_microdata(frame, "AGE,EDUC,SEX", options.pop("codebook", book), ["AGE"], **options)


def test_options_decide_over_the_default():
    found = read()
    assert list_ordered(found) == ["AGE"]
    assert list_ordered(order_keys(found, "EDUC", None)) == ["AGE", "EDUC"]
    assert list_ordered(order_keys(found, "EDUC", "AGE")) == ["EDUC"]
    assert list_ordered(order_keys(found, "SEX", None)) == ["AGE"], "two categories"
    assert encode(order_keys(found, "EDUC", None)).ordered.tolist() == [[0, 4], [4, 7], [8, 8]]


@pytest.mark.parametrize(
    ("ordered", "unordered", "message"),
    [
        ("WORK", None, "`ordered` WORK: it is not one of the keys"),
        (None, "WORK", "`unordered` WORK: it is not one of the keys"),
        ("AGE", "AGE", "both name AGE"),
    ],
)
def test_names_that_are_wrong_are_refused(ordered, unordered, message):
    with pytest.raises(InputError, match=message):
        order_keys(read(), ordered, unordered)


def test_text_needs_a_codebook_to_be_ordered():
    with pytest.raises(InputError, match="list them in order in a codebook"):
        order_keys(read(codebook=None), "EDUC", None)


def test_a_codebook_says_what_is_ordered():
    book = {"EDUC": {"categories": ["low", "middle", "high"], "ordered": True}, "AGE": [1, 2, 3, 4]}
    assert list_ordered(read(codebook=book)) == ["AGE", "EDUC"]
    book["AGE"] = {"categories": {1: "a", 2: "b", 3: "c", 4: "d"}, "ordered": False}
    assert list_ordered(read(codebook=book)) == ["EDUC"]
    with pytest.raises(CodebookError, match="must be true or false"):
        read_codebook({"AGE": {"categories": [1, 2], "ordered": "rather"}})


def test_bands_are_ordered():
    frame = pl.DataFrame({"AGE": [3, 17, 40, 41, 66], "SEX": list("mfmfm")})
    found = read_microdata(frame, "AGE,SEX", options=SourceOptions(bands={"AGE": "-5,15,30,60"}))
    assert list_ordered(found) == ["AGE"]


def test_an_ordinal_measure_of_spss_is_ordered(tmp_path):
    pyreadstat = pytest.importorskip("pyreadstat")
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"A": [1.0, 2.0, 3.0, 1.0], "B": [1.0, 2.0, 3.0, 3.0]})
    labels = {name: {1.0: "low", 2.0: "middle", 3.0: "high"} for name in "AB"}
    measure = {"A": "ordinal", "B": "nominal"}
    path = tmp_path / "x.sav"
    pyreadstat.write_sav(frame, str(path), variable_value_labels=labels, variable_measure=measure)
    assert list_ordered(read_microdata(path, "A,B")) == ["A"]


def test_summary_says_what_was_ordered():
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({"A": rng.integers(0, 9, 60), "B": rng.integers(0, 3, 60), "C": rng.choice(list("xyz"), 60)})
    options = {"chains": 2, "max_sweeps": 20, "model": "classes"}
    with pytest.warns(kh.NotConvergedWarning):
        found = kh.assess(frame, "A,B,C", 1_000, unordered="B", **options)
    assert found.summary["input"]["ordered"] == ["A"]
    with pytest.warns(kh.NotConvergedWarning):
        paper = kh.assess(frame, "A,B,C", 1_000, chains=2, max_sweeps=20, prior="paper")
    assert paper.summary["input"]["ordered"] == []


def edges(trees, layout):
    """The edges of each node of a layout."""
    return [
        [(int(trees.edge_first[e]), int(trees.edge_last[e])) for e in range(*trees.edge_start[u : u + 2])]
        for u in range(*trees.node_start[layout : layout + 2])
    ]


def test_layouts_split_every_range_down_to_its_levels():
    start = np.array([0, 3, 20])
    trees = make_trees(start, np.array([[0, 0], [4, 18]]))
    assert trees.layout_start.tolist() == [0, 1, 1 + LAYOUT_TOTAL]
    assert edges(trees, 0) == [[(0, 1), (1, 2), (2, 3)]]
    seen = set()
    for layout in range(1, 1 + LAYOUT_TOTAL):
        root, *nodes = edges(trees, layout)
        assert root == [(3, 4), (4, 18), (18, 19), (19, 20)]
        waiting = [(4, 18)]
        for (first, middle), (again, last) in nodes:
            assert (first, last) in waiting
            assert middle == again
            assert (last - first) // 4 <= middle - first <= last - first - (last - first) // 4
            waiting.remove((first, last))
            waiting += [part for part in ((first, middle), (middle, last)) if part[1] - part[0] > 1]
        assert not waiting
        seen.add(str(nodes))
    assert len(seen) > 1
    # One strength for the flat key; of the ordered one, for the root and for 2, 3 to 4, 5 to 8, 9 to 16 levels.
    assert trees.strength_scale.tolist() == [3.0, 4.0, 2.0, 2.0, 2.0, 2.0]
    assert trees.strength_start.tolist() == [0, 1, 6]


def test_the_prior_paper_stays_flat():
    start, ordered = np.array([0, 5]), np.array([[0, 5]])
    assert len(make_prior("hdp", "paper", start, None, ordered).trees.edge_first) == 5
    assert len(make_prior("hdp", "adaptive", start, None, ordered).trees.edge_first) == 8 * LAYOUT_TOTAL


def test_profiles_that_are_dropped_leave_the_layouts_of_the_others():
    """With a few records a layout says too little for a statistical test to notice."""
    tally = Tally(np.array([2, 0, 3]), np.array([[2, 0, 1], [0, 0, 2]]))
    kept, rows, layouts = drop_empty(tally, np.arange(6.0).reshape(2, 3), np.array([[4, 5, 6]]))
    assert kept.records.tolist() == [2, 3]
    assert rows.tolist() == [[0.0, 2.0], [3.0, 5.0]]
    assert layouts.tolist() == [[4, 6]]
    records = Records(np.array([[0], [1], [2]], np.int32), np.ones(3, np.int64), np.array([0, 3]))
    prior = make_prior("hdp", "adaptive", records.level_start, None, np.array([[0, 3]]))
    state, work = start_state(np.random.default_rng(1), records, prior, 1)
    state.profile_total[0], state.table_label[:, 0] = 3, (0, 2, 2)
    state.profile_tables[:3], state.layout[0, :3] = (1, 0, 2), (4, 5, 6)
    drop_empty_profiles(np.random.default_rng(1), records, prior, state, work)
    assert state.layout[0, :2].tolist() == [4, 6]
    assert state.table_label[:, 0].tolist() == [0, 1, 1]

"""Coarser categories: bands, top and bottom coding, lists, and what they are called."""

import itertools

import numpy as np
import pytest
from click.testing import CliRunner

from keyhole.commands import what_if
from keyhole.data.bands import read_bands
from keyhole.data.order import note_order
from keyhole.data.recoding import (
    join_groups,
    merge_bands,
    merge_bottom,
    merge_key,
    merge_lists,
    merge_top,
    name_group,
    read_span,
)
from keyhole.data.variables import Variable
from keyhole.errors import SettingsError
from keyhole.risk.release import make_coarsening

AGE = note_order(Variable("AGE", tuple(str(x) for x in range(18, 30))))
BANDED = note_order(Variable("AGE", ("0-14", "15-29", "30-44", "45-59", "60+", "")))
CODED = note_order(Variable("AGE", ("1", "2", "3", "4"), ("under 15", "15-19", "20-29", "30 and over")), listed=True)
COLOUR = note_order(Variable("COLOUR", ("blue", "green", "red")))
SCHOOL = note_order(Variable("SCHOOL", ("none", "primary", "middle", "higher", "PhD")), marked=True)


def names(variable, groups):
    return [name_group(variable, group) for group in groups]


def band(variable, text):
    return merge_bands(variable, read_bands({variable.name: text})[variable.name])


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        (AGE, "5y", ["18-19", "20-24", "25+"]),
        (AGE, "18,21,27", ["18-20", "21-26", "27+"]),
        (BANDED, "30y", ["0-29", "30-59", "60+", ""]),
        (BANDED, "0,30", ["0-29", "30+", ""]),
        (CODED, "20y", ["1-2", "3+"]),
        (CODED, "0,20", ["1-2", "3+"]),
    ],
)
def test_bands_merge_what_lies_within_them(variable, text, expected):
    assert names(variable, band(variable, text)) == expected


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        (BANDED, "10y", "lies in more than one of these bands"),
        (BANDED, "0,20,40", "lies in more than one of these bands"),
        (BANDED, "0,30,70", "lies in more than one of these bands"),
        (AGE, "20,25", "below the lowest limit"),
        (COLOUR, "5y", "its categories have no order"),
        (SCHOOL, "5y", "not all of its categories are numbers or bands"),
    ],
)
def test_finer_and_crossing_bands_are_refused(variable, text, message):
    with pytest.raises(SettingsError, match=message):
        band(variable, text)


def test_top_and_bottom():
    assert names(AGE, merge_top(AGE, 27)) == [*(str(x) for x in range(18, 27)), "27+"]
    assert names(AGE, merge_top(AGE, "28.5"))[-1] == "29"
    assert names(AGE, merge_bottom(AGE, 20))[0] == "18-20"
    assert names(BANDED, merge_top(BANDED, 45)) == ["0-14", "15-29", "30-44", "45+", ""]
    assert names(BANDED, merge_top(BANDED, "45-59")) == ["0-14", "15-29", "30-44", "45+", ""]
    assert names(BANDED, merge_bottom(BANDED, 29)) == ["0-29", "30-44", "45-59", "60+", ""]
    assert names(SCHOOL, merge_top(SCHOOL, "middle")) == ["none", "primary", "middle|higher|PhD"]
    for merge, limit in ((merge_top, 50), (merge_bottom, 20), (merge_top, "red"), (merge_top, 99)):
        with pytest.raises(SettingsError):
            merge(BANDED, limit)
    with pytest.raises(SettingsError, match="no order"):
        merge_top(COLOUR, "green")


def test_a_blank_and_unordered_categories_keep_to_themselves():
    assert BANDED.orderable == (0, 5)
    assert names(COLOUR, merge_lists(COLOUR, [["blue", "red"]])) == ["blue|red", "green"]
    assert names(BANDED, merge_lists(BANDED, [["", "60+"]]))[-1] == "60+|blank"


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [("7", 7, 7), ("-3.5", -3.5, -3.5), ("20-24", 20, 24), ("-10 to -1", -10, -1), ("0.5 to <1", 0.5, 1),
     ("75+", 75, float("inf")), ("75 and over", 75, float("inf")), ("under 15", float("-inf"), 15)],
)  # fmt: skip
def test_spans(text, low, high):
    found = read_span(text)
    assert (found.low, found.high) == (low, high)
    assert read_span("12 people") is None


def test_the_order_of_options_does_not_matter():
    groupings = [band(AGE, "5y"), merge_top(AGE, 24), merge_bottom(AGE, 19), merge_lists(AGE, [[19, 21]])]
    found = {join_groups(12, order) for order in itertools.permutations(groupings)}
    assert len(found) == 1
    assert names(AGE, found.pop()) == ["18+"]
    one = make_coarsening([AGE], recode={"AGE": [[18, 20]]}, top={"AGE": 26}, bottom={"AGE": 19})
    assert names(AGE, one.groups[0]) == ["18-20", *(str(x) for x in range(21, 26)), "26+"]


def test_what_is_not_coarser_is_refused_with_the_reason():
    with pytest.raises(SettingsError, match="a release can only be coarser than what was assessed"):
        make_coarsening([AGE], drop=["INCOME"])
    with pytest.raises(SettingsError, match="is dropped and recoded"):
        make_coarsening([AGE], drop=["AGE"], top={"AGE": 20})


@pytest.mark.parametrize("option", ["--band", "--top", "--bottom", "--blank"])
def test_what_if_refuses_an_option_that_names_a_key_twice(option):
    done = CliRunner().invoke(what_if.command, ["folder", option, "AGE=1", option, "AGE=2"])
    assert done.exit_code == 2
    assert f"AGE has two {option}: give one." in done.output


@pytest.mark.parametrize(
    ("variable", "entry", "categories", "codes", "order"),
    [
        (AGE, "18,19|20,21,22", ["18-19", "20-22", *map(str, range(23, 30))], [0, 0, 1, 1, 1, *range(2, 9)], (0, 9)),
        (AGE, [range(18, 29)], ["18-28", "29"], [0] * 11 + [1], (0, 0)),  # two categories have no order
        (AGE, "18,20", ["18|20", "19", *map(str, range(21, 30))], [0, 1, 0, *range(2, 11)], (0, 0)),
        (BANDED, "45-59,60+", ["0-14", "15-29", "30-44", "45+", ""], [0, 1, 2, 3, 3, 4], (0, 4)),
        (BANDED, "60+,''", ["0-14", "15-29", "30-44", "45-59", "60+|blank"], [0, 1, 2, 3, 4, 4], (0, 0)),
        (COLOUR, {"warm": ["red"], "others": ["blue", "green"]}, ["others", "warm"], [0, 0, 1], (0, 0)),
        (COLOUR, '"red",blue', ["blue|red", "green"], [0, 1, 0], (0, 0)),
    ],
)
def test_categories_are_merged_before_the_estimate(variable, entry, categories, codes, order):
    own = np.array([*range(len(variable.categories)), -1], np.int16)
    found, merged, groups = merge_key(variable, own, entry)
    assert found.categories == tuple(categories)
    assert merged.tolist() == [*codes, -1]
    assert merged.dtype == np.int16
    assert found.orderable == order
    assert found.ordered == (order != (0, 0))
    assert all(
        found.categories[merged[variable.categories.index(code)]] == name for name in groups for code in groups[name]
    )
    assert sum(len(members) - 1 for members in groups.values()) == len(variable.categories) - len(categories)


def test_labels_are_merged_as_codes_are():
    found, _, _ = merge_key(CODED, np.arange(4), "1,2")
    assert (found.categories, found.labels) == (("1-2", "3", "4"), ("up to 19", "20-29", "30 and over"))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("1,,2", "write the categories to merge, as in 1,2"), ([], "write the categories"), (7, "write the categories"),
        ([1, 2], "not a list"), ("18,x", "`merge` AGE, group 1: 'x' is not a category"),
        ("18,19|19,20", "group 2 names a category twice"), ({"25": [18, 19]}, "two categories would have one name"),
        ([range(18, 30)], "one category would be left: leave the key out instead"),
    ],
)  # fmt: skip
def test_wrong_merges_are_refused_in_one_line(entry, message):
    with pytest.raises(SettingsError, match=message):
        merge_key(AGE, np.arange(12), entry)

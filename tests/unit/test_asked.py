"""Steps of a release in the words of the command line, and what is no such word."""

import re

import polars as pl
import pytest

import keyhole as kh
from keyhole.errors import SettingsError


@pytest.fixture(scope="module")
def found():
    frame = pl.DataFrame({"A": [x % 5 for x in range(120)], "B": [x * x % 23 for x in range(120)]})
    return kh.assess(frame, "A,B", population=900, quick=True, max_sweeps=60)


def test_steps_are_asked_for_in_the_words_of_the_command_line(found):
    """As text, as a list of texts, or as a mapping, under either name."""
    pairs = [
        ({"merge": "A=0,1|2,3"}, {"recode": {"A": [[0, 1], [2, 3]]}}),
        ({"recode": ["A=0,1", "B=1,2"]}, {"recode": {"A": [["0", "1"]], "B": [["1", "2"]]}}),
        ({"merge": {"A": "0,1|2,3"}}, {"recode": {"A": [[0, 1], [2, 3]]}}),
        ({"band": "A=2y"}, {"bands": {"A": "2y"}}),
        ({"band": {"A": [0, 2]}}, {"bands": {"A": [0, 2]}}),
        ({"top": "A=3", "bottom": ["A=1"]}, {"top": {"A": 3}, "bottom": {"A": 1}}),
        ({"blank": ["A=r1>0.05", "B=r2>0.1"]}, {"blank": {"A": "r1>0.05", "B": "r2>0.1"}}),
        ({"subsample": "50%"}, {"subsample": 0.5}),
        ({"drop": "A,B"}, {"drop": ["A", "B"]}),
    ]
    for words, usual in pairs:
        assert found.what_if(**words) == found.what_if(**usual), words


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ({"band": 5}, "`bands`: write AGE=10y"),
        ({"band": ["A"]}, "`bands`: write AGE=10y"),
        ({"merge": "A"}, "`recode`: write AGE=1,2|3,4"),
        ({"merge": "A=0,1|"}, "`recode`: write AGE=1,2|3,4"),
        ({"merge": {"A": 5}}, "`recode` A: write lists of categories"),
        ({"recode": {"A": [[0, 1]]}, "merge": "A=2,3"}, "`recode` names A twice"),
        ({"top": 5}, "`top`: write EDUC=7"),
        ({"blank": ["A"]}, "`blank`: write EDUC=r1>0.2"),
        ({"blank": {"A": 5}}, "write a condition on risk"),
        ({"remove": 5}, "write a condition on risk"),
        ({"subsample": "half"}, "`subsample` must be a share, such as 0.5 or 50%"),
        ({"subsample": [1]}, "`subsample` must be a share"),
        ({"drop": 5}, "`drop`: give names of keys"),
        ({"drop": [5]}, "`drop`: give names of keys"),
        ({"policy": 5}, "`policy`: give the name of a policy"),
        ({"policy": {"a": 1}}, "`policy`: give a text"),
    ],
)
def test_wrong_words_are_errors_of_keyhole(found, wrong, hint):
    with pytest.raises(SettingsError, match=re.escape(hint)):
        found.what_if(**wrong)

"""Limits as text, and whether a result is within them."""

import pytest

from keyhole.errors import SettingsError
from keyhole.risk.limits import BLOCKS, MEASURES, SHARES, Limit, exceeded, parse_limit, parse_limits

NUMBERS = {
    "input": {"used": 200},
    "tau1": {"mean": 4.5, "interval": (1, 9)},
    "tau2": {"mean": 20.0, "interval": (15, 26)},
    "all_records": {
        "largest": {"mean": 0.4, "interval": (0.3, 0.6)},
        "expected_matches": {"mean": 12.0, "interval": (8.0, 17.0)},
        "exceeding": {"0.09": {"mean": 3.0, "interval": (1, 6)}, "0.2": {"mean": 1.0, "interval": (0, 2)}},
        "k": {"11": {"mean": 30.0, "interval": (20, 41)}},
    },
}


@pytest.mark.parametrize(
    ("text", "limit", "value"),
    [
        ("tau1=5", Limit("tau1", 5.0), 4.5),
        ("tau1.mean=5", Limit("tau1", 5.0), 4.5),
        (" tau1.upper = 5e0 ", Limit("tau1", 5.0, upper=True), 9),
        ("tau2.upper=0", Limit("tau2", 0.0, upper=True), 26),
        ("tau1.share=0.05", Limit("tau1.share", 0.05), 4.5 / 200),
        ("tau2.share.upper=.2", Limit("tau2.share", 0.2, upper=True), 26 / 200),
        ("all.max=0.09", Limit("all.max", 0.09), 0.4),
        ("all.max.upper=0.09", Limit("all.max", 0.09, upper=True), 0.6),
        ("all.mean.upper=0.05", Limit("all.mean", 0.05, upper=True), 17 / 200),
        ("all.matches=1000", Limit("all.matches", 1000.0), 12.0),
        ("all.above.0.09=3", Limit("all.above", 3.0, at=0.09), 3.0),
        ("all.above..2.upper=3", Limit("all.above", 3.0, upper=True, at=0.2), 2),
        ("all.above.0.20=3", Limit("all.above", 3.0, at=0.2), 1.0),
        ("all.k.11=0", Limit("all.k", 0.0, at=11.0), 30.0),
        ("all.k.11.upper=0", Limit("all.k", 0.0, upper=True, at=11.0), 41),
    ],
)
def test_a_limit_and_what_it_judges(text, limit, value):
    found = parse_limit(text)
    assert found == limit
    assert found.value(NUMBERS) == value
    assert parse_limit(found.text) == found


@pytest.mark.parametrize(
    "text",
    [
        "tau1", "tau1=", "tau3=5", "tau1.lower=5", "tau1=-1", "tau1=nan", "tau1=inf", "tau1=1e", "tau1=1e999", "=5",
        "tau1=1.2.3", "all=5", "all.max=1", "all.max=9", "tau1.share=5", "all.mean=1.0", "all.above=3", "all.above.2=3",
        "all.above.1=3", "all.above.0.0=3", "all.k=3", "all.k.1=3", "all.k.101=3", "all.k.2.5=3",
        "all.max.upper.upper=0", "all.k.\N{SUPERSCRIPT TWO}=3",
    ],
)  # fmt: skip
def test_what_is_no_limit(text):
    assert parse_limit(text) is None


def test_all_mistakes_are_reported_at_once():
    with pytest.raises(SettingsError, match=r"limit tau3=5, all\.max=2: write tau1=5"):
        parse_limits(["tau3=5", "tau1=5", "all.max=2"])


def test_a_limit_that_is_met_exactly_is_met():
    assert Limit("tau1", 4.5).met(NUMBERS)
    assert not Limit("tau1", 4.4).met(NUMBERS)
    assert exceeded(parse_limits(["tau1=4.5", "all.max=0.3", "all.k.11.upper=40"]), NUMBERS) == [
        "all.max is 0.4 (the mean), 0.1 above 0.3",
        "all.k.11 is 41 (the upper end of the interval), 1 above 40",
    ]


def test_what_a_result_does_not_have():
    with pytest.raises(SettingsError, match="does not have the risk of every record"):
        Limit("all.max", 0.1).value(NUMBERS | {"all_records": None})
    with pytest.raises(SettingsError, match=r"all\.k\.3 was not computed in this result, which has 11"):
        Limit("all.k", 1.0, at=3.0).value(NUMBERS)


def test_every_measure_has_a_meaning():
    assert set(BLOCKS) | {"tau1", "tau2", "tau1.share", "tau2.share"} == set(MEASURES)
    assert set(MEASURES) >= SHARES

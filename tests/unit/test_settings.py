"""Options: ranges, durations, and one line for whatever is wrong."""

import pytest
from pydantic import ValidationError

from keyhole.errors import SettingsError
from keyhole.settings import Settings, make_settings, option_help, option_names, option_values

BAD = {
    "model": "lda",
    "profiles": 0,
    "prior": "flat",
    "estimator": "guess",
    "mc_draws": 0,
    "missing": "ignore",
    "ordered": "AGE,,EDUC",
    "unordered": ",",
    "chains": 0,
    "seed": -1,
    "workers": 0,
    "scheduler": "moon",
    "time_limit": "soon",
    "target_ess": 1,
    "max_sweeps": 0,
}


def test_every_option_has_a_bad_value_here():
    assert set(BAD) == set(option_names())


@pytest.mark.parametrize("name", option_names())
def test_a_bad_value_is_one_line_that_names_the_option(name):
    with pytest.raises(SettingsError) as caught:
        make_settings(**{name: BAD[name]})
    message = str(caught.value)
    assert message.startswith(f"`{name}` ")
    assert "\n" not in message


@pytest.mark.parametrize("name", option_names())
def test_every_option_has_help_and_says_which_values_it_takes(name):
    assert option_help(name)
    assert option_values(name)


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("5m", 300), ("1h", 3600), ("1.5 m", 90), ("45", 45), (20, 20)]
)
def test_durations(text, seconds):
    assert make_settings(time_limit=text).time_limit == seconds


def test_unknown_option_names_the_options():
    with pytest.raises(SettingsError, match=r"unknown option 'thin'.*chains"):
        make_settings(thin=3)


def test_several_mistakes_are_reported_at_once():
    with pytest.raises(SettingsError, match=r"`chains` .*; `seed` "):
        make_settings(chains="many", seed=-1)


@pytest.mark.parametrize("options", [{"profiles": 5}, {"mc_draws": 100}])
def test_an_option_without_effect_is_refused(options):
    with pytest.raises(SettingsError, match="is an option of"):
        make_settings(**options)


def test_options_that_belong_together_are_accepted():
    assert make_settings(model="mixed", profiles=5).profiles == 5
    assert make_settings(estimator="monte-carlo", mc_draws=100).mc_draws == 100


def test_settings_cannot_change():
    with pytest.raises(ValidationError):
        Settings().chains = 2


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "1e5x", "-5s", ""])
def test_odd_durations_are_refused(value):
    with pytest.raises(SettingsError, match="`time_limit`"):
        make_settings(time_limit=value)


@pytest.mark.parametrize("value", ["tcp://10.0.0.1:8786", "tls://host:8786", "processes", "threads"])
def test_where_chains_may_run(value):
    assert make_settings(scheduler=value).scheduler == value


def test_results_name_no_machine():
    assert make_settings(scheduler="tcp://secret.example:8786").model_dump()["scheduler"] == "cluster"

"""One module words all numbers, and every reader of a result sees the same."""

import ast
import inspect
from dataclasses import replace
from pathlib import Path

import click
import pytest

import keyhole
from keyhole.cli import group
from keyhole.commands import screen
from keyhole.risk import measures
from keyhole.risk.measures import certain_measure
from keyhole.settings import option_names
from keyhole.words import (
    OPTIONS,
    RENAMED,
    as_flags,
    duration,
    expects_none,
    number,
    percent,
    percents,
    round_up,
    rounded,
)

SOURCE = Path(keyhole.__file__).parent


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        *((0, "0"), (0.03, "0.03"), (0.0004, "0.0004"), (0.26, "0.3"), (4.84, "4.8"), (7.0, "7"), (9.97, "10")),
        *((1234.5, "1,234"), (None, "not known"), (float("nan"), "not known")),
    ],
)
def test_numbers(value, shown):
    assert number(value) == shown


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        *((0, "0 %"), (0.0003, "< 0.1 %"), (0.003, "0.3 %"), (0.05, "5 %"), (0.0504, "5 %"), (0.0994, "9.9 %")),
        *((0.0996, "10 %"), (0.825, "82 %"), (0.903, "90.3 %"), (0.9999, "> 99.9 %"), (1, "100 %")),
        (None, "not known"),
    ],
)
def test_shares(share, shown):
    assert percent(share) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.1, "1 s"), (45, "45 s"), (600, "10 min"), (7200, "2.0 h"), (5399, "90 min")]
)
def test_durations(seconds, shown):
    assert duration(seconds) == shown


@pytest.mark.parametrize(
    ("value", "error", "shown"),
    [(18.26, 0.04, "18.3"), (18.26, 0.4, "18"), (18.26, 1.2, "20"), (0.031, 0.0004, "0.031"), (5.2, None, "5.2")],
)
def test_estimates_are_rounded_to_their_error(value, error, shown):
    assert rounded(value, error) == shown


@pytest.mark.parametrize(("error", "shown"), [(0.021, 0.03), (0.3, 0.3), (0.0, 0.0)])
def test_errors_are_rounded_up(error, shown):
    assert round_up(error) == shown


def test_nobody_else_words_a_number_or_a_share():
    """No second function of one of these names, anywhere."""
    names = {"number", "percent", "rounded", "round_up", "two_digits", "decimals", "duration", "one_in", "plural"}
    found = [
        (path.relative_to(SOURCE).as_posix(), node.name)
        for path in SOURCE.rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name in names
    ]
    assert sorted(found) == sorted(("words.py", name) for name in names)


def find_options(command):
    """Return the options of a command and its subcommands, as the library would name them."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        return set().union(
            *(find_options(command.get_command(context, name)) for name in command.list_commands(context))
        )
    flags = [flag for found in command.params if isinstance(found, click.Option) for flag in found.opts]
    return {flag.removeprefix("--").replace("-", "_") for flag in flags if flag.startswith("--")}


def test_the_options_are_those_of_the_commands():
    assert find_options(group) == OPTIONS
    in_python = {*option_names(), *inspect.signature(keyhole.assess).parameters} - {"settings", "options"}
    assert {RENAMED.get(name, name) for name in in_python} - OPTIONS == {
        "source",
        "on_progress",
        "executor",
        "checkpoint",
    }


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Allow more time with `time_limit`.", "Allow more time with --time-limit."),
        ("use `prior` adaptive, or `profiles` 40", "use --prior adaptive, or --profiles 40"),
        ("cut it with `bands`", "cut it with --band"),
        ("`keyhole zeros suggest` lists candidates (`zeros`)", "`keyhole zeros suggest` lists candidates (--zeros)"),
        ("`executor` and `AGE` stay, and `time limit` too", "`executor` and `AGE` stay, and `time limit` too"),
        ("a ` alone", "a ` alone"),
    ],
)
def test_options_become_flags(text, shown):
    assert as_flags(text) == shown


@pytest.mark.parametrize(
    ("mean", "error", "interval", "none"),
    [
        (0.001, 0.004, (0.0, 0.0), True),  # "about 0.00 (0 to 0)"
        (0.0, None, (0.0, 0.0), True),
        (0.001, 0.0002, (0.0, 0.0), True),  # "about 0.001 (0 to 0)"
        (0.03, 0.004, (0.0, 0.0), False),
        (0.001, 0.004, (0.0, 1.0), False),
        (12.0, 0.4, (7.0, 18.0), False),
    ],
)
def test_an_estimate_of_nothing_is_said_in_words(mean, error, interval, none):
    assert expects_none(mean, error, interval) == none
    found = certain_measure(0.0)
    found = replace(found, mean=mean, mcse=error, interval=interval)
    assert (measures.about(found) == "none expected") == none
    assert (screen.about(found) == "none expected") == none
    unsure = replace(found, pooled=False)
    assert "none expected" not in measures.about(unsure) + screen.about(unsure)


def test_a_column_has_one_precision():
    assert percents([0.931, 0.85]) == ["93.1 %", "85.0 %"]
    assert percents([0.5, 0.85, 1.0]) == ["50 %", "85 %", "100 %"]
    assert percents([0.0001, 0.5]) == ["< 0.1 %", "50 %"]
    assert percents([0.0001, 0.055, 0.5]) == ["< 0.1 %", "5.5 %", "50.0 %"]
    assert percents([]) == []

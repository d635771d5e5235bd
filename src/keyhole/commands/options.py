"""Flags that come from Settings, and flags that several commands share."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from keyhole.settings import option_help, option_names, option_values

Function = TypeVar("Function", bound=Callable[..., Any])


def settings_flags(*leave_out: str) -> Callable[[Function], Function]:
    """Add one flag for each option of Settings. Values are checked by Settings, not here."""

    def decorate(function: Function) -> Function:
        for name in reversed(option_names()):
            if name not in leave_out:
                flag = click.option(
                    f"--{name.replace('_', '-')}", name, metavar=option_values(name), help=option_help(name)
                )
                function = flag(function)
        return function

    return decorate


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given; the others keep the default of Settings."""
    return {name: value for name, value in options.items() if value is not None}


json_flag = click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON and nothing else.")
quiet_flag = click.option("--quiet", "-q", is_flag=True, help="Print nothing but errors.")

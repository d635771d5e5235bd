"""`--config run.yaml`: any options of a command in a file. The command line wins; all mistakes are told at once.

Scalars stay the text that the user wrote. Relative paths start from the folder of the file. sdcMicro's names are
accepted. Choices that exclude each other (population, fraction) count as one when the command line names either.

Flags that come from Settings, and flags that several commands share.
"""

import difflib
import tomllib
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from keyhole.errors import SettingsError
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


ALIASES = {"keyVars": "keys", "weightVar": "weight", "hhId": "household"}
LENGTH_LIMIT = 1_000_000
DEPTH_LIMIT = 3
LONGEST_NAME = 60
UNFIT_IN_A_NAME = ("Cc", "Cs")
"""Control characters and halves of characters: no file system takes them all."""
TRUTH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}

Value = str | list[Any] | dict[str, Any] | None
"""Text, a list or a mapping of such; None for nothing at all."""


def _take(ctx: click.Context, _: click.Parameter, path: Path | None) -> None:
    if path is not None:
        ctx.default_map = {**(ctx.default_map or {}), **read_config(path, ctx)}


config_flag = click.option(
    "--config",
    type=click.Path(path_type=Path),
    is_eager=True,
    expose_value=False,
    callback=_take,
    help="YAML or TOML file with any of these options; the command line wins.",
)


def drop_overruled(ctx: click.Context, *names: str) -> list[Any]:
    """Return these alternatives; if the command line gives one, what the file says of the others is dropped."""
    sources = {name: ctx.get_parameter_source(name) for name in names}
    overruled = ParameterSource.COMMANDLINE in sources.values()
    return [None if overruled and sources[name] is ParameterSource.DEFAULT_MAP else ctx.params[name] for name in names]


def read_config(path: Path, ctx: click.Context) -> dict[str, Any]:
    """Return the options of the file by the names of the command's parameters."""
    entries = _parse(path)
    known = _known(ctx)
    found: dict[str, Any] = {}
    wrong = []
    for entry, value in entries.items():
        written = " ".join(entry.split())[:LONGEST_NAME]
        name = ALIASES.get(written, written.replace("-", "_"))
        parameter = known.get(name)
        if parameter is None or parameter.name is None:
            wrong.append(f"unknown option '{written}'{_nearest(name, known)}")
        elif parameter.name in found:
            wrong.append(f"'{written}' is given twice")
        else:
            try:
                found[parameter.name] = _convert(parameter, value, path.absolute().parent, ctx)
            except click.BadParameter as error:
                wrong.append(f"{written}: {error.message.rstrip('.')}")
    wrong += _check_settings(found)
    if wrong:
        raise SettingsError(f"{path}: {'; '.join(wrong)}.")
    return found


def _known(ctx: click.Context) -> dict[str, click.Parameter]:
    """Return the parameters by the names that a file may use: those of the flags, and the argument's own."""
    known = {}
    for parameter in ctx.command.params:
        if parameter.name not in ("config", "help"):
            for flag in parameter.opts:
                if flag.startswith("--") or isinstance(parameter, click.Argument):
                    known[flag.lstrip("-").replace("-", "_")] = parameter
    return known


def _nearest(name: str, known: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name, [*known, *ALIASES], n=1)
    return f" (did you mean '{near[0].replace('_', '-')}'?)" if near else ""


def _convert(parameter: click.Parameter, value: Value, folder: Path, ctx: click.Context) -> Any:
    """Return the value as the command line would give it; what is wrong is a BadParameter."""
    if value is None:
        raise click.BadParameter("has no value")
    if isinstance(parameter, click.Option) and parameter.is_flag:
        if not isinstance(value, str) or value.lower() not in TRUTH:
            raise click.BadParameter("is true or false")
        return TRUTH[value.lower()]
    if parameter.multiple:
        return [_scalar(parameter, item, folder, ctx) for item in _several(value)]
    if isinstance(value, list) and parameter.name == "keys":
        if not all(isinstance(item, str) and "," not in item for item in value):
            raise click.BadParameter("is a list of names without commas")
        return ",".join(value)
    return _scalar(parameter, value, folder, ctx)


def _several(value: Value) -> list[Any]:
    """Return the values of an option that may be repeated; a mapping gives NAME=VALUE."""
    if isinstance(value, dict):
        return [f"{name}={_joined(item)}" for name, item in value.items()]
    return value if isinstance(value, list) else [value]


def _joined(value: Value) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    if isinstance(value, str):
        return value
    raise click.BadParameter("takes one value for each name")


def _scalar(parameter: click.Parameter, value: Value, folder: Path, ctx: click.Context) -> Any:
    if not isinstance(value, str):
        raise click.BadParameter("takes one value")
    if isinstance(parameter.type, click.Path):
        if any(unicodedata.category(character) in UNFIT_IN_A_NAME for character in value):
            raise click.BadParameter("is not the name of a file")
        value = str(folder / value)
    parameter.type.convert(value, parameter, ctx)
    return value


def _check_settings(found: Mapping[str, Any]) -> list[str]:
    from keyhole.settings import explain_options, option_names

    return explain_options({name: value for name, value in found.items() if name in option_names()})


def _parse(path: Path) -> dict[str, Value]:
    """Read the file as YAML or, by its ending, TOML."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not text in UTF-8: save it so.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a valid name"
        raise SettingsError(f"{path} cannot be read: {reason}.") from None
    if len(text) > LENGTH_LIMIT:
        raise SettingsError(f"{path} has more than {LENGTH_LIMIT:,} characters: it is no list of options.")
    found = _parse_toml(text, path) if path.suffix.lower() == ".toml" else _parse_yaml(text, path)
    if not isinstance(found, dict):
        raise SettingsError(f"{path} is not a list of options: write a line 'population: 953076' for each.")
    return found


def _parse_toml(text: str, path: Path) -> Value:
    try:
        return _text_of(tomllib.loads(text), path, 0)
    except (tomllib.TOMLDecodeError, RecursionError):
        raise SettingsError(f"{path} is not TOML: check quotes and brackets, or use YAML (.yaml).") from None


def _text_of(value: Any, path: Path, depth: int) -> Value:
    if depth > DEPTH_LIMIT:
        raise SettingsError(f"{path} nests lists too deeply for a list of options.")
    if isinstance(value, dict):
        return {name: _text_of(item, path, depth + 1) for name, item in value.items()}
    if isinstance(value, list):
        return [_text_of(item, path, depth + 1) for item in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parse_yaml(text: str, path: Path) -> Value:
    import yaml

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = f" line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise SettingsError(f"{path}{line} is not YAML: check indents, quotes and brackets.") from None
    except (yaml.YAMLError, RecursionError):
        raise SettingsError(f"{path} is not YAML: check for unusual characters.") from None
    return None if node is None else _value_of(node, path, 0)


def _value_of(node: Any, path: Path, depth: int) -> Value:
    """Turn nodes into text, lists and mappings; no value is constructed, and a name may occur only once."""
    if depth > DEPTH_LIMIT:
        raise SettingsError(f"{path} line {node.start_mark.line + 1} nests lists too deeply for a list of options.")
    if node.id == "scalar":
        return None if node.tag == "tag:yaml.org,2002:null" else str(node.value)
    if node.id == "sequence":
        return [_value_of(item, path, depth + 1) for item in node.value]
    found: dict[str, Any] = {}
    for key, item in node.value:
        if key.id != "scalar" or key.value in found:
            told = "a name is needed before the colon" if key.id != "scalar" else "a name is given twice"
            raise SettingsError(f"{path} line {key.start_mark.line + 1}: {told}.")
        found[key.value] = _value_of(item, path, depth + 1)
    return found

"""`--config run.yaml`: any options of a command in a file. The command line wins; all mistakes are reported at once.

Scalars stay the text that the user wrote. Relative paths start from the folder of the file. sdcMicro's names are
accepted. Choices that exclude each other (population, fraction) count as one when the command line names either.
"""

import unicodedata
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from keyhole.errors import SettingsError
from keyhole.settings import explain_options, option_names
from keyhole.words import did_you_mean

ALIASES = {"keyVars": "keys", "weightVar": "weight", "hhId": "household"}
LENGTH_LIMIT = 1_000_000
DEPTH_LIMIT = 3
LONGEST_NAME = 60
UNFIT_IN_A_NAME = ("Cc", "Cs")
"""Control characters and lone surrogates: not every file system takes them."""
TRUTH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}

Value = str | list[Any] | dict[str, Any] | None
"""Text, a list or a mapping of such; None for an empty value."""


def _load(ctx: click.Context, _: click.Parameter, path: Path | None) -> None:
    if path is not None:
        ctx.default_map = {**(ctx.default_map or {}), **read_config(path, ctx)}


CONFIG = click.option(
    "--config",
    type=click.Path(path_type=Path),
    is_eager=True,
    expose_value=False,
    callback=_load,
    help="YAML file with any of these options; the command line wins.",
)


def drop_overruled(ctx: click.Context, *names: str) -> list[Any]:
    """Return the values of these alternatives, without the file's when the command line gives one of them."""
    sources = {name: ctx.get_parameter_source(name) for name in names}
    overruled = ParameterSource.COMMANDLINE in sources.values()
    return [None if overruled and sources[name] is ParameterSource.DEFAULT_MAP else ctx.params[name] for name in names]


def read_config(path: Path, ctx: click.Context) -> dict[str, Any]:
    """Return the options of the file by the names of the command's parameters."""
    known = _known(ctx)
    found: dict[str, Any] = {}
    wrong = []
    for entry, value in _parse(path).items():
        written = " ".join(entry.split())[:LONGEST_NAME]
        name = ALIASES.get(written, written.replace("-", "_"))
        parameter = known.get(name)
        if parameter is None or parameter.name is None:
            flags = (known_name.replace("_", "-") for known_name in (*known, *ALIASES))
            wrong.append(f"unknown option '{written}'{did_you_mean(name.replace('_', '-'), flags)}")
        elif parameter.name in found:
            wrong.append(f"'{written}' is given twice")
        else:
            try:
                found[parameter.name] = _convert(parameter, value, path.absolute().parent, ctx)
            except click.BadParameter as error:
                wrong.append(f"{written}: {error.message.rstrip('.')}")
    wrong += explain_options({name: value for name, value in found.items() if name in option_names()})
    if wrong:
        raise SettingsError(f"{path}: {'; '.join(wrong)}.")
    return found


def _known(ctx: click.Context) -> dict[str, click.Parameter]:
    """Return the parameters by the names that a file may use: those of the flags, and the argument's own."""
    return {
        flag.lstrip("-").replace("-", "_"): parameter
        for parameter in ctx.command.params
        if parameter.name not in ("config", "help")
        for flag in parameter.opts
        if flag.startswith("--") or isinstance(parameter, click.Argument)
    }


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
            raise click.BadParameter("is not a valid file name")
        value = str(folder / value)
    elif parameter.name == "policy" and value.lower().endswith((".yaml", ".yml")):
        value = str(folder / value)
    parameter.type.convert(value, parameter, ctx)
    return value


def _parse(path: Path) -> dict[str, Value]:
    import yaml

    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not text in UTF-8: save it as UTF-8.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a valid name"
        raise SettingsError(f"{path} cannot be read: {reason}.") from None
    if len(text) > LENGTH_LIMIT:
        raise SettingsError(f"{path} has more than {LENGTH_LIMIT:,} characters: it is not a list of options.")
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = f" line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise SettingsError(f"{path}{line} is not YAML: check indents, quotes and brackets.") from None
    except (yaml.YAMLError, RecursionError):
        raise SettingsError(f"{path} is not YAML: check for unusual characters.") from None
    found = None if node is None else _value_of(node, path, 0)
    if not isinstance(found, dict):
        raise SettingsError(f"{path} is not a list of options in YAML: write a line 'population: 953076' for each.")
    return found


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
            reason = "a name is needed before the colon" if key.id != "scalar" else "a name is given twice"
            raise SettingsError(f"{path} line {key.start_mark.line + 1}: {reason}.")
        found[key.value] = _value_of(item, path, depth + 1)
    return found

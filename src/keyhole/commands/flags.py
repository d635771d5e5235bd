"""Flags that several commands share, and what is made of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.types import FloatParamType, IntParamType

from keyhole.errors import SettingsError
from keyhole.settings import option_help, option_names, option_values
from keyhole.words import read_groups, read_people, read_share, split_pair

Decorator = Callable[[Any], Any]


class Count(IntParamType):
    """A number of people, with or without separators of thousands."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number; what could be another one is refused."""
        try:
            return read_people(str(value))
        except SettingsError as error:
            self.fail(str(error), param, ctx)


COUNT = Count()


class Fraction(FloatParamType):
    """A share, also in percent."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the share as a number."""
        try:
            return read_share(str(value))
        except SettingsError as error:
            self.fail(str(error), param, ctx)


FRACTION_OR_PERCENT = Fraction()


KEYS = click.option("--keys", required=True, metavar="A,B,C", help="Columns an intruder could know about a person.")
POPULATION = click.option("--population", type=COUNT, metavar="N", help="Size of the population sampled.")
FRACTION = click.option(
    "--fraction",
    type=FRACTION_OR_PERCENT,
    metavar="F",
    help="Sampling fraction (0.05 or 5%), in place of --population.",
)
WEIGHT = click.option("--weight", metavar="W", help="Column of survey weights; N defaults to their sum.")
CODEBOOK = click.option("--codebook", type=click.Path(path_type=Path), help="YAML or JSON: the categories of each key.")
ZEROS = click.option("--zeros", type=click.Path(path_type=Path), help="CSV or YAML: combinations that cannot exist.")
DROP = click.option("--drop-contradictions", is_flag=True, help="Leave out records that contradict a rule.")
IDENTIFIER = click.option(
    "--allow-identifier", multiple=True, metavar="KEY", help="Accept a key that looks like an identifier."
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON and nothing else.")
OVERWRITE = click.option("--overwrite", is_flag=True, help="Replace what is there; files that are not ours stay.")
QUIET = click.option("--quiet", "-q", is_flag=True, help="Print nothing but errors.")


def read_pairs(form: str) -> Callable[..., dict[str, str] | None]:
    """Return what turns KEY=text, given once for each key, into a mapping; form: how it is written."""

    def read(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str] | None:
        found: dict[str, str] = {}
        for value in values:
            pair = split_pair(value)
            if pair is None:
                raise click.BadParameter(f"write {form}.")
            if pair[0] in found:
                raise click.BadParameter(f"{pair[0]} has two {parameter.opts[0]}: give one.")
            found[pair[0]] = pair[1]
        return found or None

    return read


read_bands = read_pairs("AGE=0,15,30 (lower limits) or AGE=5y (width)")


def read_merges(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, Any]:
    """Turn AGE=1,2|3,4 into a name and its lists of categories."""
    merged: dict[str, Any] = {}
    for value in values:
        name, equals, text = value.partition("=")
        groups = read_groups(text)
        if not equals or not name.strip() or not groups:
            raise click.BadParameter(
                "write AGE=1,2|3,4: the categories to merge, and | between groups. A name with a comma is quoted "
                "('Installation, repair'), and '' is the blank category."
            )
        if name.strip() in merged:
            raise click.BadParameter(f"{name.strip()} has two --merge: give one, with | between groups.")
        merged[name.strip()] = groups
    return merged


MERGE = click.option(
    "--merge",
    multiple=True,
    metavar="KEY=A,B|C,D",
    callback=read_merges,
    help="Merge these categories of a key (AGE=1,2|3,4); the others stay. Quote names with a comma; '' is the "
    "blank category. May be repeated.",
)


STRATA = (
    click.option(
        "--strata", multiple=True, metavar="COL", help="Column within whose values people were drawn. May be repeated."
    ),
    click.option(
        "--strata-sizes",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Table with the columns of the strata and N, the people in each; else sums of --weight.",
    ),
    click.option(
        "--weight-classes", type=int, metavar="K", help="Take K classes of similar weights (--weight) as strata."
    ),
)
DATABASE = (
    click.option("--url", metavar="URL", help="Read a database in place of FILE, for instance sqlite:///survey.db."),
    click.option("--query", metavar="SQL", help="With --url: the rows to read, for instance 'SELECT * FROM people'."),
    click.option(
        "--user-missing",
        type=click.Choice(["keep", "blank"]),
        help="Codes that an SPSS, Stata or SAS file declares missing: keep them as categories, since an intruder sees "
        "'not stated' too, or make them blank.  [default: keep]",
    ),
    click.option(
        "--na",
        multiple=True,
        metavar="TEXT",
        callback=lambda _context, _parameter, texts: texts or None,
        help="Text that means missing, unless the codebook lists it; '' for none but empty. May be repeated.  "
        "[default: NA, N/A, NaN, NULL and .]",
    ),
)
CELLS = (
    click.option(
        "--band",
        "bands",
        multiple=True,
        metavar="KEY=BANDS",
        callback=read_bands,
        help="Cut a numeric key at lower limits (AGE=0,15,30) or into widths (AGE=5y). May be repeated.",
    ),
    click.option("--count", metavar="COL", help="FILE is a table of cells: each row stands for COL records."),
    click.option(
        "--count-cells",
        is_flag=True,
        help="With --query: the database counts the records of each cell (GROUP BY); records.csv has one row per cell.",
    ),
)


def add(*flags: Decorator) -> Decorator:
    """Add flags in the order in which the help shows them."""

    def decorate(function: Any) -> Any:
        for flag in reversed(flags):
            function = flag(function)
        return function

    return decorate


def settings_flags(*names: str) -> Decorator:
    """Add a flag for each of these options of Settings, or for all of them. Settings checks the values."""
    return add(
        *(
            click.option(f"--{name.replace('_', '-')}", name, metavar=option_values(name), help=option_help(name))
            for name in names or option_names()
        )
    )


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given; the others keep their defaults."""
    return {name: value for name, value in options.items() if value is not None}


def choose_source(file: Path | None, url: str | None, query: str | None) -> Path | str:
    """Return the file or the address of the database, whichever was given."""
    if (url is None) != (query is None):
        raise click.UsageError("--url and --query go together: the database, and the rows to read.")
    if file is None and url is not None:
        return url
    if file is None or url is not None:
        raise click.UsageError("give one of FILE and --url.")
    return file


def default_folder(source: Path | str, ending: str) -> Path:
    """Return a result folder named after the file, after the file of an SQLite address, or `query`."""
    from keyhole.data.database import sqlite_file

    file = sqlite_file(source) if isinstance(source, str) else source
    if file is None:
        return Path(f"query{ending}")
    return Path(f"{Path(file.stem).stem if file.suffix == '.gz' else file.stem}{ending}")

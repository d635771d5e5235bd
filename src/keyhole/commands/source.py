"""Flags that say what is read, shared by the commands that read data."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])


def read_bands(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str] | None:
    """Turn AGE=0,15,30 into a name and its bands."""
    bands: dict[str, str] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name.strip() or not text.strip():
            raise click.BadParameter("write AGE=0,15,30 (lower limits) or AGE=5y (width).")
        if name.strip() in bands:
            raise click.BadParameter(f"{name.strip()} has two --band: give one.")
        bands[name.strip()] = text.strip()
    return bands or None


DATABASE = (
    click.option("--url", metavar="URL", help="Read a database in place of FILE, for instance sqlite:///survey.db."),
    click.option("--query", metavar="SQL", help="With --url: the rows to read, for instance 'SELECT * FROM people'."),
)
USER_MISSING = click.option(
    "--user-missing",
    type=click.Choice(["keep", "blank"]),
    help="Codes that an SPSS, Stata or SAS file declares missing: keep them as categories, since an intruder sees "
    "'not stated' too, or make them blank.  [default: keep]",
)
BANDS = click.option(
    "--band",
    "bands",
    multiple=True,
    metavar="KEY=BANDS",
    callback=read_bands,
    help="Cut a numeric key at lower limits (AGE=0,15,30) or into widths (AGE=5y). May be repeated.",
)
COUNT = click.option("--count", metavar="COL", help="FILE is a table of cells: each row stands for COL records.")


SOURCE_OPTIONS = ("query", "count", "bands", "user_missing")


def source_flags(*, inspecting: bool = False) -> Callable[[Function], Function]:
    """Add the flags of reading; a first look needs neither bands nor counts."""
    flags = (*DATABASE, USER_MISSING) if inspecting else (*DATABASE, USER_MISSING, BANDS, COUNT)

    def decorate(function: Function) -> Function:
        for flag in reversed(flags):
            function = flag(function)
        return function

    return decorate


def choose_source(file: Path | None, url: str | None, query: str | None) -> Path | str:
    """Return the file or the address of the database, whichever was given."""
    if (file is None) == (url is None):
        raise click.UsageError("give one of FILE and --url.")
    if (url is None) != (query is None):
        raise click.UsageError("--url and --query go together: the database, and the rows to read.")
    if url is not None:
        return url
    assert file is not None
    return file


def source_stem(source: Path | str) -> str:
    """Return what a result folder is named after: the file, or the file of an SQLite address, or 'query'."""
    from keyhole.data.database import sqlite_file

    file = sqlite_file(source) if isinstance(source, str) else source
    if file is None:
        return "query"
    return Path(file.stem).stem if file.suffix == ".gz" else file.stem

"""The rows of a database query. SQLite through the standard library, read only; all others through SQLAlchemy.

Neither the address (it may hold a password) nor a message of the database (it may quote values) is ever shown,
but for the three messages of SQLite that quote nothing except the query itself.
"""

import itertools
import math
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl

from keyhole.data.codebook import code_text
from keyhole.data.columns import find_columns
from keyhole.data.variables import Table
from keyhole.errors import InputError

SQLITE = "sqlite:///"
BATCH = 50_000
STEPS_BETWEEN_SIGNALS = 100_000
ABOUT_THE_QUERY = ("near ", "no such table", "no such column", "incomplete input")
READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
MISSING_EXTRA = (
    "databases other than SQLite need SQLAlchemy: pip install 'keyhole[sql]' and the driver of the database."
)


def is_url(source: object) -> bool:
    """Say whether the source is the address of a database, not a file."""
    return isinstance(source, str) and "://" in source


def sqlite_file(url: str) -> Path | None:
    """Return the file of an SQLite address, None for other databases."""
    return Path(url.removeprefix(SQLITE)) if url.startswith(SQLITE) else None


def read_database(url: str, query: str, wanted: Sequence[str] | None) -> Table:
    """Run the query and return the wanted columns (None: all of them)."""
    file = sqlite_file(url)
    return _read_other(url, query, wanted) if file is None else _read_sqlite(file, query, wanted)


def _read_sqlite(file: Path, query: str, wanted: Sequence[str] | None) -> Table:
    where = f"the query on {file}"
    if not file.is_file():
        raise InputError(
            f"{file} does not exist: write sqlite:///survey.db, or sqlite:////data/survey.db from the root."
        )
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            connection.set_authorizer(_allow_reading)
            # Without this a long query would not hear Ctrl-C.
            connection.set_progress_handler(lambda: 0, STEPS_BETWEEN_SIGNALS)
            cursor = connection.execute(query)
            header = [column[0] for column in cursor.description or ()]
            return _collect(where, header, iter(lambda: cursor.fetchmany(BATCH), []), wanted)
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
        raise InputError(f"{where} failed: {_explain(error)}") from None


def _allow_reading(action: int, *_: object) -> int:
    """Refuse everything but reading: no other file is attached, nothing is changed."""
    return sqlite3.SQLITE_OK if action in READING else sqlite3.SQLITE_DENY


def _explain(error: Exception) -> str:
    told = str(error)
    if told.startswith(ABOUT_THE_QUERY):
        return " ".join(told.split()) + "."
    if "not authorized" in told or "one statement" in told:
        return "only a single SELECT is allowed."
    if "file is not a database" in told:
        return "the file is not an SQLite database."
    return "the database refused it or is damaged; try the query with the database's own program."


def _read_other(url: str, query: str, wanted: Sequence[str] | None) -> Table:
    try:
        import sqlalchemy
    except ImportError:
        raise InputError(MISSING_EXTRA) from None
    where = "the query"
    try:
        engine = sqlalchemy.create_engine(url)
    except ImportError:
        raise InputError("the driver of this database is not installed: pip install it, then try again.") from None
    except (sqlalchemy.exc.SQLAlchemyError, ValueError):
        raise InputError(
            "--url is not the address of a database: write it as dialect://user@host/name, for instance "
            "postgresql+psycopg://reader@localhost/survey."
        ) from None
    try:
        with engine.connect() as connection:
            # Closing without commit undoes whatever the query did; PostgreSQL refuses to write from the start.
            rows = connection.execution_options(stream_results=True, postgresql_readonly=True).exec_driver_sql(query)
            if not rows.returns_rows:
                raise InputError(f"{where} gives no rows: only a single SELECT is allowed.")
            return _collect(where, list(rows.keys()), map(list, rows.partitions(BATCH)), wanted)
    except (InputError, MemoryError):
        raise
    except Exception:
        # Whatever a driver raises may quote the address or a value.
        raise InputError(f"{where} failed: check the address, the password and the query.") from None
    finally:
        engine.dispose()


def _collect(where: str, header: list[str], batches: Iterator[list[Any]], wanted: Sequence[str] | None) -> Table:
    """Write the wanted columns as text, batch by batch: the rows of a query may have any type."""
    if not header:
        raise InputError(f"{where} gives no rows: only a single SELECT is allowed.")
    names = header if wanted is None else list(wanted)
    positions = find_columns(header, names, where)
    parts = []
    for batch in itertools.chain(batches, [[]]):
        columns = [
            _texts([row[position] for row in batch], name, where)
            for position, name in zip(positions, names, strict=True)
        ]
        parts.append(pl.DataFrame(columns))
    return Table(where, tuple(header), pl.concat(parts))


def _texts(values: list[Any], name: str, where: str) -> pl.Series:
    """Write values as text, each different one once."""
    try:
        written = {value: _write(value) for value in set(values)}
    except (TypeError, ValueError):
        raise InputError(f"{where}: column '{name}' holds bytes or structures, not categories.") from None
    return pl.Series(name, [written[value] for value in values], dtype=pl.String)


def _write(value: Any) -> str | None:
    if isinstance(value, bytes | bytearray | memoryview | list | dict | tuple):
        raise TypeError
    return None if value is None or (isinstance(value, float) and math.isnan(value)) else code_text(value)

"""Read the rows of a database query: SQLite through the standard library, read-only; all others through SQLAlchemy.

Error messages never contain the address (it may hold a password) or a message of the database (it may quote values),
except for messages of SQLite that quote only the query itself.
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


def is_url(source: object) -> bool:
    """Whether the source is the address of a database rather than a file."""
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
            # Let Ctrl-C interrupt a long query.
            connection.set_progress_handler(lambda: 0, STEPS_BETWEEN_SIGNALS)
            cursor = connection.execute(query)
            header = [column[0] for column in cursor.description or ()]
            return _collect(where, header, iter(lambda: cursor.fetchmany(BATCH), []), wanted)
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
        raise InputError(f"{where} failed: {_explain(error)}") from None


def _allow_reading(action: int, *_: object) -> int:
    """Permit reading only: the query cannot attach another file or change anything."""
    return sqlite3.SQLITE_OK if action in READING else sqlite3.SQLITE_DENY


def _explain(error: Exception) -> str:
    message = str(error)
    if message.startswith(ABOUT_THE_QUERY):
        return " ".join(message.split()) + "; correct the query."
    if "not authorized" in message or "one statement" in message:
        return "only a single SELECT is allowed."
    if "file is not a database" in message:
        return "the file is not an SQLite database."
    return "the database refused it or is damaged; try the query with the database's own client."


def _read_other(url: str, query: str, wanted: Sequence[str] | None) -> Table:
    try:
        import sqlalchemy
    except ImportError:
        raise InputError(
            "databases other than SQLite need SQLAlchemy: pip install 'keyhole[sql]' and the driver of the database."
        ) from None
    where = "the query"
    try:
        engine = sqlalchemy.create_engine(url)
    except ImportError:
        raise InputError("the driver of this database is not installed: install it with pip.") from None
    except (sqlalchemy.exc.SQLAlchemyError, ValueError):
        raise InputError(
            "`url` is not the address of a database: write it as dialect://user@host/name, for instance "
            "postgresql+psycopg://reader@localhost/survey."
        ) from None
    try:
        with engine.connect() as connection:
            # Closing without commit rolls the query back; PostgreSQL also refuses to write.
            rows = connection.execution_options(stream_results=True, postgresql_readonly=True).exec_driver_sql(query)
            if not rows.returns_rows:
                raise InputError(f"{where} returns no rows: only a single SELECT is allowed.")
            return _collect(where, list(rows.keys()), map(list, rows.partitions(BATCH)), wanted)
    except (InputError, MemoryError):
        raise
    except Exception:
        # The message of a driver may quote the address or a value.
        raise InputError(f"{where} failed: check the address, the password and the query.") from None
    finally:
        engine.dispose()


def _collect(where: str, header: list[str], batches: Iterator[list[Any]], wanted: Sequence[str] | None) -> Table:
    """Collect the wanted columns as text, batch by batch, since the values of a query may have any type."""
    if not header:
        raise InputError(f"{where} returns no rows: only a single SELECT is allowed.")
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
    try:
        text = {value: _text(value) for value in set(values)}
    except (TypeError, ValueError):
        raise InputError(f"{where}: column '{name}' holds bytes or structures, not categories.") from None
    return pl.Series(name, [text[value] for value in values], dtype=pl.String)


def _text(value: Any) -> str | None:
    if isinstance(value, bytes | bytearray | memoryview | list | dict | tuple):
        raise TypeError
    return None if value is None or (isinstance(value, float) and math.isnan(value)) else code_text(value)

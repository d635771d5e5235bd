"""Read the rows of a database query: SQLite through the standard library, read-only; all others through SQLAlchemy.

Error messages never contain the address (it may hold a password) or a message of the database (it may quote values),
except for messages of SQLite that quote only the query itself.
"""

import itertools
import math
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from keyhole.data.categories import compact
from keyhole.data.codebook import code_text
from keyhole.data.columns import COUNTED, find_columns
from keyhole.data.variables import Table
from keyhole.errors import InputError

SQLITE = "sqlite:///"
BATCH = 50_000
QUOTE = '"'
STEPS_BETWEEN_SIGNALS = 100_000
ABOUT_THE_QUERY = ("near ", "no such table", "no such column", "incomplete input")
READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}


@dataclass(frozen=True)
class Request:
    """A query, its wanted columns, the keys among them, and whether equal rows are counted by the database."""

    query: str
    wanted: Sequence[str] | None
    keys: Collection[str]
    counted: bool

    @property
    def _rows(self) -> str:
        # The line ends a comment at the end of the query.
        return f"({self.query.strip().removesuffix(';')}\n) keyhole_rows"

    @property
    def no_rows(self) -> str:
        """A query for the header alone."""
        return f"SELECT * FROM {self._rows} WHERE 1 = 0"

    def check(self, header: Sequence[str], where: str) -> Sequence[str]:
        """Return the wanted columns, all of which the query has: SQLite takes an unknown name for a text."""
        names = header if self.wanted is None else [name for name in self.wanted if name != COUNTED]
        find_columns(header, names, where)
        return names

    def count_rows(self, quoted: Sequence[str]) -> str:
        """Return the query that counts the rows of each combination of these columns, ordered by them."""
        columns = ", ".join(quoted)
        return f"SELECT {columns}, COUNT(*) AS {COUNTED} FROM {self._rows} GROUP BY {columns} ORDER BY {columns}"


def is_url(source: object) -> bool:
    """Whether the source is the address of a database rather than a file."""
    return isinstance(source, str) and "://" in source


def sqlite_file(url: str) -> Path | None:
    """Return the file of an SQLite address, None for other databases."""
    return Path(url.removeprefix(SQLITE)) if url.startswith(SQLITE) else None


def read_database(
    url: str, query: str, wanted: Sequence[str] | None, keys: Collection[str] = (), counted: bool = False
) -> Table:
    """Run the query and return the wanted columns (None: all of them).

    keys: columns with few distinct values. counted: let the database count equal rows of the wanted columns, and
    return the distinct ones in its order, with the number of rows of each in the column COUNTED.
    """
    file = sqlite_file(url)
    request = Request(query, wanted, keys, counted)
    return _read_other(url, request) if file is None else _read_sqlite(file, request)


def _read_sqlite(file: Path, request: Request) -> Table:
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
            # SQLite computes rows when they are fetched, so this finds the columns only.
            cursor = connection.execute(request.query)
            header = [column[0] for column in cursor.description or ()]
            if request.counted:
                names = request.check(header, where)
                cursor = connection.execute(
                    request.count_rows([f'"{name.replace(QUOTE, 2 * QUOTE)}"' for name in names])
                )
                header = [*names, COUNTED]
            return _collect(where, header, iter(lambda: cursor.fetchmany(BATCH), []), request)
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


def _read_other(url: str, request: Request) -> Table:
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
    with ExitStack() as open_until_read:
        open_until_read.callback(engine.dispose)
        with _without_message(where):
            connection = engine.connect()
            open_until_read.callback(_close, connection)
            # Closing without commit rolls the query back; PostgreSQL also refuses to write.
            connection = connection.execution_options(stream_results=True, postgresql_readonly=True)
            rows = connection.exec_driver_sql(request.no_rows if request.counted else request.query)
        if not rows.returns_rows:
            raise InputError(f"{where} returns no rows: only a single SELECT is allowed.")
        header = list(rows.keys())
        if request.counted:
            names = request.check(header, where)
            with _without_message(where):
                rows.close()
                rows = connection.exec_driver_sql(
                    request.count_rows([engine.dialect.identifier_preparer.quote(name) for name in names])
                )
            header = [*names, COUNTED]
        return _collect(where, header, _fetch(rows, where), request)


@contextmanager
def _without_message(where: str) -> Iterator[None]:
    """Turn whatever a driver raises into one line; its message may quote the address or a value.

    Drivers raise errors of any class. Only calls of theirs are in such a section, so that an error of ours is not
    blamed on the database.
    """
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception:
        raise InputError(f"{where} failed: check the address, the password and the query.") from None


def _close(connection: Any) -> None:
    """Close a connection; the rows are read, so a database that is gone meanwhile changes nothing."""
    with suppress(Exception):
        connection.close()


def _fetch(rows: Any, where: str) -> Iterator[list[Any]]:
    """Yield the rows in batches."""
    batches = rows.partitions(BATCH)
    while True:
        with _without_message(where):
            batch = next(batches, None)
        if batch is None:
            return
        yield list(batch)


def _collect(where: str, header: list[str], batches: Iterator[list[Any]], request: Request) -> Table:
    """Collect the wanted columns as text, batch by batch, since the values of a query may have any type."""
    if not header:
        raise InputError(f"{where} returns no rows: only a single SELECT is allowed.")
    names = header if request.wanted is None or request.counted else list(request.wanted)
    positions = find_columns(header, names, where)
    categories = pl.Categories.random()
    parts = []
    for batch in itertools.chain(batches, [[]]):
        columns = [
            _texts([row[position] for row in batch], name, where)
            for position, name in zip(positions, names, strict=True)
        ]
        parts.append(compact(pl.LazyFrame(columns), request.keys, categories).collect())
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

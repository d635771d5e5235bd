"""The same records in every format, for tests."""

import gzip
import io
import sqlite3
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pyreadstat

from keyhole.data import Microdata, SourceOptions, read_microdata, statistical_child

QUERY = "SELECT * FROM people"


def write(frame: pl.DataFrame, folder: Path, kind: str, **told: object) -> str:
    """Write the records and return the source as a user names it; `told` goes to pyreadstat (labels and so on)."""
    path = folder / f"people.{kind}"
    if kind == "csv":
        frame.write_csv(path)
    elif kind == "csv.gz":
        path.write_bytes(gzip.compress(frame.write_csv().encode()))
    elif kind == "utf16.csv":
        path.write_bytes(frame.write_csv(separator=";", line_terminator="\r\n").encode("utf-16"))
    elif kind == "parquet":
        frame.write_parquet(path)
    elif kind in ("sav", "zsav"):
        pyreadstat.write_sav(frame, path, compress=kind == "zsav", **told)
    elif kind == "por":
        pyreadstat.write_por(frame, path, **told)
    elif kind == "dta":
        pyreadstat.write_dta(frame, path, **told)
    elif kind == "xpt":
        pyreadstat.write_xport(frame, path, file_format_version=5, **told)
    elif kind == "db":
        connection = sqlite3.connect(path)
        columns = [f'"{name}" {"REAL" if frame[name].dtype.is_numeric() else "TEXT"}' for name in frame.columns]
        connection.execute(f"CREATE TABLE people ({', '.join(columns)})")
        connection.executemany(f"INSERT INTO people VALUES ({','.join('?' * frame.width)})", frame.rows())
        connection.commit()
        connection.close()
        return f"sqlite:///{path}"
    return str(path)


def options(source: str, **chosen: Any) -> SourceOptions:
    """Add the query that a database needs."""
    return SourceOptions(query=QUERY if "://" in source else None, **chosen)


def read(source: str, keys: str, missing: Any = "category", codebook: Any = None, **chosen: Any) -> Microdata:
    """Read with options as keywords."""
    return read_microdata(source, keys, codebook, missing=missing, options=options(source, **chosen))


def run_child_here(monkeypatch: Any) -> None:
    """Read SPSS, Stata and SAS files in this process: starting the child costs a second each time."""
    monkeypatch.setattr(statistical_child, "_limit", lambda _: None)

    class Child:
        """Answers when the request is complete, as the child does."""

        def __init__(self, *_: Any, **__: Any) -> None:
            self.request, self.stdout = io.BytesIO(), io.BytesIO()
            self.stdin = SimpleNamespace(write=self.request.write, close=self.answer)
            self.returncode: int | None = None

        def answer(self) -> None:
            with monkeypatch.context() as swapped:
                swapped.setattr(sys, "stdin", io.StringIO(self.request.getvalue().decode()))
                swapped.setattr(sys, "stdout", SimpleNamespace(buffer=self.stdout))
                self.returncode = statistical_child.main()
            self.stdout.seek(0)

        def __enter__(self) -> "Child":
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def wait(self) -> None:
            pass

        kill = wait

    monkeypatch.setattr("keyhole.data.statistical.subprocess.Popen", Child)

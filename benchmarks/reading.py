"""Ten keys read, encoded and counted from each format, and the table of the records written: seconds and peak memory.

Run as `python -m benchmarks.reading`; `--rows 10000000` for the figures of docs/scale.md. Each file has its own
process; where the library that reads SPSS and Stata has another one, memory is that of the larger of both.
"""

import argparse
import gzip
import json
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

SIZES = (2, 100, 50, 6, 12, 30, 5, 8, 4, 20)
KEYS = [f"K{j}" for j in range(len(SIZES))]
PROFILES = 60
CHILD = """
import json, resource, sys, time
from pathlib import Path
import numpy as np
from benchmarks.machine import peak_megabytes
from keyhole.data import SourceOptions, count_records, read_microdata
from keyhole.results.folder import write_records
from keyhole.risk.measures import Risk, certain_measure
from keyhole.summary import make_records

def used():
    own, library = (resource.getrusage(x) for x in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    cpu = sum(x.ru_utime + x.ru_stime for x in (own, library))
    # ru_maxrss of this process would be that of the one that started it, if larger.
    return cpu, max(peak_megabytes() / 1e3, library.ru_maxrss / 1e6)

source, keys, query, folder = sys.argv[1:]
query, counted = (query or None), query.startswith("count: ")
options = SourceOptions(query.removeprefix("count: ") if query else None, count_cells=counted)
started = time.perf_counter()
data = read_microdata(source, keys, options=options)
counts = count_records(data.cells, data.cell)
seconds = time.perf_counter() - started
cpu, gigabytes = used()
risks = np.random.default_rng(1).random((6, len(counts.unique_record)))
risk = Risk(certain_measure(1.0), certain_measure(1.0), *risks)
table = make_records(data, counts, risk, {"rank": np.arange(len(counts.unique_record))}, {})
started = time.perf_counter()
write_records(table, Path(folder) / "records.csv", Path(folder) / "records.parquet")
print(json.dumps({
    "seconds": seconds, "cpu": cpu, "gigabytes": gigabytes, "records": data.records, "cells": counts.distinct,
    "sample_uniques": len(counts.unique_record),
    "written": {"seconds": time.perf_counter() - started, "gigabytes": used()[1]},
}))
"""


def make_people(rows: int, cells: int, seed: int = 1) -> pl.DataFrame:
    """Draw rows from this many cells at most, which lie around PROFILES profiles and have very unequal sizes."""
    rng = np.random.default_rng(seed)
    found = np.empty((0, len(SIZES)), np.int64)
    while len(found) < min(cells, rows):
        shares = [rng.dirichlet(np.full(size, 0.15)) for size in SIZES]
        size = max(cells * 3 // PROFILES, 100)
        drawn = [rng.choice(len(share), size, p=share) for share in shares]
        found = np.unique(np.concatenate([found, np.stack(drawn, axis=1)]), axis=0)
    found = rng.permutation(found)[:cells]
    weight = rng.pareto(0.7, len(found)) + 0.02
    once = np.arange(min(len(found), rows))
    more = rng.choice(len(found), rows - len(once), p=weight / weight.sum())
    chosen = rng.permutation(np.concatenate([once, more]))
    return pl.DataFrame({key: found[chosen, j].astype(np.int16) + 1 for j, key in enumerate(KEYS)})


def write_files(frame: pl.DataFrame, folder: Path) -> dict[str, tuple[str, str]]:
    """Write the records in each format; return source and query by format."""
    import pyreadstat

    frame.write_csv(folder / "x.csv")
    texts = pl.all().cast(pl.String).str.replace("^", "category number ")
    frame.select(texts).write_csv(folder / "text.csv")
    frame.write_parquet(folder / "x.parquet")
    (folder / "parts").mkdir()
    for place, part in enumerate(frame.iter_slices(max(frame.height // 10, 1))):
        part.write_parquet(folder / "parts" / f"{place:02}.parquet")
    with (folder / "x.csv").open("rb") as plain, gzip.open(folder / "x.csv.gz", "wb", compresslevel=1) as packed:
        while block := plain.read(1 << 24):
            packed.write(block)
    pyreadstat.write_sav(frame, folder / "x.sav")
    pyreadstat.write_sav(frame, folder / "x.zsav", compress=True)
    pyreadstat.write_dta(frame, folder / "x.dta")
    with sqlite3.connect(folder / "x.db") as connection:
        connection.execute(f"CREATE TABLE people ({', '.join(KEYS)})")
        for part in frame.iter_slices(100_000):
            connection.executemany(f"INSERT INTO people VALUES ({','.join('?' * len(KEYS))})", part.rows())
    connection.close()
    names = {"csv": "x.csv", "csv, long texts": "text.csv", "csv.gz": "x.csv.gz", "parquet": "x.parquet"}
    names |= {"folder of parquet": "parts", "sav": "x.sav", "zsav": "x.zsav", "dta": "x.dta"}
    files = {name: (str(folder / file), "") for name, file in names.items()}
    url = f"sqlite:///{folder / 'x.db'}"
    query = "SELECT * FROM people"
    return {**files, "sqlite": (url, query), "sqlite, counted there": (url, f"count: {query}")}


def measure(source: str, query: str, folder: Path) -> dict[str, Any]:
    """Read one source in a process of its own."""
    call = [sys.executable, "-c", CHILD, source, ",".join(KEYS), query, str(folder)]
    found: dict[str, Any] = json.loads(subprocess.run(call, capture_output=True, text=True, check=True).stdout)
    return found


def main() -> None:
    """Print one line of JSON for each format."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--cells", type=int, default=100_000)
    parser.add_argument("--formats", nargs="*")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        sources = write_files(make_people(chosen.rows, chosen.cells), Path(name))
        for kind in chosen.formats or sources:
            found = measure(*sources[kind], Path(name))
            print(json.dumps({"format": kind, "rows": chosen.rows, **found}), flush=True)


if __name__ == "__main__":
    main()

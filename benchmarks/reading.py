"""A million records with ten keys, read and encoded from each format: seconds and peak memory of the process.

Run as `python -m benchmarks.reading`; `--rows 100000` for a quick look.
"""

import argparse
import json
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

SIZES = (2, 100, 50, 6, 12, 30, 5, 8, 4, 20)
KEYS = [f"K{j}" for j in range(len(SIZES))]
CHILD = """
import json, resource, sys, time
from keyhole.data import SourceOptions, count_cells, encode, read_microdata
started = time.perf_counter()
data = read_microdata(sys.argv[1], sys.argv[2], options=SourceOptions(query=sys.argv[3] or None))
encode(data), count_cells(data.codes)
peak = [resource.getrusage(who).ru_maxrss / 1e6 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
cpu = [resource.getrusage(who).ru_utime for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(json.dumps({"seconds": time.perf_counter() - started, "cpu": sum(cpu), "gigabytes": max(peak)}))
"""


def write_files(frame: pl.DataFrame, folder: Path) -> dict[str, tuple[str, str]]:
    """Write the records in each format; return source and query by format."""
    import gzip

    import pyreadstat

    frame.write_csv(folder / "x.csv")
    frame.write_parquet(folder / "x.parquet")
    with gzip.open(folder / "x.csv.gz", "wb", compresslevel=1) as file:
        file.write((folder / "x.csv").read_bytes())
    pyreadstat.write_sav(frame, folder / "x.sav")
    pyreadstat.write_dta(frame, folder / "x.dta")
    with sqlite3.connect(folder / "x.db") as connection:
        connection.execute(f"CREATE TABLE people ({', '.join(KEYS)})")
        connection.executemany(f"INSERT INTO people VALUES ({','.join('?' * len(KEYS))})", frame.iter_rows())
    connection.close()
    files = {name: (str(folder / f"x.{name}"), "") for name in ("csv", "parquet", "csv.gz", "sav", "dta")}
    return {**files, "sqlite": (f"sqlite:///{folder / 'x.db'}", "SELECT * FROM people")}


def main() -> None:
    """Print one line of JSON for each format."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({key: rng.integers(0, size, rows) for key, size in zip(KEYS, SIZES, strict=True)})
    with tempfile.TemporaryDirectory() as name:
        for kind, (source, query) in write_files(frame, Path(name)).items():
            call = [sys.executable, "-c", CHILD, source, ",".join(KEYS), query]
            done = subprocess.run(call, capture_output=True, text=True, check=True)
            print(json.dumps({"format": kind, "rows": rows, **json.loads(done.stdout)}))


if __name__ == "__main__":
    main()

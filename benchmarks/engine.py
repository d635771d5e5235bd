"""Measure the engine; print the figures next to those promised, and keep them with machine and commit.

    ./scripts/bench                        everything but what needs --large or --compile, about twenty minutes
    ./scripts/bench --quick                seconds for each measurement; prints JSON, keeps nothing
    ./scripts/bench --only mixing --file ny_full_10000 --seconds 60

A section measured again on the same day and commit replaces the earlier one in the same file.
"""

import argparse
import importlib
import json
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

if not __package__:
    # Called as a file: Python then looks for modules beside it instead of in the project.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

SECTIONS = {
    "mixing": "sweeps and effective draws of tau1 per second, by file and prior",
    "cells": "microseconds for an exact cell probability",
    "answers": "nanoseconds per answer of seats and labels, and their growth",
    "steps": "milliseconds of each kernel in a sweep",
    "classes": "seconds to the verdict of classes, and a sweep of a million records",
    "startup": "start-up, compilation and memory",
}


def main() -> None:
    """Run the sections that are asked for."""
    options = parse_options()
    from benchmarks.figures import compare, format_table
    from benchmarks.machine import describe_code, describe_machine, load_average

    seconds = options.seconds or (1.0 if options.quick else 10.0)
    extra: dict[str, dict[str, Any]] = {"mixing": {"files": options.file}}
    extra |= {"answers": {"large": options.large}, "startup": {"compile_cold": options.compile}}
    machine, code = describe_machine(), describe_code()
    print(f"{machine['cpu']}, {machine['cores']} cores, load {load_average()}, commit {code['commit']}")
    results: dict[str, Any] = {}
    about: dict[str, Any] = {}
    for name in options.only or SECTIONS:
        print(f"{name}: {SECTIONS[name]}", flush=True)
        clock, load = time.perf_counter(), load_average()
        module = importlib.import_module(f"benchmarks.{name}")
        results[name] = module.measure(seconds, options.quick, **extra.get(name, {}))
        about[name] = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "load_before": load,
            "load_after": load_average(),
            "seconds_per_measurement": seconds,
            "seconds": round(time.perf_counter() - clock, 1),
            **code,
        }
    document = {"machine": machine, "code": code, "sections": about, "results": results}
    if not options.quick:
        path = Path(__file__).parent / "results" / f"{datetime.now(UTC):%Y-%m-%d}-{code['commit']}.json"
        document = merge(path, document)
    figures = compare(document["results"])
    document["figures"] = [{**asdict(figure), "met": figure.met} for figure in figures]
    text = json.dumps(round_numbers(document), indent=1) + "\n"
    if options.quick:
        print(text)
    else:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        print(f"kept in benchmarks/results/{path.name}")
    print(format_table(figures))


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="bench", description="Measure keyhole's engine.")
    parser.add_argument("--quick", action="store_true", help="a second for each measurement, small files only")
    parser.add_argument("--only", action="append", choices=list(SECTIONS), help="this section (repeatable)")
    parser.add_argument("--file", action="append", help="in mixing, this file, as named there (repeatable)")
    parser.add_argument("--seconds", type=float, help="processor seconds for each measurement [default: 10]")
    parser.add_argument("--large", action="store_true", help="also a million records of ten variables")
    parser.add_argument("--compile", action="store_true", help="also compilation from nothing, about a minute")
    return parser.parse_args()


def merge(path: Path, document: dict[str, Any]) -> dict[str, Any]:
    """Keep the sections of an earlier run of this day and commit that were not measured again."""
    if not path.exists():
        return document
    earlier = json.loads(path.read_text())
    for key in ("sections", "results"):
        document[key] = {**earlier[key], **document[key]}
    return document


def round_numbers(value: Any) -> Any:
    """Keep four digits: more would be noise."""
    if isinstance(value, dict):
        return {key: round_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [round_numbers(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()

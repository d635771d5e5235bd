"""The table of `keyhole validate` on the screen."""

from pathlib import Path
from typing import Any

import click
import numpy as np

from keyhole.commands.screen import print_table
from keyhole.words import number


def print_scores(result: dict[str, Any], folder: Path) -> None:
    """Print the figures of every estimator, tau1 first."""
    truth = {tau: float(np.mean(values)) for tau, values in result["truth"].items()}
    click.echo(
        f"{result['replicates']} samples of {result['sample_size']:,} from {result['population']:,} people. On average "
        f"{number(float(np.mean(result['sample_uniques'])))} sample uniques, tau1 = {number(truth['tau1'])} and "
        f"tau2 = {number(truth['tau2'])}.\n"
    )
    for tau in ("tau1", "tau2"):
        print_table(
            (tau, "Bias", "RMSE", "Coverage", "Width", "Seconds"),
            [
                (
                    entry["name"],
                    *(_figure(entry[tau][name]) for name in ("bias", "rmse")),
                    "-" if entry[tau]["coverage"] is None else f"{100 * entry[tau]['coverage']:.0f} %",
                    _figure(entry[tau]["width"]),
                    f"{entry['seconds']:.1f}",
                )
                for entry in result["estimators"]
            ],
        )
    for entry in result["estimators"]:
        if entry["not_converged"] or entry["failed"]:
            click.echo(f"{entry['name']}: {_remark(entry)}")
    click.echo(f"Coverage is that of the 95 % interval. All figures and the plot are in {folder}/.")


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _remark(entry: dict[str, Any]) -> str:
    told = []
    if entry["not_converged"]:
        told.append(f"{entry['not_converged']} not converged in its time (--time-limit)")
    if entry["failed"]:
        told.append(f"{entry['failed']} failed: {entry['errors'][0]}")
    return "; ".join(told)

"""`keyhole assess`, with its release gates: `--fail-above tau1=5` leaves the results written; the status is 4."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from keyhole.commands.config import config_flag, drop_overruled, given, json_flag, quiet_flag, settings_flags
from keyhole.commands.source import choose_source, source_flags, source_stem
from keyhole.errors import SettingsError

GATE_CROSSED = 4
ENDS = {None: "mean", "mean": "mean", "upper": "upper"}
_FORM = re.compile(r"\s*(tau1|tau2)(?:\.(mean|upper))?\s*=\s*([0-9.eE+-]+)\s*")


@dataclass(frozen=True)
class ReleaseGate:
    """A limit for a risk of the file: its mean, or the upper end of its interval."""

    measure: str
    end: str
    limit: float

    def value(self, summary: Mapping[str, Any]) -> float:
        """Return what is held against the limit."""
        block = summary[self.measure]
        return float(block["mean"] if self.end == "mean" else block["interval"][1])

    def describe(self, summary: Mapping[str, Any]) -> str:
        """Say by how much the gate is crossed."""
        value = self.value(summary)
        what = "the mean" if self.end == "mean" else "the upper end of the interval"
        return f"{self.measure} is {value:.4g} ({what}), {value - self.limit:.3g} above {self.limit:g}"


def parse_gates(texts: Iterable[str]) -> list[ReleaseGate]:
    """Read the gates, all mistakes at once."""
    gates, wrong = [], []
    for text in texts:
        found = _FORM.fullmatch(text)
        limit = _number(found[3]) if found else None
        if found is None or limit is None:
            wrong.append(text.strip())
        else:
            gates.append(ReleaseGate(found[1], ENDS[found[2]], limit))
    if wrong:
        raise SettingsError(
            f"fail-above {', '.join(wrong)}: write tau1=5 for the mean or tau1.upper=5 for the upper end of the "
            "interval, tau1 or tau2, with a limit of 0 or more"
        )
    return gates


def crossed(gates: Iterable[ReleaseGate], summary: Mapping[str, Any]) -> list[str]:
    """Describe the gates that are crossed. A limit that is met exactly is not crossed."""
    return [gate.describe(summary) for gate in gates if gate.value(summary) > gate.limit]


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0.0 else None


NOT_CONVERGED = 3


@click.command("assess", short_help="Estimate the disclosure risk of a file.")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--keys", required=True, metavar="A,B,C", help="Columns an intruder could know about a person.")
@click.option("--population", type=int, metavar="N", help="People in the population the sample is drawn from.")
@click.option("--fraction", type=float, metavar="F", help="Share of the population in the sample, in place of N.")
@click.option("--weight", metavar="W", help="Column of survey weights; N defaults to their sum.")
@click.option("--household", metavar="ID", help="Column that tells households apart; adds their risk.")
@click.option("--codebook", type=click.Path(path_type=Path), help="YAML or JSON: the categories of each key.")
@click.option("--zeros", type=click.Path(path_type=Path), help="CSV or YAML: combinations that cannot exist.")
@click.option("--drop-contradictions", is_flag=True, help="Leave out records that contradict a rule.")
@click.option("--self-check", is_flag=True, help="Fit half of the file too, and see how well it predicts the whole.")
@click.option("--out", type=click.Path(path_type=Path), help="Result folder.  [default: FILE-stem.keyhole]")
@click.option("--allow-identifier", multiple=True, metavar="KEY", help="Accept a key that looks like an identifier.")
@click.option(
    "--accept",
    type=click.Choice(["usable"]),
    help="Exit with 0 also if the result is usable: good to twice the limits of a converged one.",
)
@click.option("--resume", is_flag=True, help="Go on with the unfinished run that the result folder holds.")
@source_flags()
@click.option(
    "--fail-above",
    multiple=True,
    metavar="tau1=5",
    help="Exit with 4 if tau1 (tau2, tau1.upper) is more.",
)
@config_flag
@settings_flags()
@json_flag
@quiet_flag
def command(
    file: Path | None,
    keys: str,
    population: int | None,
    fraction: float | None,
    weight: str | None,
    household: str | None,
    codebook: Path | None,
    zeros: Path | None,
    drop_contradictions: bool,
    self_check: bool,
    out: Path | None,
    allow_identifier: tuple[str, ...],
    accept: str | None,
    resume: bool,
    url: str | None,
    fail_above: tuple[str, ...],
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Estimate how many people in FILE could be picked out by the key variables.

    FILE is a table with one row per person, a simple random sample of the population: CSV or TSV (also gzipped),
    Parquet, SPSS (.sav, .zsav, .por), Stata (.dta), SAS (.sas7bdat, .xpt), or a database (--url and --query).

    \b
    Examples:
      keyhole assess survey.csv --keys AGE,SEX,MARST --population 953076
      keyhole assess survey.sav --keys AGE,SEX --band AGE=0,15,30,45,60,75 --population 953076

    The result folder holds report.html (to read and to print), summary.json, records.csv (the risk of every record;
    records.parquet is the same),
    draws.nc (for ArviZ) and manifest.json. Only its owner can read it.
    """
    population, fraction = drop_overruled(click.get_current_context(), "population", "fraction")
    sizes = (population is not None) + (fraction is not None)
    if sizes > 1 or (sizes == 0 and weight is None):
        raise click.UsageError("give one of --population N and --fraction F, or --weight W.")
    gates = parse_gates(fail_above)
    source = choose_source(file, url, options["query"])
    folder = out if out is not None else Path(f"{source_stem(source)}.keyhole")

    from keyhole import assess
    from keyhole.commands.progress import show_progress
    from keyhole.commands.screen import print_json, print_summary, silenced
    from keyhole.files import locked
    from keyhole.results.folder import CHECKPOINT, check_output, sweep_staging
    from keyhole.sampling.workers import stoppable

    check_output(folder)
    with stoppable(), locked(folder), silenced():
        sweep_staging(folder)
        with show_progress(quiet or as_json) as on_progress:
            assessment = assess(
                source,
                keys,
                population=population,
                fraction=fraction,
                weight=weight,
                household=household,
                codebook=codebook,
                zeros=zeros,
                drop_contradictions=drop_contradictions,
                self_check=self_check,
                allow_identifier=allow_identifier,
                on_progress=on_progress,
                checkpoint=folder / CHECKPOINT,
                resume=resume,
                **given(options),
            )
        assessment.save(folder)
    if as_json:
        print_json(assessment.summary)
    elif not quiet:
        print_summary(assessment.summary, folder)
    for check in ("fit", "self_check"):
        found = assessment.summary[check]
        if found is not None and not found["ok"]:
            click.echo(f"keyhole: {found['message']}", err=True)
    over = crossed(gates, assessment.summary)
    if over:
        click.echo(f"keyhole: --fail-above: {'; '.join(over)}.", err=True)
    if not assessment.converged:
        click.echo(f"keyhole: {assessment.diagnosis.message}", err=True)
        if assessment.summary["convergence"].get("stopped") == "time" and (folder / CHECKPOINT).is_dir():
            click.echo("keyhole: the same command with --resume goes on where this run ended.", err=True)
    if over:
        return GATE_CROSSED
    return 0 if assessment.converged or assessment.grade == accept else NOT_CONVERGED

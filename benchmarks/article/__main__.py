"""`python benchmarks/article.py`: all of it, or parts of it."""

import argparse
import tempfile
from pathlib import Path

from benchmarks.article import distance, experiments, joint, parametric, pictures
from benchmarks.machine import ROOT
from keyhole.files import json_text, write_text

PARTS = ("tables", "profiles", "steps", "distance")


def main(arguments: list[str] | None = None) -> None:
    """Run the parts and write figures and JSON into a folder."""
    parser = argparse.ArgumentParser(prog="python benchmarks/article.py", description=main.__doc__)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="the article's samples")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "output" / "article")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"some of {','.join(PARTS)}")
    parser.add_argument("--time-limit", default="2m", help="for each run of keyhole")
    parser.add_argument("--max-sweeps", type=int, help="of each chain of keyhole: the same work on a busy machine")
    parser.add_argument("--largest", type=int, default=10_000, help="leave out larger samples")
    parser.add_argument("--only", help="experiments whose name holds this")
    parser.add_argument("--draws", type=int, default=4_000, help="joint draws for each step")
    parser.add_argument("--sweeps", type=int, default=2_000, help="of each chain of the article's algorithm")
    chosen = parser.parse_args(arguments)
    parts = chosen.parts.split(",")
    if set(parts) - set(PARTS):
        parser.error(f"parts are {', '.join(PARTS)}")
    chosen.out.mkdir(mode=0o700, parents=True, exist_ok=True)
    if "tables" in parts:
        run_tables(chosen)
    if "profiles" in parts:
        run_profiles(chosen)
    if "steps" in parts:
        print("Joint-distribution test: does a step leave the posterior?")
        write_text(json_text(joint.print_steps(chosen.draws)), chosen.out / "steps.json")
    if "distance" in parts:
        run_distance(chosen)


def run_tables(chosen: argparse.Namespace) -> None:
    """Tables 1 and 2, and a figure for each kind of settings."""
    results = []
    experiments.print_head()
    for experiment in experiments.list_experiments(chosen.data, chosen.largest):
        if chosen.only and chosen.only not in experiment.name:
            continue
        experiments.print_experiment(experiment)
        for settings in experiments.kinds(experiment):
            results.append(experiments.run(experiment, settings, chosen.time_limit, max_sweeps=chosen.max_sweeps))
            experiments.print_result(results[-1])
    write_text(json_text([experiments.describe(result) for result in results]), chosen.out / "tables.json")
    if not results or not pictures.have_matplotlib():
        return
    for settings in experiments.SETTINGS:
        for table in (1, 2):
            some = [found for found in results if found.settings == settings and found.experiment.table == table]
            if some:
                name = settings.replace(", ", "-").replace(" ", "-")
                pictures.draw_figure(some, chosen.out / f"table-{table}-{name}.svg")
    print(f"Figures and figures as numbers are in {chosen.out}.")


def run_profiles(chosen: argparse.Namespace) -> None:
    """The parametric model over K, on the synthetic population drawn again and on real adults where at hand."""
    wanted = min(chosen.largest, 1000)
    found = [*experiments.redraw_synthetic(wanted)]
    found += experiments.read_files(chosen.data, "ny_adults", 2, experiments.ADULTS, wanted)
    for experiment in found:
        if chosen.only and chosen.only not in experiment.name:
            continue
        print(f"Choosing K on {experiment.name}, tau1 = {experiment.truth:g}:")
        choices = parametric.try_range(experiment, chosen.time_limit, chosen.max_sweeps)
        parametric.print_cost(choices, experiment.truth)
        if experiment.truth is not None:
            best = parametric.nearest(choices, experiment.truth)
            print(f"  nearest to the truth, which the article reports and no user can know: K = {best.profiles}")
        name = experiment.name.replace(", n = ", "-").replace(",", "").replace(" ", "-")
        write_text(json_text([vars(choice) for choice in choices]), chosen.out / f"profiles-{name}.json")
        if pictures.have_matplotlib():
            path = chosen.out / f"profiles-{name}.svg"
            pictures.draw_profiles_figure(parametric.as_rows(choices), experiment.truth, path)


def run_distance(chosen: argparse.Namespace) -> None:
    """The printed algorithm beside the exact sampler."""
    plain = distance.compare_plain(chosen.sweeps)
    distance.print_answers("Without rules, prior 'paper', 200 records of 5,000 people:", plain)
    with tempfile.TemporaryDirectory() as folder:
        zeros = distance.compare_zeros(chosen.sweeps, Path(folder))
    distance.print_answers("With rules:", zeros)
    found = {"plain": [vars(answer) for answer in plain], "zeros": [vars(answer) for answer in zeros]}
    write_text(json_text(found), chosen.out / "distance.json")


if __name__ == "__main__":
    main()

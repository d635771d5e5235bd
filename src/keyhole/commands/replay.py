"""`keyhole replay`."""

from pathlib import Path

import click

from keyhole.commands.flags import CODEBOOK, JSON, QUIET, ZEROS, add

DIFFERENT = 5


@click.command("replay", short_help="Make a result again, and say whether it is the same to the bit.")
@click.argument("manifest", type=click.Path(path_type=Path))
@click.option("--data", metavar="FILE", required=True, help="The file (or address of the database) that was assessed.")
@click.option("--out", type=click.Path(path_type=Path), help="A new folder.  [default: beside the first, DIR-replay]")
@add(CODEBOOK, ZEROS)
@click.option("--strata-sizes", type=click.Path(path_type=Path), help="The table of the people in each stratum.")
@add(JSON, QUIET)
def command(
    manifest: Path,
    data: str,
    out: Path | None,
    codebook: Path | None,
    zeros: Path | None,
    strata_sizes: Path | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Make the result of MANIFEST (manifest.json, or its folder) again, from the same FILE and the same settings.

    FILE, rules and codebook are checked by the hashes in the manifest. Rules and codebook are taken from where they
    were, or from beside manifest or FILE; name them if they are elsewhere. tau1, tau2, records and draws are compared
    to the bit. A run that was ended by the clock is repeated with as many sweeps.

    Exit status: 0 the same; 1 a file is missing or not as it was; 5 not the same, with what may be the reason.

    \b
    Example:
      keyhole replay survey.keyhole/manifest.json --data survey.csv
    """
    from keyhole.commands.progress import show_progress
    from keyhole.commands.screen import print_json, print_text
    from keyhole.replaying import replay
    from keyhole.sampling.workers import stoppable

    with stoppable(), show_progress(quiet or as_json) as on_progress:
        found = replay(
            manifest, data, out, codebook=codebook, zeros=zeros, strata_sizes=strata_sizes, on_progress=on_progress
        )
    if as_json:
        print_json(found.to_dict())
    elif not quiet:
        print_text(found.message)
        print_text(f"{found.folder} holds the new result.")
    return 0 if found.same else DIFFERENT

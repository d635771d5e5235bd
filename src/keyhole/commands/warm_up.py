"""`keyhole warm-up`."""

import time

import click


@click.command("warm-up", short_help="Compile once after installing, so that the first run is fast.")
def command() -> int:
    """Compile the sampler and keep the machine code, so that later runs start at once.

    Needed only once after installing or upgrading; without it the first `assess` does the same.
    """
    started = time.perf_counter()
    from keyhole.sampling.precompile import ESTIMATORS, precompile

    precompile(ESTIMATORS, strata=True)
    click.echo(f"Compiled in {time.perf_counter() - started:.0f} s.")
    return 0

"""The command `keyhole`. A command is imported when it is called, so that `--help` is fast."""

import contextlib
import importlib
import io
import os
import sys
import threading
from collections.abc import Sequence

import click

from keyhole._version import __version__
from keyhole.commands import Group
from keyhole.errors import InputError, KeyholeError, SettingsError, Stopped
from keyhole.words import as_flags

BAD_INPUT = 1
WRONG_USAGE = 2
STOPPED = 130

COMMANDS = {
    "app": "Do all of it in a browser, on this machine.",
    "assess": "Estimate the disclosure risk of a file.",
    "compare": "Compare keyhole's estimates with those of other methods.",
    "demo": "Try it on a made-up country whose true risk is known.",
    "inspect": "Show the variables of a file, to choose the keys.",
    "plan": "Find the coarser release that meets a limit with the least loss.",
    "protect": "Apply a plan to its file.",
    "replay": "Make a result again, and say whether it is the same to the bit.",
    "report": "Write the report of a result folder again, safe or internal.",
    "simulate": "Draw a population and a sample from the model.",
    "validate": "Check estimators on a known population.",
    "warm-up": "Compile once after installing, so that the first run is fast.",
    "what-if": "Ask what a coarser release would change.",
    "zeros": "Rules for impossible combinations: check, suggest, boxes.",
}


class Commands(Group):
    """A group that knows its commands by name and imports them on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import `keyhole.commands.NAME` and return its `command`."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"keyhole.commands.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name]) for name in self.list_commands(ctx)])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="keyhole")
def group() -> None:
    """How many people in this file could be picked out?

    keyhole estimates how many records that are unique in a sample are unique in the population, with a 95 %
    interval. Start with `keyhole demo`, then

    \b
    keyhole assess FILE --keys AGE,SEX,MARST --population 953076

    Exit status: 0 done; 1 bad input; 2 wrong usage; 3 done, but the chains have not converged;
    4 done, but a limit of --fail-above or --policy is not met; 130 stopped by the user (--resume continues).
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; every mistake of a user is one line on standard error."""
    _disable_core_files()
    _print_anything()
    try:
        status = group.main(
            list(arguments) if arguments is not None else None, prog_name="keyhole", standalone_mode=False
        )
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except SettingsError as error:
        status = _refuse(error, BAD_INPUT if isinstance(error, InputError) else WRONG_USAGE)
    except KeyholeError as error:
        status = _refuse(error, BAD_INPUT)
    except MemoryError:
        status = _refuse("not enough memory for this file: use fewer `chains`, or a larger machine.", BAD_INPUT)
    except (KeyboardInterrupt, click.Abort) as error:
        status = _refuse(_explain_stop(error), STOPPED)
    _leave(status)


def _refuse(error: object, status: int) -> int:
    click.echo(f"keyhole: {as_flags(str(error))}", err=True)
    return status


def _explain_stop(error: BaseException) -> str:
    """Say what is left of the work. click raises an error of its own from ours."""
    stopped = error.__cause__ if isinstance(error, click.Abort) else error
    if isinstance(stopped, Stopped) and stopped.kept:
        return "stopped; the work is kept. The same command with `resume` continues it."
    return "stopped; no result was written."


def _leave(status: int) -> None:
    """Exit without waiting for a chain that is in the middle of a step."""
    if any(thread.name.startswith("keyhole-chain") for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def _print_anything() -> None:
    """Let consoles that cannot show a character, as in Windows-1252, show its escape sequence, and not fail."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _disable_core_files() -> None:
    """Keep a crash from writing the data in memory to disk."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

"""All errors that a user can cause; they derive from KeyholeError.

A message is one line: what is wrong, where, what to do. It never contains a value of the data, and names options in
backticks as Python spells them.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_SILENCED: ContextVar[bool] = ContextVar("silenced", default=False)


class KeyholeError(Exception):
    """Base class of all errors that a user can cause."""


class InputError(KeyholeError):
    """The data, the keys or the population size cannot be used."""


class CodebookError(KeyholeError):
    """The codebook cannot be read, or does not match the data."""


class RulesError(KeyholeError):
    """The rules for impossible combinations cannot be read, or the data contradict them."""


class SettingsError(KeyholeError):
    """An option does not exist or has an invalid value."""


class OptionError(InputError, SettingsError):
    """An option names what the data do not have, or a file that cannot be used: bad input, not wrong usage."""


class OutputError(KeyholeError):
    """The result folder cannot be written or read."""


class NotConvergedWarning(UserWarning):
    """The chains of a run have not converged, or not fully; `Assessment.grade` distinguishes the two."""


class TelltaleWarning(UserWarning):
    """A release holds columns that may undo its plan: identifiers, or columns that tell a changed key."""


@contextmanager
def silenced() -> Iterator[None]:
    """Issue no warning about convergence: the caller shows the grade.

    A variable of the context, because the filters of `warnings` are shared by all threads.
    """
    token = _SILENCED.set(True)
    try:
        yield
    finally:
        _SILENCED.reset(token)


def warn_not_converged(message: str) -> None:
    """Warn whoever called the caller, unless silenced."""
    if not _SILENCED.get():
        warnings.warn(message, NotConvergedWarning, stacklevel=3)


class Stopped(KeyboardInterrupt):
    """The user stopped a run; kept: whether a checkpoint was saved; in_memory: whether this process keeps the run."""

    def __init__(self, kept: bool) -> None:
        super().__init__(kept)
        self.kept = kept
        self.in_memory = False

    def __str__(self) -> str:
        if self.kept or self.in_memory:
            return "stopped; the work is kept. The same call with `resume` continues it."
        return "stopped; no result was made."

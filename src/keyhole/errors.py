"""Every error that a user can cause. One root, so that one `except` catches them all.

KeyholeError
├── InputError      the data file or dataframe, its keys, the population size
├── CodebookError   the list of categories
├── RulesError      impossible combinations
├── SettingsError   options of a run
└── OutputError     the result folder

A message is one line: what is wrong, where, what to do. It never holds a value of the data.
"""


class KeyholeError(Exception):
    """The root of all errors that a user can cause."""


class InputError(KeyholeError):
    """The data cannot be used as given."""


class CodebookError(KeyholeError):
    """The codebook cannot be read, or the data do not follow it."""


class RulesError(KeyholeError):
    """The rules for impossible combinations cannot be read, or the data contradict them."""


class SettingsError(KeyholeError):
    """An option does not exist or has a value outside its range."""


class OutputError(KeyholeError):
    """The result folder cannot be written or read."""


class NotConvergedWarning(UserWarning):
    """The chains of a run have not reached one answer, or reached it only nearly: `Assessment.grade` says which."""


class Stopped(KeyboardInterrupt):
    """The user stopped a run. kept: whether a checkpoint holds its work."""

    def __init__(self, kept: bool) -> None:
        super().__init__("stopped")
        self.kept = kept

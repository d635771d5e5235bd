"""How many people in this file could be picked out? Disclosure risk of microdata, with honest intervals.

    import keyhole as kh
    a = kh.assess("survey.csv", keys=["AGE", "SEX"], population=953_076)
    a.tau1.mean, a.tau1.interval

Names are imported on first use: `import keyhole` itself is free.
"""

import importlib
from typing import TYPE_CHECKING, Any

from keyhole._version import __version__

if TYPE_CHECKING:
    from keyhole.api import assess
    from keyhole.errors import (
        CodebookError,
        InputError,
        KeyholeError,
        NotConvergedWarning,
        OutputError,
        RulesError,
        SettingsError,
    )
    from keyhole.results import Assessment, load
    from keyhole.settings import Settings

__all__ = [
    "Assessment",
    "CodebookError",
    "InputError",
    "KeyholeError",
    "NotConvergedWarning",
    "OutputError",
    "RulesError",
    "Settings",
    "SettingsError",
    "__version__",
    "assess",
    "load",
]

_HOME = {
    "Assessment": "keyhole.results",
    "CodebookError": "keyhole.errors",
    "InputError": "keyhole.errors",
    "KeyholeError": "keyhole.errors",
    "NotConvergedWarning": "keyhole.errors",
    "OutputError": "keyhole.errors",
    "RulesError": "keyhole.errors",
    "Settings": "keyhole.settings",
    "SettingsError": "keyhole.errors",
    "assess": "keyhole.api",
    "load": "keyhole.results",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module 'keyhole' has no attribute '{name}'")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

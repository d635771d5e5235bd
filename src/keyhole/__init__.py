"""How many people in this file could be identified? Disclosure risk of microdata, with intervals.

    import keyhole as kh
    a = kh.assess("survey.csv", keys=["AGE", "SEX"], population=953_076)
    a.tau1.mean, a.tau1.interval

Names are imported on first use: `import keyhole` itself loads next to nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

from keyhole._version import __version__

if TYPE_CHECKING:
    from keyhole.api import assess
    from keyhole.demo import Simulation, simulate
    from keyhole.diagnostics.gates import Gate
    from keyhole.errors import (
        CodebookError,
        InputError,
        KeyholeError,
        NotConvergedWarning,
        OutputError,
        RulesError,
        SettingsError,
        Stopped,
    )
    from keyhole.evaluation import Outcome, compare, validate
    from keyhole.results import Assessment, load
    from keyhole.risk import Diagnosis, Expected, Measure, ReleaseRisk, Verdict
    from keyhole.sampling import Notice, Progress
    from keyhole.settings import Settings

_NAMES = {
    "api": "assess",
    "demo": "Simulation simulate",
    "diagnostics.gates": "Gate",
    "errors": "CodebookError InputError KeyholeError NotConvergedWarning OutputError RulesError SettingsError Stopped",
    "evaluation": "Outcome compare validate",
    "results": "Assessment load",
    "risk": "Diagnosis Expected Measure ReleaseRisk Verdict",
    "sampling": "Notice Progress",
    "settings": "Settings",
}
_HOME = {name: f"keyhole.{module}" for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "Assessment",
    "CodebookError",
    "Diagnosis",
    "Expected",
    "Gate",
    "InputError",
    "KeyholeError",
    "Measure",
    "NotConvergedWarning",
    "Notice",
    "Outcome",
    "OutputError",
    "Progress",
    "ReleaseRisk",
    "RulesError",
    "Settings",
    "SettingsError",
    "Simulation",
    "Stopped",
    "Verdict",
    "__version__",
    "assess",
    "compare",
    "load",
    "simulate",
    "validate",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module 'keyhole' has no attribute '{name}'")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

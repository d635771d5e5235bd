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
    from keyhole import zeros
    from keyhole.api import assess
    from keyhole.data import Inspected, Inspection, inspect
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
        TelltaleWarning,
    )
    from keyhole.evaluation import Comparison, Outcome, compare, validate
    from keyhole.plan import Plan, Recipe, load_plan, protect
    from keyhole.replaying import Replay, replay
    from keyhole.results import Assessment, load
    from keyhole.risk import Diagnosis, Expected, Measure, ReleaseRisk, Verdict
    from keyhole.sampling import Notice, Progress
    from keyhole.settings import Settings

_NAMES = {
    "api": "assess",
    "data": "Inspected Inspection inspect",
    "demo": "Simulation simulate",
    "diagnostics.gates": "Gate",
    "errors": "CodebookError InputError KeyholeError NotConvergedWarning OutputError RulesError SettingsError Stopped "
    "TelltaleWarning",
    "evaluation": "Comparison Outcome compare validate",
    "plan": "Plan Recipe load_plan protect",
    "replaying": "Replay replay",
    "results": "Assessment load",
    "risk": "Diagnosis Expected Measure ReleaseRisk Verdict",
    "sampling": "Notice Progress",
    "settings": "Settings",
}
_HOME = {name: f"keyhole.{module}" for module, names in _NAMES.items() for name in names.split()} | {"zeros": "keyhole"}

__all__ = [
    "Assessment",
    "CodebookError",
    "Comparison",
    "Diagnosis",
    "Expected",
    "Gate",
    "InputError",
    "Inspected",
    "Inspection",
    "KeyholeError",
    "Measure",
    "NotConvergedWarning",
    "Notice",
    "Outcome",
    "OutputError",
    "Plan",
    "Progress",
    "Recipe",
    "ReleaseRisk",
    "Replay",
    "RulesError",
    "Settings",
    "SettingsError",
    "Simulation",
    "Stopped",
    "TelltaleWarning",
    "Verdict",
    "__version__",
    "assess",
    "compare",
    "inspect",
    "load",
    "load_plan",
    "protect",
    "replay",
    "simulate",
    "validate",
    "zeros",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module 'keyhole' has no attribute '{name}'")
    if _HOME[name] == __name__:  # a package whose functions are public
        return importlib.import_module(f"keyhole.{name}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

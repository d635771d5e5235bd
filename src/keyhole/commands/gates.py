"""Release gates: `--fail-above tau1=5` and `tau1.upper=5`. Results are written all the same; the status is 4."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

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

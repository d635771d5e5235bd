"""Results made by hand, with every block that a summary may hold, for tests of the report."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

KEYS = ("AGE", "SEX", "MARITAL")


@dataclass
class HandMade:
    """What make_content asks of a result."""

    summary: dict[str, Any]
    records: pl.DataFrame
    draws: dict[str, NDArray[np.float64]]
    manifest: dict[str, Any] = field(default_factory=dict)

    @property
    def uniques(self) -> pl.DataFrame:
        return self.records.filter(pl.col("sample_unique") == 1)


@dataclass
class Observed:
    """Every count of the file that a summary holds."""

    rows: int = 1000
    used: int = 998
    sample_uniques: int = 503
    distinct_cells: int = 641
    doubles: int = 84
    triples: int = 23
    left_out: int = 2
    households: int = 412
    with_sample_unique: int = 301
    half_alone: int = 187
    uniques_without: tuple[int, ...] = (288, 409, 487)
    category_uniques: tuple[int, ...] = (41, 4)
    above: tuple[int, ...] = (3, 24, 58, 91)
    bands: tuple[int, ...] = (315, 47, 41, 25, 47, 28)
    missing: int = 4
    risky: tuple[int, ...] = (702, 498, 73)


def interval(mean: float) -> dict[str, Any]:
    return {"mean": mean, "interval": [0.5 * mean, 1.5 * mean]}


def measure(mean: float) -> dict[str, Any]:
    expected = {"mean": mean, "sd": 0.1 * mean, "interval": [0.8 * mean, 1.2 * mean]}
    bins = {"edges": [0.4 * mean, 0.8 * mean, 1.2 * mean, 1.6 * mean], "shares": [0.2, 0.6, 0.2]}
    return {**interval(mean), "median": mean, "sd": 0.2 * mean, "level": 0.95, "expected": expected, "bins": bins}


def by_chain(chains: int) -> list[dict[str, Any]]:
    """What each chain says alone."""
    return [{"tau1": interval(38.0 + c), "tau2": interval(97.0 + c)} for c in range(chains)]


def make_records(bands: tuple[int, ...]) -> pl.DataFrame:
    """Records alone in the sample, so many in each band of risk, then one that is not alone."""
    middle = (0.005, 0.03, 0.07, 0.15, 0.3, 0.8)
    risk = np.repeat(middle, bands)
    rows = len(risk) + 1
    alone = [1] * len(risk) + [0]
    columns = {
        name: pl.Series([*risk.tolist(), None], dtype=pl.Float64)
        for name in ("r1", "r1_low", "r1_high", "r2", "r2_low", "r2_high")
    }
    return pl.DataFrame(
        {"row": range(1, rows + 1), "used": [1] * rows, "cell_count": [1] * rows, "sample_unique": alone, **columns}
    )


def make_draws(chains: int = 2, draws: int = 12) -> dict[str, NDArray[np.float64]]:
    """Draws that go up and down, each chain in its own way; no generator, so that golden files last."""
    wave = np.sin(np.arange(chains * draws) * 12.9898).reshape(chains, draws)
    return {
        "tau1": np.round(41 + 6 * wave),
        "tau2": 100 + 4 * wave[:, ::-1],
        "tau1_expected": 41 + 2 * wave,
        "tau2_expected": 100 + 3 * wave,
        "log_likelihood": -3000 + 10 * wave,
    }


def check(observed: float, low: float, high: float) -> dict[str, Any]:
    predicted = {"mean": (low + high) / 2, "interval": [low, high]}
    return {"observed": observed, "predicted": predicted, "ok": low <= observed <= high}


def make_summary(
    seen: Observed, keys: tuple[str, ...] = KEYS, converged: bool = True, labels: tuple[str, ...] = ("north", "2")
) -> dict[str, Any]:
    gates = [
        {"name": "rhat(tau1_expected)", "value": 1.004, "limit": 1.05, "passed": True, "role": "decides"},
        {"name": "ess_bulk(tau1_expected)", "value": 812.0, "limit": 100.0, "passed": True, "role": "decides"},
        {"name": "drift(tau1_expected)", "value": 3.1, "limit": 2.5, "passed": converged, "role": "guards"},
        {"name": "rhat(log_likelihood)", "value": 1.31, "limit": 1.05, "passed": False, "role": "shown"},
    ]
    return {
        "version": "0.1.0",
        "settings": {"model": "hdp", "seed": 1, "chains": 2},
        "input": {
            "rows": seen.rows,
            "used": seen.used,
            "keys": list(keys),
            "levels": dict.fromkeys(keys, 5),
            "cells": 39600,
            "population": 80_000,
            "sample_uniques": seen.sample_uniques,
            "distinct_cells": seen.distinct_cells,
            "missing": "category",
            "ignored_keys": ["COUNTRY"],
            "bands": {keys[0]: "5y", keys[1]: "0,15,30"},
            "na": {
                "texts": ["", "NA", "."],
                "found": {keys[0]: seen.missing} if seen.missing else {},
                "met": {keys[0]: ["."]} if seen.missing else {},
            },
            "ordered": [keys[0]],
        },
        "zeros": {
            "rules": 10,
            "boxes": 12,
            "impossible_cells": 9000,
            "share": 0.53,
            "p0": 0.86,
            "left_out": seen.left_out,
            "words": ["AGE is 0-9 and MARITAL is married"],
            "words_declared": [True],
        },
        "model": {"name": "hdp", "prior": "adaptive", "estimator": "exact", "profiles": interval(18.6)},
        "tau1": measure(41.2),
        "tau2": measure(99.6),
        "all_records": {
            "expected_matches": interval(188.4),
            "max_risk": 0.871,
            "mean_risk": 0.1887,
            "above": dict(zip(("0.05", "0.09", "0.2"), seen.risky, strict=True)),
            "k": {"2": interval(41.2), "3": interval(77.7), "11": interval(312.9)},
            "largest": {"mean": 0.934, "interval": [0.812, 0.991]},
            "exceeding": {"0.09": interval(495.5)},
            "cells": 641,
            "bounded": 0,
            "draws": 100,
            "message": "",
        },
        "policies": [
            {
                "name": "ours",
                "title": "Our own",
                "measure": "all.max",
                "upper": True,
                "limit": 0.2,
                "value": 0.991,
                "probability": 0.0,
                "met": False,
                "words": "does not meet the limit of ours (largest match risk of a record at most 0.2, by the upper "
                "end of the interval); that it is met has probability below 0.01",
                "source": "Handbook, p. 3",
                "note": "",
            }
        ],
        "convergence": {
            "converged": converged,
            "grade": "converged" if converged else "not converged",
            "verdict": {
                "grade": "converged" if converged else "not converged",
                "reason": "agree" if converged else "moving",
                "remedy": "none" if converged else "time",
                "numbers": {"seconds_more": 40.0},
            },
            "by_chain": by_chain(2),
            "message": "2 chains agree."
            if converged
            else "NOT CONVERGED. They differ. Allow more time with `time_limit`.",
            "rhat": 1.004,
            "ess_bulk": 812.0,
            "ess_tail": 700.0,
            "modes": 1,
            "chains": 2,
            "sweeps": 1000,
            "warm_up": 500,
            "spacing": 4,
            "starts": [1, 100],
            "gates": gates,
            "groups": [
                {"chains": [1], "tau1": interval(38.0), "tau2": interval(97.0), "settled": True, "stacking": 0.7},
                {"chains": [2], "tau1": interval(45.0), "tau2": interval(104.0), "settled": True, "stacking": 0.3},
            ],
            "envelope": None if converged else {"tau1": [29.0, 57.0], "tau2": [91.0, 110.0]},
        },
        "attribution": {
            "draws": 100,
            "variables": [
                {
                    "name": name,
                    "share_tau1": share,
                    "share_tau2": share / 2,
                    "tau1_without": interval(41.2 * (1 - share)),
                    "tau2_without": interval(99.6 * (1 - share / 2)),
                    "sample_uniques_without": uniques,
                    "categories": [
                        {"code": str(place), "label": label, "tau1": 3.2, "tau2": 9.1, "uniques": count}
                        for place, (label, count) in enumerate(zip(labels, seen.category_uniques, strict=True))
                    ],
                }
                for name, share, uniques in zip(keys, (0.71, 0.31, 0.05), seen.uniques_without, strict=True)
            ]
        },
        "helps": [
            {
                "name": name, "step": step, "merged": merged, "tau1": interval(left), "tau2": interval(2 * left),
                "sample_uniques": uniques, "share_tau1": 1 - left / 41.2, "loss": loss, "share_lost": loss / 2,
            }
            for name, step, merged, left, uniques, loss in zip(
                keys, ("bands", "leave out", "rare"), ([["0", "1"], ["2", "3"]], [], [["a,b", "", "c"]]),
                (20.3, 28.4, 40.2), seen.uniques_without, (0.71, 2.0, 0.1), strict=True,
            )
        ],
        "thresholds": [
            {"above": above, "records": records, "tau1_after": left, "tau2_after": 2 * left}
            for above, records, left in zip((0.9, 0.5, 0.2, 0.1), seen.above, (38.9, 25.3, 14.7, 7.3), strict=True)
        ],
        "fit": {
            "sample_uniques": {**check(seen.sample_uniques, 480.0, 541.0), "ok": True},
            "doubles": {**check(seen.doubles, 70.0, 99.0), "ok": True},
            "triples": {**check(seen.triples, 19.0, 41.0), "ok": True},
            "distinct_cells": {**check(seen.distinct_cells, 655.0, 700.0), "ok": False},
            "two_way": {"outside": 1, "total": 3, "worst": list(keys[:2]), "ok": True},
            "ok": True,
            "verdict": "fits",
            "exceptions": (),
            "without": (),
            "sentence": "the model fits the file",
            "message": f"The model expects 480 to 541 records alone; the file has {seen.sample_uniques}.",
        },
        "self_check": {
            "half": seen.used // 2,
            "uniques": seen.half_alone + 100,
            "observed": {"tau1": float(seen.half_alone), "tau2": 200.5},
            "predicted": {"tau1": interval(190.0), "tau2": interval(210.0)},
            "ok": True,
            "message": f"{seen.half_alone} are.",
        },
        "households": {
            "column": "HOUSE",
            "households": seen.households,
            "largest": 11,
            "with_sample_unique": seen.with_sample_unique,
            "with_population_unique": interval(39.5),
        },
        "weights": {"column": "W", "equal": False, "ratio": 777.7, "warning": "The ratio is 777.7."},
        "comparators": [
            {"name": "loglinear-main", "tau1": {"mean": 37.2}, "tau2": None, "assumes": "independence"},
            {"name": "zayatz", "tau1": {"mean": 155.4}, "tau2": {"mean": 120.0}, "assumes": "sizes of sample cells"},
        ],
        "seconds": {"total": 125.0},
    }  # fmt: skip


HASH = "b1ef1c3b30f111c3f0b7f7184908f301"
MANIFEST = {
    "version": "0.1.0",
    "input": {"sha256": HASH},
    "rules": "0" * 64,
    "kernels": "8408d87417066d3dc80592840c30e9f3",
    "python": "3.11.7",
    "libraries": {"numpy": "2.4.6", "polars": "2.1.0"},
    "finished": "2026-11-16T02:52:22+00:00",
    "population": 953_076,
    "asked": {"file": "private/survey.csv", "keys": ",".join(KEYS), "population": 953_076, "out": "private/risk"},
}


def make_result(seen: Observed | None = None, **options: Any) -> HandMade:
    """A result with every block."""
    seen = seen or Observed()
    return HandMade(make_summary(seen, **options), make_records(seen.bands), make_draws(), MANIFEST)

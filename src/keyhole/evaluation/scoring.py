"""Score the replicates: bias, root mean squared error, coverage and width, and calibration of single records."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keyhole.evaluation.comparison import describe_estimator

GROUPS = 10


def score(replicates: Sequence[dict[str, Any]], population: int, size: int, names: Sequence[str]) -> dict[str, Any]:
    truth = {tau: [found["truth"][tau] for found in replicates] for tau in ("tau1", "tau2")}
    return {
        "population": population,
        "sample_size": size,
        "replicates": len(replicates),
        "sample_uniques": [found["sample_uniques"] for found in replicates],
        "truth": truth,
        "estimators": [_score_estimator(replicates, name) for name in names],
    }


def _score_estimator(replicates: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    outcomes = [found["estimators"][name] for found in replicates]
    good = [(found, one) for found, one in zip(replicates, outcomes, strict=True) if one["error"] is None]
    assumes, reference = describe_estimator(name)
    return {
        "name": name,
        "seconds": float(np.mean([one["seconds"] for one in outcomes])),
        "tau1": _score_measure(good, "tau1"),
        "tau2": _score_measure(good, "tau2"),
        "calibration": {risk: calibrate(good, risk) for risk in ("r1", "r2")},
        "estimates": {tau: [one[tau] for one in outcomes] for tau in ("tau1", "tau2")},
        "intervals": {tau: [one[f"{tau}_interval"] for one in outcomes] for tau in ("tau1", "tau2")},
        "failed": len(outcomes) - len(good),
        "errors": sorted({one["error"] for one in outcomes if one["error"] is not None}),
        "not_converged": sum(one["converged"] is False for _, one in good),
        "assumes": assumes,
        "reference": reference,
    }


def _score_measure(good: Sequence[tuple[dict[str, Any], dict[str, Any]]], tau: str) -> dict[str, Any]:
    """Score the replicates with an estimate of this measure; None for scores that cannot be computed."""
    pairs = [(one[tau], found["truth"][tau], one[f"{tau}_interval"]) for found, one in good if one[tau] is not None]
    if not pairs:
        return dict.fromkeys(("bias", "bias_se", "rmse", "coverage", "width"))
    error = np.array([estimate - truth for estimate, truth, _ in pairs])
    intervals = [(truth, interval) for _, truth, interval in pairs if interval is not None]
    inside = [interval[0] <= truth <= interval[1] for truth, interval in intervals]
    return {
        "bias": float(error.mean()),
        "bias_se": float(error.std(ddof=1) / np.sqrt(len(error))) if len(error) > 1 else None,
        "rmse": float(np.sqrt((error**2).mean())),
        "coverage": float(np.mean(inside)) if intervals else None,
        "width": float(np.mean([high - low for _, (low, high) in intervals])) if intervals else None,
    }


def calibrate(good: Sequence[tuple[dict[str, Any], dict[str, Any]]], risk: str) -> list[dict[str, Any]] | None:
    """Compare predicted and true risk in each tenth of the sample uniques of all replicates, by predicted risk.

    The true risk is the share of population uniques for r1, and the mean of 1 / F for r2.
    """
    kept = [(one[risk], found["people"]) for found, one in good if one[risk] is not None]
    predicted = np.array([value for risks, _ in kept for value in risks])
    people = np.array([value for _, counts in kept for value in counts], dtype=np.float64)
    if not len(predicted):
        return None
    observed = (people == 1.0).astype(np.float64) if risk == "r1" else 1.0 / people
    order = np.argsort(predicted, kind="stable")
    return [
        {"records": len(group), "predicted": float(predicted[group].mean()), "observed": float(observed[group].mean())}
        for group in np.array_split(order, GROUPS)
        if len(group)
    ]

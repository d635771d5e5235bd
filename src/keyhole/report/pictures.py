"""What pictures show: bins, thinned traces, ranks, counts by risk. No mark of a picture is a record."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyhole.report.content import ChainPicture, ChainsPicture, Distribution, Estimate, RecordRow, RiskBand, Rule
from keyhole.report.sections import estimate
from keyhole.words import decimals, plural

Floats = NDArray[np.float64]
Draws = Mapping[str, Floats]

MOST_POINTS = 180
MOST_CHAINS = 8
RANK_BINS = 20
FEWEST_DRAWS = 8
MOST_RECORDS = 50
BAND_EDGES = (0.0, 0.01, 0.05, 0.1, 0.2, 0.5)
OF_WHAT = {"tau1": "records alone in the population", "tau2": "records matched to the right person"}


def draw_distributions(
    blocks: Mapping[str, Any], estimates: Mapping[str, Estimate], level: float
) -> tuple[Distribution, ...]:
    """Return the predictive distributions of tau1 and tau2. blocks: of summary.json."""
    return tuple(
        Distribution(name, OF_WHAT[name], estimates[name], level, tuple(bins["edges"]), tuple(bins["shares"]))
        for name in OF_WHAT
        if (bins := blocks[name].get("bins")) is not None
    )


def draw_chains(draws: Draws, block: Mapping[str, Any]) -> tuple[ChainsPicture, ...]:
    """Return traces and ranks of E(tau | parameters), which show agreement best, and each chain's estimate of tau.

    block: `convergence` of summary.json; without `by_chain`, which early versions did not write, there is no picture.
    """
    starts: Sequence[int] = block.get("starts", ())
    own = block.get("by_chain", ())
    if not own:
        return ()
    pictures = []
    for name in OF_WHAT:
        shown = draws.get(f"{name}_expected", draws.get(name))
        if shown is None or shown.shape[1] < FEWEST_DRAWS:
            continue
        ranks = average_ranks(shown)
        step = max(1, -(-shown.shape[1] // MOST_POINTS))
        chains = tuple(
            ChainPicture(
                label=_chain_label(c, starts),
                trace=_tuple(shown[c, ::step], 4),
                ranks=_tuple(np.histogram(ranks[c], RANK_BINS, (0.0, float(shown.size)))[0] / shown.shape[1], 5),
                own=estimate(own[c][name]),
            )
            for c in range(min(len(shown), MOST_CHAINS, len(own)))
        )
        pictures.append(
            ChainsPicture(name, OF_WHAT[name], chains, int(shown.shape[1]), step, max(0, len(shown) - MOST_CHAINS))
        )
    return tuple(pictures)


def average_ranks(values: Floats) -> Floats:
    """Return ranks among the draws of all chains; equal values share their average rank."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - counts / 2.0
    ranks: Floats = middle[place].reshape(values.shape)
    return ranks


def count_bands(uniques: pl.DataFrame, rule: Rule) -> tuple[RiskBand, ...]:
    counts = {}
    for name in ("r1", "r2"):
        risk = uniques[name].to_numpy()
        band = np.searchsorted(BAND_EDGES, risk, side="right") - 1
        counts[name] = np.bincount(band, minlength=len(BAND_EDGES))
    return tuple(
        RiskBand(_band_label(k), rule(int(counts["r1"][k])), rule(int(counts["r2"][k]))) for k in range(len(BAND_EDGES))
    )


def list_riskiest(uniques: pl.DataFrame) -> tuple[RecordRow, ...]:
    """Return the row numbers and risks of the riskiest records; only for the owner."""
    alone = uniques.filter(pl.col("r1").is_not_null())
    worst = alone.sort(["r1", "r2", "row"], descending=[True, True, False]).head(MOST_RECORDS)
    return tuple(
        RecordRow(found["row"], _risk_text(found, "r1"), _risk_text(found, "r2")) for found in worst.to_dicts()
    )


def _risk_text(found: Mapping[str, Any], name: str) -> str:
    low, high = decimals(found[f"{name}_low"], 2), decimals(found[f"{name}_high"], 2)
    return f"{decimals(found[name], 2)} ({low} to {high})"


def _band_label(k: int) -> str:
    low = f"{100 * BAND_EDGES[k]:g}"
    if k == 0:
        return f"below {100 * BAND_EDGES[1]:g} %"
    return f"{low} to {100 * BAND_EDGES[k + 1]:g} %" if k + 1 < len(BAND_EDGES) else f"{low} % and more"


def _chain_label(c: int, starts: Sequence[int]) -> str:
    return f"Chain {c + 1}, from {plural(starts[c], 'profile')}" if c < len(starts) else f"Chain {c + 1}"


def _tuple(values: Floats, places: int) -> tuple[float, ...]:
    return tuple(float(value) for value in np.round(values, places))

"""What a release keeps of the information: categories, entropy, values, records, and margins of two keys."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keyhole.kernels.state import Floats
from keyhole.plan.lattice import Lattice, Node
from keyhole.readable import Readable
from keyhole.risk.local import LocalSteps
from keyhole.risk.loss import lose_key
from keyhole.risk.release import Posterior
from keyhole.words import plural


@dataclass(frozen=True)
class KeyUtility(Readable):
    """What is left of a key. steps: what is done to it; categories_before, categories_after: their number.

    entropy_kept: the share of its entropy, between 0 and 1; blanked: values that become blank.
    """

    name: str
    steps: str
    categories_before: int
    categories_after: int
    entropy_kept: float
    blanked: int


@dataclass(frozen=True)
class Utility(Readable):
    """What a release keeps.

    categories_lost, values_blanked, records_removed: over all keys; margin_change: the largest change of the margin of
    two keys, as the share of records that would have to move (total variation), if values are spread within their
    groups as in each key by itself; margin: these two keys.
    """

    variables: tuple[KeyUtility, ...]
    categories_lost: int
    values_blanked: int
    records_removed: int
    margin_change: float
    margin: tuple[str, ...]


def measure_utility(posterior: Posterior, lattice: Lattice, node: Node, local: LocalSteps) -> Utility:
    """Compare a release with the file."""
    microdata = posterior.microdata
    rows = microdata.record_row + 1
    removed = np.isin(rows, local.remove) if isinstance(local.remove, tuple) else np.zeros(len(rows), np.bool_)
    codes = microdata.codes + 1
    keys, published = [], []
    for j, variable in enumerate(lattice.variables):
        level = lattice.levels[j][node[j]]
        where = local.blank.get(j)
        blank = np.isin(rows, where) & ~removed if isinstance(where, tuple) else np.zeros(len(rows), np.bool_)
        group = np.zeros(len(variable.categories) + 1, np.int64)
        for g, members in enumerate(level.groups or ()):
            group[[x + 1 for x in members]] = g + 1
        shown = np.where(blank, 0, group[codes[:, j]])
        published.append(shown)
        whole = _entropy(np.bincount(codes[:, j]))
        kept = 0.0 if level.groups is None else _entropy(np.bincount(shown[~removed])) / whole if whole else 1.0
        after = 0 if level.groups is None else len(level.groups)
        keys.append(
            KeyUtility(variable.name, level.words, len(variable.categories), after, min(kept, 1.0), int(blank.sum()))
        )
    change = 0.0
    pair: tuple[str, ...] = ()
    spread = [_spread(codes[:, j], published[j], removed) for j in range(len(keys))]
    for j, k in itertools.combinations(range(len(keys)), 2):
        found = _margin_change(codes[:, j], codes[:, k], published[j], published[k], removed, spread[j], spread[k])
        if found > change + 1e-12:
            change, pair = found, (keys[j].name, keys[k].name)
    return Utility(
        variables=tuple(keys),
        categories_lost=sum(found.categories_before - found.categories_after for found in keys),
        values_blanked=sum(found.blanked for found in keys),
        records_removed=int(removed.sum()),
        margin_change=change,
        margin=pair,
    )


def _entropy(count: NDArray[np.int64]) -> float:
    """Return the entropy of these counts in bits."""
    return lose_key(count, None)


def _spread(codes: NDArray[np.int32], shown: NDArray[np.int64], removed: NDArray[np.bool_]) -> Floats:
    """Return P(category | what is shown), (shown, categories), as somebody who knows the key by itself would guess."""
    table = np.zeros((int(shown.max(initial=0)) + 1, int(codes.max(initial=0)) + 1))
    np.add.at(table, (shown, codes), 1.0)
    total = table.sum(axis=1, keepdims=True)
    spread: Floats = np.divide(table, total, out=np.zeros_like(table), where=total > 0.0)
    return spread


def _margin_change(
    one: NDArray[np.int32],
    other: NDArray[np.int32],
    shown: NDArray[np.int64],
    shown_other: NDArray[np.int64],
    removed: NDArray[np.bool_],
    spread: Floats,
    spread_other: Floats,
) -> float:
    """Return the total variation between the margin of two keys and what the release says about it."""
    true = np.zeros((spread.shape[1], spread_other.shape[1]))
    np.add.at(true, (one, other), 1.0)
    table = np.zeros((spread.shape[0], spread_other.shape[0]))
    np.add.at(table, (shown[~removed], shown_other[~removed]), 1.0)
    found = spread.T @ table @ spread_other
    return float(0.5 * np.abs(true / true.sum() - found / found.sum()).sum())


def describe_local(local: LocalSteps, names: tuple[str, ...]) -> list[str]:
    """Say how many values are blanked and records removed."""
    blank: Mapping[int, object] = local.blank
    found = [
        f"{names[j]}: {plural(len(where), 'value')} blanked" for j, where in blank.items() if isinstance(where, tuple)
    ]
    removed = len(local.remove) if isinstance(local.remove, tuple) else 0
    return found + ([f"{plural(removed, 'record')} removed"] if removed else [])

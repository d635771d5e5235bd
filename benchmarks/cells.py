"""Microseconds for one exact cell probability at 20 profiles, next to the plain sum over set partitions."""

from typing import Any

import numpy as np
from tests.oracle import plain_cell_probability
from tests.oracle.model import Draw, Hyper, Model

from benchmarks.clock import time_repeatedly
from keyhole.kernels.cells import cell_probabilities, make_cell_work
from keyhole.kernels.eppf import fill_random_alpha_eppf

PROFILES = 20
CATEGORIES = 4
CELLS = 320
WIDEST_PLAIN = 10
"""Variables up to which the plain sum is waited for: Bell(10) = 115,975 partitions, Bell(12) = 4,213,597."""


def measure(seconds: float, quick: bool) -> list[dict[str, Any]]:
    """Measure J = 6, 8, 10, 12 and 14."""
    rows: list[dict[str, Any]] = []
    for variables in (6, 8, 10) if quick else (6, 8, 10, 12, 14):
        row = measure_cells(variables, seconds / 2, 8 if quick else WIDEST_PLAIN)
        if "plain_microseconds" not in row:
            # The plain sum's time goes with the blocks of all partitions, Bell(J + 1) - Bell(J) of them.
            known = next(other for other in reversed(rows) if "plain_microseconds" in other)
            growth = count_blocks(variables) / count_blocks(known["variables"])
            row["plain_microseconds_extrapolated"] = known["plain_microseconds"] * growth
            row["ratio_to_plain_extrapolated"] = row["plain_microseconds_extrapolated"] / row["microseconds"]
        rows.append(row)
        ratio = row.get("ratio_to_plain")
        told = "" if ratio is None else f"  {ratio:,.0f} times the plain sum's speed"
        print(
            f"  J = {variables:2d}  {row['microseconds']:9.3f} microseconds"
            f" (best {row['microseconds_best']:.3f}){told}",
            flush=True,
        )
    return rows


def measure_cells(variables: int, seconds: float, widest_plain: int) -> dict[str, Any]:
    """Time both on the same random profiles, and compare their values."""
    rng = np.random.default_rng(variables)
    weight = rng.dirichlet(np.ones(PROFILES))
    theta = rng.dirichlet(np.ones(CATEGORIES), size=(PROFILES, variables))
    level_profile = np.ascontiguousarray(theta.reshape(PROFILES, -1).T)
    eppf = np.zeros((variables + 1, variables + 2))
    fill_random_alpha_eppf(2.0, 1.0, eppf)
    cell = rng.integers(CATEGORIES, size=(CELLS, variables))
    cell_level = (cell + CATEGORIES * np.arange(variables)).astype(np.int32)
    if variables > 12:
        cell_level = cell_level[:32]
    out = np.zeros(len(cell_level))
    work = make_cell_work(variables, PROFILES)

    def find() -> None:
        cell_probabilities(weight, level_profile, PROFILES, eppf, cell_level, work, out)

    find()
    watch = time_repeatedly(find, seconds)
    row = {
        "variables": variables,
        "profiles": PROFILES,
        "cells": len(cell_level) * len(watch.laps),
        "microseconds": 1e6 * watch.median / len(cell_level),
        "microseconds_best": 1e6 * watch.best / len(cell_level),
    }
    if variables <= widest_plain:
        # The last profile stands for the remainder, whose rows are the base levels.
        hyper = Hyper(1.0, (2.0, 1.0), 1.0, [float(CATEGORIES)] * variables, list(theta[-1]))
        draw = Draw(hyper, [], list(weight[:-1]), float(weight[-1]), [list(rows) for rows in theta[:-1]])
        model = Model((CATEGORIES,) * variables)
        value = 0.0

        def find_plain() -> None:
            nonlocal value
            value = plain_cell_probability(draw, model, cell[0])

        if variables < widest_plain:
            find_plain()  # fills the oracle's table of V; at the widest that hardly counts
        row["plain_microseconds"] = 1e6 * time_repeatedly(find_plain, 0.0).cpu
        row["ratio_to_plain"] = row["plain_microseconds"] / row["microseconds"]
        row["relative_difference"] = abs(out[0] / value - 1.0)
    return row


def count_blocks(variables: int) -> int:
    """Return the number of blocks in all set partitions together."""
    row, bell = [1], [1]
    for _ in range(variables + 1):
        following = [row[-1]]
        for value in row:
            following.append(following[-1] + value)
        row = following
        bell.append(row[0])
    return bell[variables + 1] - bell[variables]

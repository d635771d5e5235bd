"""Chains that have not met, from the file to the folder: status 3, groups, and never one pooled answer."""

import json

import numpy as np
import polars as pl
import pytest

import keyhole
from keyhole.cli import main

KEYS = [f"K{j}" for j in range(6)]


@pytest.fixture
def folder(tmp_path):
    """A file of 800 people of thirty kinds."""
    rng = np.random.default_rng(2)
    kinds, n = rng.integers(1, 9, (30, 6)), 800
    people = np.where(rng.random((n, 6)) < 0.9, kinds[rng.integers(0, 30, n)], rng.integers(1, 9, (n, 6)))
    pl.DataFrame(people, schema=KEYS, orient="row").write_csv(tmp_path / "survey.csv")
    return tmp_path


def limits(draws: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(draws, [0.025, 0.975], method="inverted_cdf")
    return float(low), float(high)


def test_chains_that_have_not_met(folder, capsys):
    """Sixty sweeps: chains from 1, 5, 20 and 100 profiles cannot have found thirty kinds of people."""
    with pytest.raises(SystemExit) as stopped:
        main(
            ["assess", str(folder / "survey.csv"), "--keys", ",".join(KEYS), "--population", "40000",
             "--max-sweeps", "60", "--time-limit", "5m", "--out", str(folder / "r")]
        )  # fmt: skip
    assert stopped.value.code == 3
    captured = capsys.readouterr()

    assert captured.err.splitlines()[-1] == "keyhole: NOT CONVERGED: see Convergence in the table."
    screen = " ".join(captured.out.split())
    assert "Allow more sweeps with --max-sweeps, or omit that limit." in screen
    first, _, third = (" ".join(part.split()) for part in captured.out.split("\n\n")[0].split(".\n")[:3])
    assert "(NOT CONVERGED) are alone in the population" in first
    assert third.startswith("NOT CONVERGED: no single estimate can be given yet.")
    assert "about" not in first
    assert "Chains that agree" in captured.out

    summary = json.loads((folder / "r" / "summary.json").read_text())
    found, draws = summary["convergence"], keyhole.load(folder / "r").draws
    assert not found["converged"]
    assert found["modes"] == len(found["groups"]) >= 2
    assert sorted(chain for group in found["groups"] for chain in group["chains"]) == [1, 2, 3, 4]
    for name in ("tau1", "tau2"):
        low, high = summary[name]["interval"]
        assert found["envelope"][name] == [low, high]
        assert summary[name]["pooled"] is False
        assert summary[name]["mcse"] is None
        ends = [chain[name]["interval"] for chain in found["by_chain"]]
        assert (low, high) == (min(a for a, _ in ends), max(b for _, b in ends))
    for chain, drawn in zip(found["by_chain"], draws["tau1"], strict=True):
        # One simulated count for each draw: as the computed law, but for chance.
        assert chain["tau1"]["interval"] == pytest.approx(limits(drawn), abs=1.5 * drawn.std())
    upper = f"{summary['tau1']['interval'][1]:.0f}"
    assert f"Until then use {upper} as the upper limit of tau1, the largest of any chain; it may still rise." in screen


def test_a_verdict_comes_back_from_the_folder_whole(folder):
    short = {"population": 40000, "max_sweeps": 150, "time_limit": "5m"}
    found = keyhole.assess(folder / "survey.csv", KEYS, **short)
    assert not found.diagnosis.converged
    assert found.tau1.interval == found.diagnosis.envelope["tau1"]
    found.save(folder / "r")
    loaded = keyhole.load(folder / "r")
    assert loaded.diagnosis == found.diagnosis
    assert (loaded.tau1, loaded.tau2) == (found.tau1, found.tau2)
    loaded.save(folder / "again")
    assert (folder / "again" / "summary.json").read_bytes() == (folder / "r" / "summary.json").read_bytes()
    # Twenty-five kept draws of each chain are enough for weights, which are shown and change no number.
    assert (found.diagnosis.stacking is not None) == (found.diagnosis.modes > 1)
    if found.diagnosis.stacking is not None:
        assert sum(group.stacking for group in found.diagnosis.groups) == pytest.approx(1.0)
        assert found.tau1.mean == pytest.approx(found.draws["tau1_expected"].mean())

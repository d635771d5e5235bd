"""What work costs is said once: every plan that is made of sizes follows the same prices."""

import ast
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import keyhole
from keyhole.kernels.classes import Cells
from keyhole.kernels.freeze import Draw
from keyhole.kernels.state import Records, no_rules
from keyhole.risk import attribution
from keyhole.sampling import costs, predictive
from keyhole.sampling.trees import make_trees

ROOT = Path(keyhole.__file__).parent


def test_prices_are_defined_in_one_module():
    defined = {
        (path.relative_to(ROOT).as_posix(), node.name)
        for room in ("sampling", "risk")
        for path in (ROOT / room).glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.endswith("_cost")
    }
    names = ("sweep_cost", "cell_cost", "class_sweep_cost", "class_evaluation_cost", "strata_cost")
    assert defined == {("sampling/costs.py", name) for name in names}


def test_a_dearer_sweep_pays_for_more_replicates(monkeypatch):
    draw = Draw(np.ones(1), np.ones((4, 1)), np.zeros((3, 4)), np.ones(2), np.ones(1))
    trace = SimpleNamespace(draws=((draw,),), sweeps=1_800, starts=(1,))
    records = Records(np.zeros((20_000, 2), np.int32), np.full(20_000, 2), np.array([0, 2, 4]))
    before = predictive.count_replicates(trace, records, 0, no_rules())
    monkeypatch.setattr(predictive, "sweep_cost", lambda *sizes: 1.5 * costs.sweep_cost(*sizes))
    after = predictive.count_replicates(trace, records, 0, no_rules())
    assert predictive.FEWEST_REPLICATES < before < after < predictive.MOST_REPLICATES


def test_a_dearer_sweep_pays_for_more_draws_of_the_attribution(monkeypatch):
    microdata = SimpleNamespace(records=1_000, variables=(None,) * 5)
    posterior = SimpleNamespace(draws=((None,),), available=(1, 1_000), zeros=None, microdata=microdata)
    trace = SimpleNamespace(sweeps=1_000, starts=(1, 5), thin=5)
    monkeypatch.setattr(attribution, "estimate_work", lambda *_: 1.2e7)
    before = len(attribution.choose_draws(posterior, None, (), trace))
    monkeypatch.setattr(attribution, "sweep_cost", lambda *sizes: 1.5 * costs.sweep_cost(*sizes))
    after = len(attribution.choose_draws(posterior, None, (), trace))
    assert attribution.FEWEST_DRAWS < before < after < attribution.MOST_DRAWS


def test_a_sweep_of_classes_pays_for_trees_and_visits():
    """An ordered key of ten levels has nine nodes of two edges; a visit costs more than a record of the slice."""
    start = np.array([0, 10, 12])
    flat, ordered = make_trees(start), make_trees(start, np.array([[0, 10], [10, 10]]))
    assert (costs.count_edges(flat), costs.count_edges(ordered)) == (12, 20)
    cells = Cells(np.zeros((100, 2), np.int32), np.full(100, 5), start)
    slice_alone = costs.class_sweep_cost(cells, flat, 0)
    assert slice_alone < costs.class_sweep_cost(cells, ordered, 0) < 2.0 * slice_alone
    once, twice = (costs.class_sweep_cost(cells, flat, visits) for visits in (1, 2))
    assert slice_alone < once < twice < 2.0 * once

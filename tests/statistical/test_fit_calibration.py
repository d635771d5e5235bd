"""The model check with parameters learned from the file: few alarms on files of the model, alarms on others.

The first runs the whole line on files drawn from the prior; the bound is that of 5 % false alarms. The second are files
of households whose members are equal. The third is the New York sample,
with and without its rules.
"""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

import keyhole
from keyhole.data import count_cells
from keyhole.kernels.state import Records
from keyhole.risk import check_fit
from keyhole.sampling import run_chains
from keyhole.sampling.predictive import draw_population
from keyhole.settings import make_settings

pytestmark = pytest.mark.long

LEVELS = [5, 2, 6, 4, 3]
START = np.concatenate([[0], np.cumsum(LEVELS)]).astype(np.int64)
NY = Path("/work/shared/data")
NY_KEYS = "OWNERSHP,MORTGAGE,AGE,SEX,MARST,RACESING,EDUC,EMPSTAT,DISABWRK,VETSTAT"


@pytest.mark.parametrize("options", [{}, {"model": "mixed", "profiles": 5}], ids=["hdp", "mixed"])
def test_files_of_the_model_fit(options):
    n, alarms, files = 200, 0, 0
    for seed in range(120):
        settings = make_settings(seed=seed, chains=2, max_sweeps=240, time_limit="1h", **options)
        codes = draw_population(np.random.default_rng([seed, 7]), LEVELS, n, settings)
        unique = count_cells(codes).unique_record
        if len(unique):
            records = Records((codes + START[:-1]).astype(np.int32), np.full(n, len(LEVELS)), START)
            trace = run_chains(records, unique, 10 * n, settings)
            alarms += not check_fit(trace, records, "ABCDE", settings).ok
            files += 1
    assert files >= 80
    assert alarms <= binom.ppf(1 - 1e-3, files, 0.05)


def test_files_of_people_in_groups_do_not_fit():
    """Households of three who are all equal, in small files at a sampling fraction of a sixth.

    About a fifth of them alarm; by chance, at 2 % each, more than three would with probability below 0.001.
    """
    n, alarms, files = 400, 0, 20
    for seed in range(files):
        rng = np.random.default_rng([seed, 8])
        settings = make_settings(model="classes", seed=seed, chains=2, max_sweeps=240, time_limit="1h")
        unique = np.zeros(0, np.int64)
        while len(unique) < 40:
            people = draw_population(rng, LEVELS, 2 * n, settings).repeat(3, axis=0)
            codes = people[rng.choice(len(people), n, replace=False)]
            unique = count_cells(codes).unique_record
        records = Records((codes + START[:-1]).astype(np.int32), np.full(n, len(LEVELS)), START)
        found = check_fit(run_chains(records, unique, len(people), settings), records, "ABCDE", settings)
        assert (found.verdict == "does not fit") == ("do not rely on the interval" in found.sentence)
        alarms += found.verdict == "does not fit"
    assert alarms > binom.isf(1e-3, files, 0.02)


@pytest.mark.skipif(not NY.is_dir(), reason="the New York files are not here")
@pytest.mark.parametrize("rules", [False, True], ids=["without rules", "with rules"])
def test_the_new_york_sample_fits_with_its_rules_only(rules):
    found = keyhole.assess(
        NY / "ny_full_1000.csv", NY_KEYS, population=953_076, codebook=NY / "ny_full_codebook.json",
        zeros=NY / "ny_full_zeros.csv" if rules else None, model="classes", max_sweeps=1_000, time_limit="2h",
    ).summary["fit"]  # fmt: skip
    assert found["sample_uniques"]["observed"] == 485
    assert found["ok"] == rules
    assert found["verdict"] == ("fits" if rules else "does not fit")
    assert ("`zeros`" in found["message"]) == (not rules)

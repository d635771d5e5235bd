"""The model check with parameters learned from the file: few alarms on files of the model, alarms on others.

The first runs the whole line on files drawn from the prior; the bound is that of 5 % false alarms. The second are files
of households whose members are equal. The third is the New York sample, with and without its rules.
"""

from pathlib import Path

import numpy as np
import pytest
from benchmarks.checks import run_file
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
    """Households of two to four people who are all equal, 1,000 of 10,000 people, as in docs/checks.md but other files.

    At least half of such files should alarm. Fewer alarms than the bound have a probability below 0.001 if half of them
    do, and by chance about 2 % would alarm.
    """
    files = 40
    verdicts = [run_file("groups", 1_000 + number, 1_000, 0.1, "classes")["verdict"] for number in range(files)]
    assert verdicts.count("does not fit") >= binom.ppf(1e-3, files, 0.5)


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

"""R-hat, effective draws and Monte Carlo error against ArviZ's own older code, on 100 cases with edges."""

import warnings

import numpy as np
import pytest

from keyhole.diagnostics.series import effective_draws, monte_carlo_error, monte_carlo_errors, rhat

CASES = 100
KINDS = ("normal", "shifted", "heavy", "correlated", "ties", "constant", "one chain", "NaN", "stuck", "short")


def make_case(number: int) -> np.ndarray:
    """Draws (chain, draw) of one of the kinds, from a seed that is the number of the case."""
    rng = np.random.default_rng(number)
    kind = KINDS[number % len(KINDS)]
    chains, draws = int(rng.integers(2, 6)), int(rng.integers(20, 400))
    x = rng.standard_normal((chains, draws))
    match kind:
        case "shifted":
            x += rng.normal(0, 0.5, (chains, 1))
        case "heavy":
            x = rng.standard_cauchy((chains, draws))
        case "correlated":
            for t in range(1, draws):
                x[:, t] += 0.9 * x[:, t - 1]
        case "ties":
            x = rng.poisson(2.0, (chains, draws)).astype(float)
        case "constant":
            x = np.full((chains, draws), float(number))
        case "one chain":
            x = x[:1]
        case "NaN":
            x[0, draws // 2] = np.nan
        case "stuck":
            x = np.repeat(np.arange(chains, dtype=float)[:, None], draws, axis=1)
        case "short":
            x = x[:, : int(rng.integers(4, 8))]
    return x


@pytest.fixture(scope="module")
def arviz():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arviz = pytest.importorskip("arviz")
    if hasattr(arviz.utils, "Numba"):  # ArviZ before 1.0: compiling takes longer than the cases
        arviz.utils.Numba.disable_numba()
    return arviz


def judge(arviz, draws: np.ndarray, name: str) -> float:
    """What ArviZ says, without its warnings."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if name == "rhat":
            return float(arviz.rhat(draws))
        if name.endswith("mcse"):
            return float(np.ravel(arviz.mcse(draws))[0])
        return float(arviz.ess(draws, method=name, **({"prob": (0.05, 0.95)} if name == "tail" else {})))


@pytest.mark.parametrize("kind", KINDS)
def test_diagnostics_agree_with_arviz(arviz, kind):
    numbers = [number for number in range(CASES) if KINDS[number % len(KINDS)] == kind]
    assert len(numbers) == CASES // len(KINDS)
    for number in numbers:
        draws = make_case(number)
        ours = {
            "rhat": rhat(draws),
            "bulk": effective_draws(draws, "bulk"),
            "tail": effective_draws(draws, "tail"),
            "mcse": monte_carlo_error(draws),
            "many mcse": monte_carlo_errors(np.stack([draws[::-1], draws], axis=2))[1],
        }
        for name, value in ours.items():
            theirs = judge(arviz, draws, name)
            assert not np.isnan(value), (kind, name)
            if kind == "stuck" and name == "rhat":
                # They divide by what rounding leaves of zero, we say infinite.
                assert theirs > 1e10
                assert value == float("inf")
            elif np.isfinite(theirs):
                assert value == pytest.approx(theirs, rel=1e-10, abs=1e-10), (kind, name, number)


def test_where_arviz_is_silent_the_verdict_is_on_the_safe_side():
    draws = np.random.default_rng(0).standard_normal((4, 100))
    constant, stuck = np.ones((4, 100)), np.repeat(np.arange(4.0)[:, None], 100, axis=1)
    assert rhat(constant) == 1.0
    assert effective_draws(constant, "bulk") == 400
    assert monte_carlo_error(constant) == 0.0
    assert rhat(stuck) == float("inf")
    assert rhat(draws[:1]) == float("inf")
    draws[1, 3] = np.nan
    assert rhat(draws) == float("inf")
    assert effective_draws(draws, "bulk") == effective_draws(draws, "tail") == 0.0
    assert monte_carlo_error(draws) == float("inf")

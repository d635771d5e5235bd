"""What work costs, in nanoseconds on one core, from sizes alone: plans made of it never depend on the clock."""

from keyhole.settings import Settings

EXACT_STEPS = 4_000_000
"""Steps of docs/model.md section 4 for one cell beyond which particles take over: 15 variables, 4 ms."""

PARTICLES = 200
"""Particles of the importance sampler for each cell."""

LABEL_PASSES = 2
"""Further draws of labels, weights and profiles in a sweep without rules: most of what is slow is in them."""


def exact_steps(variables: int) -> int:
    """Return the number of (set, block) pairs in the exact sum for one cell."""
    return int(3 ** (variables - 1) // 2 + 2 ** (variables - 1))


def guess_profiles(settings: Settings) -> int:
    """Return about how many profiles there will be."""
    return settings.profiles if settings.model == "mixed" else 100 if settings.prior == "adaptive" else 20


def sweep_cost(records: int, variables: int, rules: bool) -> float:
    """Return the cost of a sweep: by answers, and a million whatever the number of records."""
    answer = 180.0 if rules else 100.0 + 24.0 * LABEL_PASSES
    return 1e6 + answer * records * variables


def cell_cost(variables: int, profiles: int) -> float:
    """Return the cost of a cell's probability: by pairs of the exact sum, and by profiles and sets."""
    if exact_steps(variables) > EXACT_STEPS:
        return float(PARTICLES * variables * variables * profiles)
    return 0.2 * variables * exact_steps(variables) + 0.2 * profiles * (1 << variables)

"""The lift: profiles of middling weight made more probable, so that chains come and go between few and many profiles.

A profile pays for its rows only when it has some hundred tables. Under `paper`, whose rows cost much, it must first
grow through sizes at which nobody wants it: ny_adults_5000 has eight profiles or nine, and the ninth was lost once
in 25,000 sweeps and never found again. So sweeps follow
    posterior x exp(sum over all profiles of h(beta_k)),
h >= 0 in steps from lift_least to lift_most and 0 elsewhere, and a draw is kept with probability exp(-sum h(beta_k)).
What is kept follows the posterior exactly, whatever h is: a multicanonical sample (Berg and Neuhaus 1992), thinned.

Only the draw of the weights looks at h (weights.py). It proposes gamma and then the weights from the posterior given
all labels, and accepts with probability exp(change of the sum): the proposal is reversible, so this is
Metropolis-Hastings. Splits and merges integrate the weights out: under a lift they are not made. The sum is over the
profiles not yet seen too. Where the remainder is below lift_least, as it nearly always is, there is nothing to add;
else its sticks, which nobody knows, are broken: anew for the proposal, and under the lift, by rejection, for what is.

h is learned before the first draw, and fixed from then on (Wang and Landau 2001). Each draw of the weights lowers h
where a profile is, by lift_step, and raises it everywhere by lift_step x SHARE / LIFT_BINS, never below 0: sizes that
are met less often than that are lifted, until about SHARE profiles are of lifted size. Steps are equal in the root of
the weight, in which a size diffuses at the same pace everywhere. Chains share what they learned (sampling/rounds.py).
"""

import math

from keyhole.kernels.jit import inner, kernel
from keyhole.kernels.state import LIFT_BINS

SHARE, HIGHEST = 0.5, 10.0


@inner
def find_bin(weight, least, most):
    """Return the step of the lift at which this weight stands, -1 if it is not lifted."""
    if weight < least or weight >= most:
        return -1
    low = math.sqrt(least)
    return min(int((math.sqrt(weight) - low) / (math.sqrt(most) - low) * LIFT_BINS), LIFT_BINS - 1)


@inner
def find_height(weight, lift, least, most):
    """Return h of this weight."""
    b = find_bin(weight, least, most)
    return lift[b] if b >= 0 else 0.0


@inner
def break_sticks(rng, concentration, remainder, lift, least, most):
    """Break a stick, and others until none can be lifted; return log nu of the first and the sum of h."""
    log_nu = -rng.standard_exponential() / concentration
    rest = remainder * math.exp(log_nu)
    total = find_height(remainder - rest, lift, least, most)
    while rest >= least:
        stick = -math.expm1(-rng.standard_exponential() / concentration) * rest
        total += find_height(stick, lift, least, most)
        rest -= stick
    return log_nu, total


@inner
def break_lifted_sticks(rng, concentration, remainder, lift, least, most):
    """Do the same under the lift. Without one, and where the remainder is too small for it, it is the same."""
    if remainder < least:
        return break_sticks(rng, concentration, remainder, lift, least, most)
    highest = lift.max() * math.floor(remainder / least)
    while True:
        log_nu, total = break_sticks(rng, concentration, remainder, lift, least, most)
        if -rng.standard_exponential() < total - highest:
            return log_nu, total


@kernel
def sum_lift(rng, prior, state, lifted):
    """Return the sum of h over all profiles; `lifted` says by which law those not yet seen are drawn."""
    lift, least, most = state.lift, prior.lift_least, prior.lift_most
    total = 0.0
    for k in range(state.profile_total[0]):
        total += find_height(state.weight[k], lift, least, most)
    concentration, remainder = state.weight_concentration[0], state.remainder[0]
    if remainder >= least:
        if lifted:
            total += break_lifted_sticks(rng, concentration, remainder, lift, least, most)[1]
        else:
            total += break_sticks(rng, concentration, remainder, lift, least, most)[1]
    return total


@inner
def learn_lift(prior, state):
    """Lower the lift where profiles are, and raise it everywhere."""
    for b in range(LIFT_BINS):
        state.lift[b] += prior.lift_step * SHARE / LIFT_BINS
    for k in range(state.profile_total[0]):
        b = find_bin(state.weight[k], prior.lift_least, prior.lift_most)
        if b >= 0:
            state.lift[b] -= prior.lift_step
    for b in range(LIFT_BINS):
        state.lift[b] = min(max(state.lift[b], 0.0), HIGHEST)

"""Log-likelihood of the records' answers given their labels, for diagnostics: it does not depend on label names."""

import math

from keyhole.kernels.jit import kernel


@kernel
def log_likelihood(level, seat, label, level_profile):
    """Return the sum over answers of log theta^(label of its table)_v."""
    value = 0.0
    for i in range(level.shape[0]):
        product = 1.0
        for j in range(level.shape[1]):
            v = level[i, j]
            if v >= 0:
                product *= level_profile[v, label[i, seat[i, j]]]
                if product < 1e-200:
                    value += math.log(max(product, 1e-300))
                    product = 1.0
        value += math.log(product)
    return value


@kernel
def effective_profiles(kept):
    """Return 1 / sum of squared weights."""
    square = 0.0
    for k in range(kept.profile_total[0]):
        square += kept.weight[k] * kept.weight[k]
    return 1.0 / square

"""What this version can do. To be deleted with its two callers once rules are modelled."""

import importlib.util


def zeros_are_modelled() -> bool:
    """Say whether the kernel for impossible people is there; without it rules would be ignored in silence."""
    return importlib.util.find_spec("keyhole.kernels.impossible") is not None

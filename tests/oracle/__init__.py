"""The judge: the model once more, slow and obvious. Imports nothing from keyhole."""

from .gibbs import run_plain_sweep
from .risk import plain_cell_probability

__all__ = ["plain_cell_probability", "run_plain_sweep"]

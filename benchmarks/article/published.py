"""The two tables of the article: posterior mean and standard deviation of tau1, and hours on one V100 GPU."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """A line of a table. hours: None where the article gives none."""

    algorithm: str
    mean: float
    sd: float
    hours: float | None = None

    def __str__(self) -> str:
        told = "" if self.hours is None else f", {self.hours:g} h"
        return f"{self.mean:g} ± {self.sd:g}{told}"


TRUTH = {
    ("synthetic", 1000): 4,
    ("synthetic", 5000): 28,
    ("synthetic", 10000): 66,
    ("ny_adults", 1000): 9,
    ("ny_adults", 5000): 27,
    ("ny_adults", 10000): 53,
    ("ny_full", 1000): 11,
    ("ny_full", 5000): 55,
    ("ny_full", 10000): 88,
}

SYNTHETIC = {
    1000: (
        Published("HDP sampling", 6.66, 2.42, 12.01),
        Published("HDP Monte Carlo", 6.79, 1.55, 1.49),
        Published("Parametric K=2", 4.01, 1.68, 5.39),
    ),
    5000: (
        Published("HDP sampling", 34.92, 23.63, 12.01),
        Published("HDP Monte Carlo", 34.48, 20.86, 3.13),
        Published("Parametric K=2", 20.26, 3.67, 5.95),
    ),
    10000: (
        Published("HDP sampling", 67.33, 25.42, 12.0),
        Published("HDP Monte Carlo", 67.64, 24.78, 5.35),
        Published("Parametric K=60", 45.63, 5.25, 6.89),
    ),
}
"""Table 1; the parametric line has the K whose mean was nearest to the truth, which a user does not know."""

ADULTS = {
    1000: (Published("BNP Monte Carlo", 7.49, 5.32),),
    5000: (Published("BNP Monte Carlo", 38.8, 12.0),),
    10000: (Published("BNP Monte Carlo", 66.72, 10.85),),
}
ZEROS_IGNORED = {
    1000: (Published("BNP Monte Carlo", 57.98, 13.25),),
    5000: (Published("BNP Monte Carlo", 186.06, 46.67),),
    10000: (Published("BNP Monte Carlo", 288.7, 47.15),),
}
ZEROS_MODELLED = {
    1000: (Published("SZ BNP Monte Carlo", 10.81, 1.66),),
    5000: (Published("SZ BNP Monte Carlo", 56.16, 3.78),),
    10000: (
        Published("SZ BNP Monte Carlo, first mode", 189.46, 5.76),
        Published("SZ BNP Monte Carlo, second mode", 101.98, 5.27),
    ),
}
"""Table 2, in its order."""

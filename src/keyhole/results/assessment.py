"""What a run gives back: an immutable record that can be printed, saved and opened again."""

import importlib
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyhole.errors import KeyholeError
from keyhole.risk import Diagnosis, Measure
from keyhole.risk.advice import Grade
from keyhole.risk.release import Posterior, ReleaseRisk, evaluate_release, make_coarsening, prepare_release
from keyhole.summary import Summary
from keyhole.words import number, rounded

# Quantities that describe the chain rather than the population; ArviZ calls this group `sample_stats`.
CHAIN_QUANTITIES = ("log_likelihood",)

SHOWN_KEYS = 8


@dataclass(frozen=True, eq=False, repr=False)
class Assessment:
    """The risk of one file.

    Two assessments are equal only if they are the same object: compare `tau1`, `records` or `draws` instead.

    Attributes
    ----------
    tau1 : Measure
        Number of sample uniques that are population uniques.
    tau2 : Measure
        Expected number of correct matches.
    summary : Summary
        As summary.json; blocks and fields are attributes and items.
    diagnosis : Diagnosis
        Whether the chains have converged, and what that rests on.
    draws : dict of str to numpy.ndarray
        Quantities by name, (chain, draw).
    profiles : dict of str to numpy.ndarray
        Weights and profiles of the stored draws, (chain, draw, ...).
    manifest : dict
        As manifest.json.
    """

    tau1: Measure
    tau2: Measure
    summary: Summary
    diagnosis: Diagnosis
    draws: dict[str, NDArray[np.float64]]
    profiles: dict[str, NDArray[Any]]
    manifest: dict[str, Any]
    # The table of records.csv, made when it is needed: it may have too many rows for the memory.
    record_table: pl.LazyFrame
    # The records, for releases that need them; never written, so a loaded folder has none.
    _posterior: Posterior | None = None

    def __repr__(self) -> str:
        """Five lines that hold nothing of a record."""
        source, model = self.summary["input"], self.summary["model"]
        keys = ", ".join(source["keys"][:SHOWN_KEYS]) + (", ..." if len(source["keys"]) > SHOWN_KEYS else "")
        return (
            f"Assessment of {source['used']:,} records, {len(source['keys'])} keys ({keys}), "
            f"population {source['population']:,}\n"
            f"  tau1  {about(self.tau1)} of {source['sample_uniques']:,} sample uniques are population uniques\n"
            f"  tau2  {about(self.tau2)} correct matches expected\n"
            f"  {self.grade}; model {model['name']}, prior {model['prior']}\n"
            "  see .records, .summary, .what_if(...), .report(path), .save(folder)"
        )

    @cached_property
    def records(self) -> pl.DataFrame:
        """One row for each row of the input, as records.csv."""
        return self.record_table.collect(engine="streaming")

    @property
    def uniques(self) -> pl.DataFrame:
        """The rows of `records` that are sample uniques."""
        return self.record_table.filter(pl.col("sample_unique") == 1).collect(engine="streaming")

    @property
    def grade(self) -> Grade:
        """Converged, usable or not converged."""
        return self.diagnosis.grade

    @property
    def converged(self) -> bool:
        """Whether the chains have reached one answer."""
        return self.diagnosis.converged

    def save(self, folder: str | Path) -> None:
        """Write the result folder: summary.json, records.csv and .parquet, draws.nc, report.html, manifest.json.

        Parameters
        ----------
        folder
            A new or empty folder, or a result folder, which is replaced.

        Raises
        ------
        OutputError
            If the folder holds other files or cannot be written.
        """
        from keyhole.results.folder import write_results

        write_results(self, Path(folder))

    def what_if(
        self, drop: Iterable[str] = (), recode: Mapping[str, Iterable[Iterable[Any]]] | None = None
    ) -> ReleaseRisk:
        """Return the risk if keys were left out or categories merged, from the same draws.

        Parameters
        ----------
        drop
            Keys to leave out.
        recode
            For each key, lists of categories to merge; the others stay, as in ``{"AGE": [[1, 2], [3, 4, 5]]}``.

        Returns
        -------
        ReleaseRisk

        Raises
        ------
        KeyholeError
            If the assessment was loaded from a folder, which does not hold the records.
        SettingsError
            If a key or category does not exist.
        """
        if self._posterior is None:
            raise KeyholeError(
                "what_if needs the records, which a result folder does not hold: "
                "call assess on the data again, and use what it returns."
            )
        coarsening = make_coarsening(self._posterior.microdata.variables, drop, recode)
        return evaluate_release(self._posterior, prepare_release(self._posterior, coarsening))

    def report(self, path: str | Path, internal: bool = False, title: str | None = None) -> None:
        """Write the report as one HTML page.

        Parameters
        ----------
        path
            The file to write.
        internal
            Show rows and exact counts, for the owner of the data only.
        title
            Heading of the page.
        """
        from keyhole.files import write_text
        from keyhole.report import make_content
        from keyhole.report.render import render

        write_text(render(make_content(self, internal, title)), Path(path))

    def to_arviz(self) -> Any:
        """Return the draws for ArviZ.

        Returns
        -------
        xarray.DataTree or arviz.InferenceData
            The latter before ArviZ 1.

        Raises
        ------
        KeyholeError
            If ArviZ is not installed.
        """
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                arviz: Any = importlib.import_module("arviz")
        except ImportError:
            raise KeyholeError("ArviZ is not installed: pip install 'keyhole[arviz]'.") from None
        groups = {
            "posterior": {name: value for name, value in self.draws.items() if name not in CHAIN_QUANTITIES},
            "sample_stats": {name: self.draws[name] for name in CHAIN_QUANTITIES if name in self.draws},
        }
        # ArviZ 1 takes the groups as one mapping.
        if arviz.__version__.startswith("0."):
            return arviz.from_dict(**groups)
        return arviz.from_dict(groups)


def about(measure: Measure) -> str:
    """The mean and the interval, to the digits that the draws support."""
    low, high = measure.interval
    interval = f"{number(low)} to {number(high)}"
    return f"about {rounded(measure.mean, measure.mcse)} ({interval})" if measure.pooled else interval

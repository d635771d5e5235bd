"""What a run gives back: an immutable record that can be printed, saved and opened again."""

import importlib
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyhole.errors import KeyholeError
from keyhole.risk import Diagnosis, Measure
from keyhole.risk.advice import Grade
from keyhole.risk.release import Posterior, ReleaseRisk, evaluate_release, make_coarsening, prepare_release

# Quantities that describe the chain rather than the population; ArviZ calls this group `sample_stats`.
CHAIN_QUANTITIES = ("log_likelihood",)


@dataclass(frozen=True)
class Assessment:
    """The risk of one file.

    tau1, tau2: how many sample uniques are population uniques; expected correct matches.
    records: one row per input row, as records.csv; summary: as summary.json; manifest: as manifest.json.
    draws: by name, float64 (chain, draw); profiles: what the kept draws say of the profiles, by name.
    """

    tau1: Measure
    tau2: Measure
    records: pl.DataFrame
    summary: dict[str, Any]
    diagnosis: Diagnosis
    draws: dict[str, NDArray[np.float64]]
    profiles: dict[str, NDArray[Any]]
    manifest: dict[str, Any]
    # The records, for releases that need them; never written, so a loaded folder has none.
    _posterior: Posterior | None = field(default=None, repr=False, compare=False)

    @property
    def grade(self) -> Grade:
        """Converged, usable or not converged."""
        return self.diagnosis.grade

    @property
    def converged(self) -> bool:
        """Whether the chains have reached one answer."""
        return self.diagnosis.converged

    def save(self, folder: str | Path) -> None:
        """Write the result folder: summary.json, records.csv and .parquet, draws.nc, report.html, manifest.json."""
        from keyhole.results.folder import write_results

        write_results(self, Path(folder))

    def what_if(
        self, drop: Iterable[str] = (), recode: Mapping[str, Iterable[Iterable[Any]]] | None = None
    ) -> ReleaseRisk:
        """Return the risk if variables were left out or categories merged, from the same draws.

        recode: for each variable lists of categories to merge; the others stay, as in {"AGE": [[1, 2], [3, 4, 5]]}.
        """
        if self._posterior is None:
            raise KeyholeError(
                "what_if needs the records, which a result folder does not hold: "
                "call assess on the data again, and ask what it returns."
            )
        return evaluate_release(
            self._posterior,
            prepare_release(self._posterior, make_coarsening(self._posterior.microdata.variables, drop, recode)),
        )

    def report(self, path: str | Path, internal: bool = False, title: str | None = None) -> None:
        """Write the report as one HTML page; an internal one holds rows and exact counts, for the owner only."""
        from keyhole.files import write_text
        from keyhole.report import make_content
        from keyhole.report.render import render

        write_text(render(make_content(self, internal, title)), Path(path))

    def to_arviz(self) -> Any:
        """Return the draws as ArviZ has them: a DataTree, or InferenceData before ArviZ 1."""
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

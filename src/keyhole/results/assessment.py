"""What a run gives back: an immutable record that can be printed, saved and opened again."""

import importlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyhole.data.frames import convert_frame
from keyhole.errors import KeyholeError
from keyhole.risk import Diagnosis, Measure
from keyhole.risk.advice import Grade
from keyhole.risk.asked import read_mapping, read_names, read_part, read_texts
from keyhole.risk.limits import read_limits
from keyhole.risk.local import make_local_steps
from keyhole.risk.measures import about
from keyhole.risk.policies import find_policies, judge_release, refuse_unfit
from keyhole.risk.release import (
    Posterior,
    ReleaseRisk,
    describe_idle,
    evaluate_release,
    join_merges,
    list_merges,
    prepare_release,
)
from keyhole.sampling.events import leave_out
from keyhole.summary import Summary

if TYPE_CHECKING:
    from keyhole.plan.planning import Plan
    from keyhole.report.notebook import Picture

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
    boxes : dict of str to numpy.ndarray
        The rules as disjoint boxes of impossible and possible combinations, (box, level); empty without rules.
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
    boxes: dict[str, NDArray[np.uint8]] = field(default_factory=dict)
    # The records with the draws, for coarser releases. The records are written only with `keep_data`.
    _posterior: Posterior | None = None
    _keep_data: bool = False
    # Where the run kept its checkpoints, which its results replace.
    _checkpoint: Path | None = None
    # The dataframe library of the caller.
    _library: str = "polars"

    def __repr__(self) -> str:
        """Five lines that hold nothing of a record."""
        source, model = self.summary["input"], self.summary["model"]
        caution = "; caution, see .summary.cautions" if self.summary.cautions else ""
        fit = "" if self.summary.fit is None else f"; {self.summary.fit.sentence}"
        keys = ", ".join(source["keys"][:SHOWN_KEYS]) + (", ..." if len(source["keys"]) > SHOWN_KEYS else "")
        return (
            f"Assessment of {source['used']:,} records, {len(source['keys'])} keys ({keys}), "
            f"population {source['population']:,}\n"
            f"  tau1  {about(self.tau1)}: population uniques among {source['sample_uniques']:,} sample uniques\n"
            f"  tau2  {about(self.tau2)}: correct matches\n"
            f"  {self.grade}{fit}; model {model['name']}, prior {model['prior']}{caution}\n"
            "  see .records, .summary, .what_if(...), .report(path), .save(folder)"
        )

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the verdict and the pictures of a safe report."""
        from keyhole.report import make_content
        from keyhole.report.notebook import render_verdict

        html: str = render_verdict(make_content(self))
        return html

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

    def save(self, folder: str | Path, overwrite: bool = False) -> None:
        """Write the result folder: summary.json, records.csv and .parquet, draws.nc, report.html, manifest.json.

        Parameters
        ----------
        folder
            A new or empty folder.
        overwrite
            Replace the results or the unfinished run that the folder holds. Files that are not keyhole's stay.

        Raises
        ------
        OutputError
            If the folder holds results, an unfinished run or other files, or cannot be written.
        """
        from keyhole.results.folder import write_results

        write_results(self, Path(folder), overwrite)

    def to_frame(self, library: Literal["pandas", "polars", "pyarrow"] | None = None) -> Any:
        """Return `records` as a dataframe of the caller's library.

        Parameters
        ----------
        library
            Its name; by default that of the dataframe that was assessed, and polars for a file or a result folder.

        Returns
        -------
        dataframe
            One row for each row of the input, in its order.

        Raises
        ------
        KeyholeError
            If the library is not installed, or is none of those that can be written.
        """
        return convert_frame(self.records, library or self._library)

    def plot(self, what: Literal["tau1", "tau2", "chains"] = "tau1") -> "Picture":
        """Draw a picture of the safe report: in a notebook it is shown, and `save` writes it as SVG.

        Parameters
        ----------
        what
            The predictive distribution of tau1 or of tau2, or the estimate of tau1 from each chain.

        Returns
        -------
        Picture

        Raises
        ------
        SettingsError
            If there is no such picture, or nothing to draw because nothing had to be estimated.
        """
        from keyhole.report import make_content
        from keyhole.report.notebook import draw_picture

        return draw_picture(make_content(self), what)

    def what_if(
        self,
        drop: str | Iterable[str] = (),
        recode: Mapping[str, Iterable[Iterable[Any]]] | str | Iterable[str] | None = None,
        *,
        bands: Mapping[str, Any] | str | Iterable[str] | None = None,
        top: Mapping[str, Any] | str | Iterable[str] | None = None,
        bottom: Mapping[str, Any] | str | Iterable[str] | None = None,
        subsample: float | str | None = None,
        remove: str | Iterable[int] | None = None,
        blank: Mapping[str, str | Iterable[int]] | str | Iterable[str] | None = None,
        merge: Mapping[str, Iterable[Iterable[Any]]] | str | Iterable[str] | None = None,
        band: Mapping[str, Any] | str | Iterable[str] | None = None,
        policy: str | Sequence[str] = (),
        data: Any = None,
    ) -> ReleaseRisk:
        """Return the risk of a coarser release, from the same draws.

        Steps may be combined: keys are made coarser first, then values blanked, then records removed, then a share of
        the records drawn. If several options merge categories of a key, whatever any of them merges is merged. Each may
        also be written as on the command line, as text or a list of texts: ``merge="AGE=1,2|3,4"``.

        Parameters
        ----------
        drop
            Keys to leave out, as a list or separated by commas.
        recode
            For each key, lists of categories to merge; the others stay, as in ``{"AGE": [[1, 2], [3, 4, 5]]}``.
        bands
            For each ordered key, lower limits or a width, as in ``{"AGE": "10y"}``: its categories are merged into
            these bands.
        top
            For each ordered key, the category or number from which all are merged, as in ``{"EDUC": 7}``.
        bottom
            The same for the lowest categories, up to this one.
        subsample
            Publish this share of the records, drawn at random.
        remove
            Records to remove: a condition on their risk in the coarser release ("r1>0.2", "r2>=0.1", "risk>0.09"), or
            rows from 1.
        blank
            For each key, the records whose value becomes blank, written as in `remove`.
        merge, band
            Other names of `recode` and `bands`, those of the command line.
        policy
            Policies or limits by which the release is judged, as of `assess`.
        data
            For a result that was loaded: the file or dataframe that was assessed. It is checked by the hash of its
            codes in manifest.json. Not needed if the run was made with `keep_data`.

        Returns
        -------
        ReleaseRisk

        Raises
        ------
        KeyholeError
            If the records are needed and not given, or `data` holds others.
        SettingsError
            If a key or category does not exist, or the release would not be coarser.
        """
        posterior = self._records("what-if", data)
        variables = posterior.microdata.variables
        merges = list_merges(
            variables,
            recode=read_mapping("recode", recode, merge),
            bands=read_mapping("bands", bands, band),
            top=read_mapping("top", top),
            bottom=read_mapping("bottom", bottom),
        )
        coarsening = join_merges(variables, read_names(drop, "drop"), merges)
        names = [variable.name for variable in variables]
        blanked, share = read_mapping("blank", blank), read_part(subsample, "subsample")
        local = make_local_steps(names, coarsening.kept, blanked, remove, share)
        policies = find_policies(read_texts(policy, "policy"))
        release = prepare_release(posterior, coarsening, local)
        found = evaluate_release(posterior, release)
        notes = (*describe_idle(variables, merges), *release.idle)
        if release.as_it_is and coarsening == leave_out(posterior.microdata.levels, None):
            # The file as it is has the risk that was assessed, from all draws.
            found = replace(found, tau1=self.tau1, tau2=self.tau2, grade=self.grade, draws=self._all_draws)
            notes = (*notes, "the release is the file as it is")
        verdicts = judge_release(posterior, coarsening, found, policies) if policies else ()
        return replace(found, policies=verdicts, notes=notes)

    @property
    def _all_draws(self) -> int:
        """Number of draws that tau1 and tau2 rest on, 0 if nothing was sampled."""
        return self.draws["tau1"].size if self.profiles else 0

    def plan(
        self,
        limits: Any = (),
        *,
        policy: str | Sequence[str] = (),
        keep: str | Iterable[str] = (),
        importance: Mapping[str, float] | str | Iterable[str] | None = None,
        hierarchy: Any = None,
        at_most: float | str = "60s",
        suppress: float | str = 0.01,
        data: Any = None,
    ) -> "Plan":
        """Find the coarser release that meets limits with the least loss of information, from the same draws.

        Parameters
        ----------
        limits
            What the release has to meet: ``{"tau1.upper": 10}``, "tau1.upper=10", or a list of these.
        policy
            Names or YAML files of policies, whose limits it has to meet too.
        keep
            Keys that stay as they are, as a list or separated by commas.
        importance
            Weights of keys in the loss, 1 if not given, as in ``{"EDUC": 3}``.
        hierarchy
            Groups of categories in place of neighbours: nested lists by key, the path of a YAML file, or a list of
            paths; ``{"EDUC": "educ.csv"}`` or "EDUC=educ.csv" is a table of ARX.
        at_most
            How long the search may take, as text (30s, 5m) or in seconds.
        suppress
            Largest share of records of which values may be blanked or which may be removed, if that loses less.
        data
            As of `what_if`.

        Returns
        -------
        Plan

        Raises
        ------
        KeyholeError
            If the records are needed and not given, or no release meets the limits.
        SettingsError
            If a limit, a key or a hierarchy is not valid.
        """
        from keyhole.plan.planning import make_plan
        from keyhole.results.restored import describe_design, describe_reading

        posterior = self._records("plan", data)
        policies = find_policies(read_texts(policy, "policy"))
        refuse_unfit(policies, len(posterior.microdata.variables), blanks=False)
        asked = [*read_limits(limits), *(found.limit for found in policies if found.limit is not None)]
        return make_plan(
            posterior,
            describe_reading(self),
            asked,
            read_names(keep, "keep"),
            read_mapping("importance", importance),
            hierarchy,
            at_most,
            read_part(suppress, "suppress"),
            fit=(self.tau1, self.tau2),
            design=describe_design(self),
        )

    def _records(self, method: str, data: Any) -> Posterior:
        """Return the records with the draws, from the run, from the folder, or from the data."""
        if self._posterior is not None and data is None:
            return self._posterior
        from keyhole.results.restored import read_again, restore_posterior

        if data is None:
            raise KeyholeError(
                f"{method} needs the records, which this result folder does not hold: give the file or dataframe "
                "that was assessed as `data`, or make runs with `keep_data`."
            )
        return restore_posterior(self, read_again(self, data))

    def report(
        self, path: str | Path, internal: bool = False, title: str | None = None, overwrite: bool = False
    ) -> None:
        """Write the report as one HTML page.

        Parameters
        ----------
        path
            The file to write.
        internal
            Show rows and exact counts, for the owner of the data only.
        title
            Heading of the page.
        overwrite
            Replace the file if it exists. The report in a result folder is replaced unless somebody changed it.

        Raises
        ------
        OutputError
            If the file exists or cannot be written.
        """
        from keyhole.report import make_content
        from keyhole.report.render import render
        from keyhole.results.folder import write_report

        write_report(render(make_content(self, internal, title)), Path(path), overwrite)

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

"""The options of a run, each declared once with default, range and help, from which flags and checks are derived."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self, TypedDict, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_serializer,
    field_validator,
    model_validator,
)

from keyhole.errors import SettingsError

DURATION_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_duration(value: object) -> object:
    """Convert '30s', '5m' or '1h' to seconds; plain numbers are seconds."""
    if not isinstance(value, str):
        return value
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhd]?)\s*", value)
    if found is None:
        raise ValueError("is not a duration: write 30s, 5m or 1h")
    return float(found[1]) * DURATION_UNITS[found[2] or "s"]


def option(default: Any, description: str, low: float | None = None, high: float | None = None) -> Any:
    return Field(default, description=description, ge=low, le=high)


def join_names(value: object) -> object:
    """Convert a list of names to text, separated by commas."""
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
        value = ",".join(value) or None
    if isinstance(value, str) and not all(name.strip() for name in value.split(",")):
        raise ValueError("has an empty name: write AGE,EDUC")
    return value


Names = Annotated[str | None, BeforeValidator(join_names)]
Seconds = Annotated[float, BeforeValidator(parse_duration)]


class Settings(BaseModel):
    """The options of a run; equal settings and equal data give equal numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    model: Literal["hdp", "mixed", "classes"] = option(
        "hdp",
        "Profiles of which a person mixes several, their number learned (hdp) or fixed (mixed), or has one (classes).",
    )
    profiles: int = option(20, "Number of profiles of the model 'mixed'.", low=1, high=1000)
    prior: Literal["adaptive", "paper"] = option(
        "adaptive", "Learn the hyperparameters (adaptive) or fix them as in the article (paper)."
    )
    estimator: Literal["exact", "monte-carlo", "population"] = option(
        "exact", "How cell probabilities are computed; the other two are those of the article, for comparison."
    )
    mc_draws: int = option(500, "Draws for each cell with the estimator 'monte-carlo'.", low=1, high=1_000_000)
    missing: Literal["category", "drop", "model"] = option(
        "category",
        "Blank values are a category of their own (category), drop their record (drop), or are left to the model: "
        "the record is compared on its other answers, and is a sample unique if no other record agrees with it on "
        "all the answers that both have (model).",
    )
    ordered: Names = option(
        None,
        "Keys whose categories are ordered, in the order of the codebook, beside those whose categories are numbers or "
        "bands, or are marked in codebook or file: neighbours are taken to be alike.",
    )
    unordered: Names = option(None, "Keys that are not to be taken as ordered.")
    chains: int = option(4, "Independent chains, which are compared to assess convergence.", low=1, high=256)
    seed: int = option(1, "Seed; the same seed gives the same numbers.", low=0, high=2**63 - 1)
    workers: int | None = option(None, "Chains that run in parallel; results do not depend on it.", low=1, high=1024)
    scheduler: str = option("threads", "Where chains run: threads, processes, or a Dask cluster (tcp://HOST:8786).")
    time_limit: Seconds = option(600.0, "Stop after this long (30s, 5m, 1h), converged or not.", low=0.1)
    target_ess: int = option(
        100, "Effective sample size of the expected tau1 and tau2 required for convergence.", low=10, high=1_000_000
    )
    max_sweeps: int | None = option(None, "Stop after this many sweeps of each chain, without its start.", low=10)

    @field_validator("scheduler")
    @classmethod
    def check_scheduler(cls, value: str) -> str:
        if value not in ("threads", "processes") and not re.fullmatch(r"(tcp|tls|ucx|wss?)://\S+", value):
            raise ValueError("must be threads, processes, or the address of a Dask scheduler such as tcp://HOST:8786")
        return value

    @field_serializer("scheduler")
    def hide_address(self, value: str) -> str:
        """Hide the address, since results do not name machines."""
        return value if value in ("threads", "processes") else "cluster"

    @model_validator(mode="after")
    def refuse_what_has_no_effect(self) -> Self:
        """Refuse options that would be ignored."""
        if self.missing == "model" and self.estimator != "exact":
            raise ValueError(
                f"the estimator '{self.estimator}' does not support missing answers: use `missing` category or drop"
            )
        if self.model == "classes" and (self.prior != "adaptive" or self.estimator != "exact"):
            raise ValueError("the model 'classes' has no other `prior` or `estimator`: omit them")
        if self.model != "mixed" and self.profiles != _default("profiles"):
            raise ValueError("`profiles` is an option of the model 'mixed': add that or omit `profiles`")
        if self.prior == "paper" and (self.ordered or self.unordered):
            raise ValueError("the prior 'paper' knows no order: omit `ordered` and `unordered`")
        if self.estimator != "monte-carlo" and self.mc_draws != _default("mc_draws"):
            raise ValueError("`mc_draws` is an option of the estimator 'monte-carlo': add that or omit `mc_draws`")
        return self


class Options(TypedDict, total=False):
    """The options of `Settings` as keyword arguments."""

    model: Literal["hdp", "mixed", "classes"]
    profiles: int
    prior: Literal["adaptive", "paper"]
    estimator: Literal["exact", "monte-carlo", "population"]
    mc_draws: int
    missing: Literal["category", "drop", "model"]
    ordered: str | Sequence[str] | None
    unordered: str | Sequence[str] | None
    chains: int
    seed: int
    workers: int | None
    scheduler: str
    time_limit: float | str
    target_ess: int
    max_sweeps: int | None


def make_settings(base: Settings | None = None, /, **options: Any) -> Settings:
    """Return `base`, or the defaults, with these options; one SettingsError names all that is wrong."""
    given = {} if base is None else {name: getattr(base, name) for name in base.model_fields_set}
    try:
        return Settings(**{**given, **options})
    except ValidationError as error:
        raise SettingsError("; ".join(_explain(dict(item)) for item in error.errors())) from None


def explain_options(options: Mapping[str, Any]) -> list[str]:
    """Return the errors of single options, not of their combination, since others may still be added."""
    try:
        Settings(**options)
    except ValidationError as error:
        return [_explain(dict(item)) for item in error.errors() if item["loc"]]
    return []


def option_names() -> tuple[str, ...]:
    """Return the names of all options, in the order of the help page."""
    return tuple(Settings.model_fields)


def option_help(name: str) -> str:
    """Return the help line of an option, with its default."""
    field = Settings.model_fields[name]
    if field.default is None:
        return str(field.description)
    default = f"{field.default / 60:g}m" if name == "time_limit" else field.default
    return f"{field.description}  [default: {default}]"


def option_values(name: str) -> str:
    """Return the values that an option takes: the choices, or the kind of value."""
    annotation = Settings.model_fields[name].annotation
    if get_origin(annotation) is Literal:
        return "[" + "|".join(get_args(annotation)) + "]"
    return {"time_limit": "DURATION", "scheduler": "WHERE", "ordered": "KEYS", "unordered": "KEYS"}.get(name, "INTEGER")


def _default(name: str) -> Any:
    return Settings.model_fields[name].default


def _explain(error: dict[str, Any]) -> str:
    message = str(error["msg"]).removeprefix("Value error, ")
    if not error["loc"]:
        return message
    name = str(error["loc"][0])
    if error["type"] == "extra_forbidden":
        return f"unknown option '{name}': the options are {', '.join(option_names())}"
    message = message.removeprefix("Input ")
    return f"`{name}` {message[0].lower()}{message[1:]}"

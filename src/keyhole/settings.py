"""Every option of a run, declared once: default, range and help. Flags and checks follow from it."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, get_args, get_origin

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
    """Turn '30s', '5m' or '1h' into seconds; a plain number already is seconds."""
    if not isinstance(value, str):
        return value
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhd]?)\s*", value)
    if found is None:
        raise ValueError("is not a duration: write 30s, 5m or 1h")
    return float(found[1]) * DURATION_UNITS[found[2] or "s"]


def option(default: Any, told: str, low: float | None = None, high: float | None = None) -> Any:
    """Declare one option."""
    return Field(default, description=told, ge=low, le=high)


Seconds = Annotated[float, BeforeValidator(parse_duration)]


class Settings(BaseModel):
    """How a run is made. Two runs with equal settings and equal data give equal numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    model: Literal["hdp", "mixed"] = option("hdp", "Number of profiles learned (hdp) or fixed (mixed).")
    profiles: int = option(20, "Number of profiles of the model 'mixed'.", low=1, high=1000)
    prior: Literal["adaptive", "paper"] = option(
        "adaptive", "Learn the prior's own numbers (adaptive) or fix them as in the article (paper)."
    )
    estimator: Literal["exact", "monte-carlo", "population"] = option(
        "exact", "How the probability of a cell is found; the other two are the article's, for comparison."
    )
    mc_draws: int = option(500, "Draws for each cell with the estimator 'monte-carlo'.", low=1, high=1_000_000)
    missing: Literal["category", "drop", "model"] = option(
        "category",
        "A blank key value is a category of its own (category), its record is left out (drop), or it is left to the "
        "model: the record is compared on the answers that it has, and is a sample unique if no other record agrees "
        "with it on all the answers that both have (model).",
    )
    chains: int = option(4, "Independent chains; their agreement is the test of convergence.", low=1, high=256)
    seed: int = option(1, "Seed; the same seed gives the same numbers.", low=0, high=2**63 - 1)
    workers: int | None = option(None, "Chains that run at once; it never changes a number.", low=1, high=1024)
    scheduler: str = option("threads", "Where chains run: threads, processes, or a Dask cluster (tcp://HOST:8786).")
    time_limit: Seconds = option(600.0, "Stop after this long (30s, 5m, 1h), converged or not.", low=0.1)
    target_ess: int = option(
        100, "Effective draws of the expected tau1 and tau2 that a verdict needs, among others.", low=10, high=1_000_000
    )
    max_sweeps: int | None = option(None, "Stop after this many sweeps of each chain, its start not counted.", low=10)

    @field_validator("scheduler")
    @classmethod
    def check_scheduler(cls, value: str) -> str:
        """Accept two words, or an address of Dask."""
        if value not in ("threads", "processes") and not re.fullmatch(r"(tcp|tls|ucx|wss?)://\S+", value):
            raise ValueError("must be threads, processes, or the address of a Dask scheduler such as tcp://HOST:8786")
        return value

    @field_serializer("scheduler")
    def hide_address(self, value: str) -> str:
        """Results name no machine."""
        return value if value in ("threads", "processes") else "cluster"

    @model_validator(mode="after")
    def refuse_what_has_no_effect(self) -> Self:
        """An option that would be ignored is refused, so that nobody believes it was used."""
        if self.missing == "model" and self.estimator != "exact":
            raise ValueError(
                f"the estimator '{self.estimator}' knows no missing answers: use missing 'category' or 'drop'"
            )
        if self.model != "mixed" and self.profiles != _default("profiles"):
            raise ValueError("profiles is an option of the model 'mixed': add model 'mixed' or leave it out")
        if self.estimator != "monte-carlo" and self.mc_draws != _default("mc_draws"):
            raise ValueError("mc-draws is an option of the estimator 'monte-carlo': add it or leave mc-draws out")
        return self


def make_settings(**options: Any) -> Settings:
    """Check the options; anything wrong is one SettingsError that names all that is wrong."""
    try:
        return Settings(**options)
    except ValidationError as error:
        raise SettingsError("; ".join(_explain(dict(item)) for item in error.errors())) from None


def explain_options(options: Mapping[str, Any]) -> list[str]:
    """Say what is wrong with each of these options by itself; others may still be added to them."""
    try:
        Settings(**options)
    except ValidationError as error:
        return [_explain(dict(item)) for item in error.errors() if item["loc"]]
    return []


def option_names() -> tuple[str, ...]:
    """Names of all options, in the order of the help page."""
    return tuple(Settings.model_fields)


def option_help(name: str) -> str:
    """The help line of an option, with its default."""
    field = Settings.model_fields[name]
    default = "" if field.default is None else f"  [default: {_write(name, field.default)}]"
    return f"{field.description}{default}"


def option_values(name: str) -> str:
    """What may follow the flag: the choices, or the kind of value."""
    annotation = Settings.model_fields[name].annotation
    if get_origin(annotation) is Literal:
        return "[" + "|".join(get_args(annotation)) + "]"
    return {"time_limit": "DURATION", "scheduler": "WHERE"}.get(name, "INTEGER")


def _default(name: str) -> Any:
    return Settings.model_fields[name].default


def _write(name: str, value: Any) -> str:
    return f"{value / 60:g}m" if name == "time_limit" else str(value)


def _explain(error: dict[str, Any]) -> str:
    """One error of pydantic in our words, with the name as the flag is spelled."""
    message = str(error["msg"]).removeprefix("Value error, ")
    if not error["loc"]:
        return message
    name = str(error["loc"][0])
    if error["type"] == "extra_forbidden":
        return f"unknown option '{name}': the options are {', '.join(option_names())}"
    message = message.removeprefix("Input ")
    return f"{name.replace('_', '-')} {message[0].lower()}{message[1:]}"

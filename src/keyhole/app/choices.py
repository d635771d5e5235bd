"""What a person has chosen on the screens, and the options of `assess` that follow from it."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from keyhole.errors import SettingsError
from keyhole.settings import make_settings
from keyhole.words import read_people, read_share

MOST = 5_000
LONGEST = 20_000
LONGEST_NAME = 120

Name = str
Codes = list[str]


class Rule(BaseModel):
    """A combination that cannot exist. rule: an expression, or categories by key; words: of a suggestion."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    rule: str | dict[str, Codes]
    words: str = ""


class Choices(BaseModel):
    """Everything chosen for one file; a change makes a new value.

    bands, merged: how keys are coarser before the run; size: how the size of the population is given; population,
    fraction: as typed; strata_sizes: the name of the file with the people in each stratum, as it came.
    policies, limits: what the result is judged by, shipped policies by name and own limits as typed.
    declined: the words of suggestions that were rejected; drop, merge, remove, subsample: of What would help.
    plan_limits, plan_keep, plan_time: what a plan has to meet, the keys that it keeps, how long it is searched for;
    plan_importance: weights of keys, 1 if not given; hierarchies: the names of their files, as they came, by key; that
    of several keys without one.
    stays: whether file and results are kept while they are used, until keyhole ends, or until they are removed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    keys: list[Name] = Field(default_factory=list, max_length=MOST)
    bands: dict[Name, str] = Field(default_factory=dict, max_length=MOST)
    merged: dict[Name, list[Codes]] = Field(default_factory=dict, max_length=MOST)
    size: Literal["population", "fraction", "weight", "strata"] = "population"
    population: str = Field(default="", max_length=40)
    fraction: str = Field(default="", max_length=40)
    weight: Name | None = None
    household: Name | None = None
    strata: list[Name] = Field(default_factory=list, max_length=20)
    strata_sizes: str = Field(default="", max_length=LONGEST_NAME)
    missing: Literal["category", "drop", "model"] = "category"
    rules: list[Rule] = Field(default_factory=list, max_length=MOST)
    declined: list[str] = Field(default_factory=list, max_length=MOST)
    drop_contradictions: bool = False
    seed: int = Field(default=1, ge=0, le=2**63 - 1)
    time_limit: str = Field(default="10m", max_length=20)
    quick: bool = False
    policies: list[str] = Field(default_factory=list, max_length=50)
    limits: str = Field(default="", max_length=1_000)
    drop: list[Name] = Field(default_factory=list, max_length=MOST)
    merge: dict[Name, list[Codes]] = Field(default_factory=dict, max_length=MOST)
    remove: str = Field(default="", max_length=40)
    subsample: str = Field(default="", max_length=20)
    plan_limits: str = Field(default="", max_length=1_000)
    plan_keep: list[Name] = Field(default_factory=list, max_length=MOST)
    plan_time: str = Field(default="30s", max_length=20)
    plan_importance: dict[Name, float] = Field(default_factory=dict, max_length=MOST)
    hierarchies: dict[Name, str] = Field(default_factory=dict, max_length=MOST)
    internal: bool = False
    stays: Literal["used", "session", "always"] = "used"

    @model_validator(mode="after")
    def refuse_long_rules(self) -> Self:
        """Refuse rules that nobody types."""
        if any(isinstance(rule.rule, str) and len(rule.rule) > LONGEST for rule in self.rules):
            raise ValueError("a rule is too long")
        return self

    def change(self, changes: Mapping[str, Any]) -> "Choices":
        """Return the choices with these changes; bands of what is no key any more are kept for later."""
        try:
            return Choices.model_validate({**self.model_dump(), **changes})
        except ValidationError:
            raise SettingsError("the page sent a choice that does not exist: reload it.") from None

    @property
    def used_bands(self) -> dict[str, str]:
        """The bands of keys."""
        return {name: text for name, text in self.bands.items() if name in self.keys and text.strip()}

    @property
    def used_merges(self) -> dict[str, list[Codes]]:
        """The merged categories of keys."""
        return {name: groups for name, groups in self.merged.items() if name in self.keys and groups}

    @property
    def judged(self) -> list[str]:
        """What the result is judged by: policies and limits."""
        return [*self.policies, *split_limits(self.limits)]

    @property
    def planned(self) -> list[str]:
        """The limits that a plan has to meet."""
        return split_limits(self.plan_limits)

    def release(self) -> dict[str, Any]:
        """Return the arguments of `what_if`."""
        merge = {name: groups for name, groups in self.merge.items() if groups and name not in self.drop}
        found: dict[str, Any] = {"drop": self.drop, "recode": merge}
        if self.remove.strip():
            found["remove"] = self.remove.strip()
        if self.subsample.strip():
            found["subsample"] = read_share(self.subsample)
        if self.judged:
            found["policy"] = self.judged
        return found

    def rule_list(self) -> list[str | dict[str, Codes]]:
        """Return the rules as `zeros` of `assess` takes them; an empty line is no rule."""
        return [rule.rule for rule in self.rules if rule.rule]


def split_limits(text: str) -> list[str]:
    """Return the limits in a line, with spaces or commas between them."""
    return text.replace(",", " ").split()


def make_options(choices: Choices) -> dict[str, Any]:
    """Return the options of `assess`, without file and rules; what is missing is an error that names it."""
    if not choices.keys:
        raise SettingsError("Choose at least one key, on the screen Variables.")
    options: dict[str, Any] = {"keys": list(choices.keys)}
    weight = choices.weight or None
    if choices.size == "population":
        if not choices.population.strip():
            raise SettingsError("Say how many people the population has, on the screen Variables.")
        options["population"] = read_people(choices.population)
    elif choices.size == "fraction":
        if not choices.fraction.strip():
            raise SettingsError("Give the sampling fraction, on the screen Variables.")
        options["fraction"] = read_share(choices.fraction)
    elif choices.size == "strata":
        if not choices.strata or not choices.strata_sizes:
            raise SettingsError("Choose the strata and the file of their sizes, on the screen Variables.")
    elif weight is None:
        raise SettingsError("Choose the column of weights whose sum is the population, on the screen Variables.")
    for name, value in (("weight", weight), ("household", choices.household or None), ("strata", choices.strata)):
        if value:
            options[name] = value
    if choices.used_bands:
        options["bands"] = choices.used_bands
    if choices.used_merges:
        options["merge"] = choices.used_merges
    if choices.rule_list() and choices.drop_contradictions:
        options["drop_contradictions"] = True
    settings: dict[str, Any] = {"missing": choices.missing, "seed": choices.seed, "time_limit": choices.time_limit}
    checked = make_settings(**settings)
    standard = make_settings()
    options |= {name: settings[name] for name in settings if getattr(checked, name) != getattr(standard, name)}
    if choices.judged:
        options["policy"] = choices.judged
    if choices.quick:
        options["quick"] = True
    return options

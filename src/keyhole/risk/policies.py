"""Named limits with their source, and whether a result meets them.

A policy limits one measure (limits.py); a limit that the user gives is a policy without a source. The verdict says
whether the limit is met, and the probability that it is, from the same draws as everything else. It is about a number:
no verdict says that data are anonymous or that a law is complied with.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from keyhole.diagnostics.laws import Interval, Law
from keyhole.errors import OptionError, SettingsError
from keyhole.readable import Readable
from keyhole.risk.all_records import (
    MISSING,
    AllRecords,
    CellRisks,
    choose_points,
    evaluate_cells,
    find_record_risk,
    law_met,
    prepare_cells,
    probability_met,
    summarise_records,
)
from keyhole.risk.limits import Limit, find_estimate, parse_limit
from keyhole.risk.release import Posterior, ReleaseRisk
from keyhole.sampling.events import Coarsening
from keyhole.words import decimals, did_you_mean

SHIPPED = Path(__file__).with_suffix(".yaml")
NOT_LEGAL_ADVICE = "This is no legal advice: read the number and its conditions at the source."
FIELDS = frozenset({"name", "title", "limit", "source", "checked", "note", "template", "attempt", "most_keys"})
LONGEST_FILE = 1_000_000

WORDS = {
    "tau1": "population uniques among the sample uniques",
    "tau2": "correct matches among the sample uniques",
    "tau1.share": "share of the records that are population uniques",
    "tau2.share": "correct matches among the sample uniques, as a share of the records",
    "all.max": "largest match risk of a record",
    "all.mean": "mean match risk of all records",
    "all.matches": "correct matches among all records",
}


@dataclass(frozen=True)
class Policy:
    """A limit that somebody has set.

    source, checked: where the number is from, and when it was last read there; template: the words of a rule that gives
    no number; attempt: whether the limit is on the risk times the probability of an attempt; most_keys: the largest
    number of keys that the rule is about.
    """

    name: str
    limit: Limit | None
    title: str = ""
    source: str = ""
    checked: str = ""
    note: str = ""
    template: str = ""
    attempt: bool = False
    most_keys: int | None = None


@dataclass(frozen=True)
class PolicyVerdict(Readable):
    """An entry of the block `policies` of the summary.

    measure: as in MEASURES of limits.py; over: whose risk it is; upper: whether the upper end of the interval is
    judged, in place of the mean; value: what is judged; probability: P(measure <= limit), in the worst chain if chains
    do not agree; words: the verdict.
    """

    name: str
    title: str
    measure: str
    over: str
    upper: bool
    limit: float
    value: float
    mean: float
    interval: Interval
    probability: float
    met: bool
    words: str
    source: str
    checked: str
    note: str


@dataclass(frozen=True)
class Chances:
    """What probabilities of limits are read from.

    tau1, tau2: their laws, or the number if it is certain; records: how many; pooled: whether chains agree.
    """

    tau1: Law | float
    tau2: Law | float
    records: int
    all_records: CellRisks | None
    pooled: bool = True

    @property
    def certain(self) -> bool:
        """Whether nothing had to be estimated."""
        return isinstance(self.tau1, float)

    def probability(self, limit: Limit) -> float:
        """Return P(measure <= limit)."""
        if limit.needs_all_records:
            if self.all_records is None:
                raise SettingsError(f"{limit.name}: this result does not have the risk of every record")
            return probability_met(limit, self.all_records, self.pooled)
        law = self.tau1 if limit.measure.startswith("tau1") else self.tau2
        threshold = limit.threshold * (self.records if limit.per_record else 1)
        return float(law <= threshold) if isinstance(law, float) else law_met(law, threshold, self.pooled)


def judge(policies: Iterable[Policy], numbers: Mapping[str, Any], chances: Chances) -> list[PolicyVerdict]:
    """Judge a result; numbers: its summary, or the blocks tau1, tau2, input and all_records of one."""
    return [_judge(policy, policy.limit, numbers, chances) for policy in policies if policy.limit is not None]


def judge_release(
    posterior: Posterior, coarsening: Coarsening, found: ReleaseRisk, policies: Sequence[Policy]
) -> tuple[PolicyVerdict, ...]:
    """Judge a coarser release; limits on all records need one in which no single record is changed."""
    refuse_unfit(policies, len(coarsening.kept), blanks=False)
    limits = [policy.limit for policy in policies if policy.limit is not None]
    block, cell_risks = None, None
    if any(limit.needs_all_records for limit in limits):
        if found.blanked or found.records != posterior.microdata.records:
            raise SettingsError(
                "`policy`: limits on all records are judged for releases that only coarsen keys: omit `blank`, "
                "`remove` and `subsample`"
            )
        block, cell_risks = describe_cells_of(posterior, coarsening, limits)
    numbers = {"tau1": found.tau1, "tau2": found.tau2, "input": {"used": found.records}, "all_records": block}
    tau1, tau2 = found._laws or (found.tau1.mean, found.tau2.mean)
    return tuple(judge(policies, numbers, Chances(tau1, tau2, found.records, cell_risks, found.tau1.pooled)))


def describe_cells_of(
    posterior: Posterior, coarsening: Coarsening, limits: Iterable[Limit], draws: Sequence[int] | None = None
) -> tuple[AllRecords, CellRisks]:
    """Return the block `all_records` of a coarser release, and the risks it rests on."""
    table = prepare_cells(posterior, coarsening, draws)
    if table is None:
        raise SettingsError(f"limits on all records: {MISSING}")
    pooled = posterior.grade != "not converged"
    found = evaluate_cells(posterior, table, choose_points(limits))
    records = find_record_risk(found, posterior.n_unseen, pooled)
    return summarise_records(found, records, posterior.n_unseen, posterior.grade), found


def _judge(policy: Policy, limit: Limit, numbers: Mapping[str, Any], chances: Chances) -> PolicyVerdict:
    found = find_estimate(limit, numbers)
    met = limit.met(numbers)
    bounded = limit.needs_all_records and numbers["all_records"]["bounded"] > 0
    probability = min(max(chances.probability(limit), 0.0), 1.0)
    return PolicyVerdict(
        name=policy.name,
        title=policy.title,
        measure=limit.name,
        over="all records" if limit.needs_all_records else "sample uniques",
        upper=limit.upper,
        limit=limit.threshold,
        value=limit.value(numbers),
        mean=float(found["mean"]),
        interval=(float(found["interval"][0]), float(found["interval"][1])),
        probability=probability,
        met=met,
        words=word_verdict(policy.name, limit, met, probability, chances.certain, bounded),
        source=policy.source,
        checked=policy.checked,
        note=policy.note,
    )


def word_verdict(name: str, limit: Limit, met: bool, probability: float, certain: bool, bounded: bool) -> str:
    """Return the verdict in words; certain: nothing had to be estimated; bounded: some risks are upper bounds."""
    what, chance = word_limit(limit), word_probability(probability, certain)
    if met:
        return f"meets the limit of {name} ({what}), with probability {chance}"
    if bounded:
        return f"is not shown to meet the limit of {name} ({what}), because some risks are only bounded"
    return f"does not meet the limit of {name} ({what}); that it is met has probability {chance}"


def word_limit(limit: Limit) -> str:
    """Return a limit in words."""
    most, judged = f"at most {limit.threshold:.4g}", f"by {limit.judged}"
    if limit.measure == "all.above":
        return f"{most} records with a match risk above {limit.at:g}, {judged}"
    if limit.measure == "all.k":
        return f"{most} records that fewer than {limit.at:g} people share the keys of, {judged}"
    return f"{WORDS[limit.measure]} {most}, {judged}"


def word_probability(probability: float, certain: bool) -> str:
    """Write a probability; one that is estimated from draws is never written as 0 or 1."""
    if certain:
        return f"{probability:g}"
    return "below 0.01" if probability < 0.01 else "above 0.99" if probability > 0.99 else decimals(probability, 2)


@cache
def shipped_policies() -> dict[str, Policy]:
    """Return the policies that come with the package, by name."""
    return {policy.name: policy for policy in _parse(SHIPPED.read_text(encoding="utf-8"), SHIPPED.name)}


def find_policies(asked: Sequence[str | Policy]) -> list[Policy]:
    """Return the policies of these names, files and limits; every one has a limit.

    A limit such as tau1.upper=5 is a policy by that name. A name may be followed by a colon and what it lacks: a limit,
    as in gdpr:all.max.upper=0.05, or the probability of an attempt, as in sphn-low:0.3.
    """
    found: list[Policy] = []
    for item in asked:
        if isinstance(item, Policy):
            found.append(complete(item, ""))
        elif not isinstance(item, str):
            raise SettingsError("`policy`: give the name of a policy, the path of a YAML file, or a limit, as text")
        elif item.lower().endswith((".yaml", ".yml")):
            found += [complete(policy, "") for policy in read_policies(Path(item))]
        elif (limit := parse_limit(item)) is not None:
            found.append(Policy(limit.text, limit))
        else:
            name, _, text = item.partition(":")
            policy = shipped_policies().get(name.strip())
            if policy is None:
                names = shipped_policies()
                raise SettingsError(
                    f"`policy` '{name.strip()}' is not known{did_you_mean(name.strip(), names)}: give the path of a "
                    f"YAML file, a limit such as all.max.upper=0.09, or one of {', '.join(names)}"
                )
            found.append(complete(policy, text.strip()))
    return found


def complete(policy: Policy, text: str) -> Policy:
    """Return a policy with the number that it lacks."""
    if policy.limit is None:
        limit = parse_limit(text)
        if limit is None:
            raise SettingsError(
                f"`policy` {policy.name} states its standard in words ('{policy.template}') and gives no number: "
                f"give yours, as in {policy.name}:all.max.upper=0.05"
            )
        return replace(policy, limit=limit)
    if not text:
        return policy
    attempt = _number(text)
    if not policy.attempt or attempt is None or not 0.0 < attempt <= 1.0:
        wanted = "a probability of an attempt above 0 and at most 1" if policy.attempt else "nothing after its name"
        raise SettingsError(f"`policy` {policy.name} takes {wanted}")
    note = f"{policy.note} Given: {attempt:g}."
    return replace(policy, limit=replace(policy.limit, threshold=policy.limit.threshold / attempt), note=note.strip())


def refuse_unfit(policies: Iterable[Policy], keys: int, blanks: bool) -> None:
    """Refuse policies that are not about so many keys, or about what is not computed with missing answers."""
    for policy in policies:
        if policy.most_keys is not None and keys > policy.most_keys:
            raise SettingsError(
                f"`policy` {policy.name} is about at most {policy.most_keys} keys, and there are {keys}: assess "
                "combinations of so many keys one by one"
            )
        if blanks and policy.limit is not None and policy.limit.needs_all_records:
            raise SettingsError(
                f"{policy.limit.name} needs the risk of every record, which is not computed while missing answers are "
                "left to the model: use `missing` category or drop"
            )


def read_policies(path: Path) -> list[Policy]:
    """Read a file of one policy or a list of them."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise OptionError(f"{path} is not text in UTF-8: save it as UTF-8.") from None
    except (OSError, ValueError) as error:
        raise OptionError(f"{path} cannot be read: {getattr(error, 'strerror', None) or 'not a valid name'}.") from None
    if len(text) > LONGEST_FILE:
        raise SettingsError(f"{path} has more than {LONGEST_FILE:,} characters: it is no file of policies.")
    return _parse(text, str(path))


def _parse(text: str, where: str) -> list[Policy]:
    try:
        # Every scalar stays the text that was written.
        node = yaml.BaseLoader(text).get_single_data()
    except (yaml.YAMLError, RecursionError, ValueError):
        raise SettingsError(f"{where} is not YAML: check indents, quotes and brackets.") from None
    entries = node if isinstance(node, list) else [node]
    if not entries:
        raise SettingsError(f"{where} has no policy: write name, limit and source.")
    return [_make(entry, where) for entry in entries]


def _make(entry: Any, where: str) -> Policy:
    """Return a policy from its entry; texts are never quoted, since the file may be another than was meant."""
    if not isinstance(entry, dict) or not all(isinstance(value, str) for value in entry.values()):
        raise SettingsError(f"{where} is no policy: write name, limit and source, each with one value.")
    if not set(entry) <= FIELDS:
        raise SettingsError(f"{where}: a policy has {', '.join(sorted(FIELDS))}, and nothing else.")
    name = entry.get("name", "").strip()
    if not name or not name.isprintable() or len(name) > 100:
        raise SettingsError(f"{where}: a policy needs a name.")
    limit = parse_limit(entry["limit"]) if "limit" in entry else None
    if (limit is None) == ("template" not in entry):
        raise SettingsError(f"{where}: a policy needs a limit such as all.max.upper=0.09.")
    keys = _number(entry["most_keys"]) if "most_keys" in entry else None
    if "most_keys" in entry and (keys is None or keys < 1 or keys != int(keys)):
        raise SettingsError(f"{where}: most_keys must be a whole number of keys.")
    if entry.get("attempt", "false").lower() not in ("true", "false"):
        raise SettingsError(f"{where}: attempt must be true or false.")
    return Policy(
        name=name,
        limit=limit,
        **{field: entry.get(field, "").strip() for field in ("title", "source", "checked", "note", "template")},
        attempt=entry.get("attempt", "false").lower() == "true",
        most_keys=None if keys is None else int(keys),
    )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None

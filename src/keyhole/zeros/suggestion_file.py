"""Suggestions as a rules file to edit: YAML that read_zeros reads, each rule marked as not yet confirmed."""

import math

import yaml

from keyhole.zeros.suggest import Suggestion, Suggestions

_HEAD = """\
# SUGGESTIONS, not rules: combinations that no record has although the margins make one expect them.
# A gap in a sample does not prove that a combination is impossible. For each entry: keep it (and delete
# the word SUGGESTION) if such a person cannot exist; delete the entry if one can.
"""


def format_suggestions(suggestions: Suggestions) -> str:
    """Write suggestions as the text of a rules file, the most expected records first."""
    head = _HEAD + (
        f"# {len(suggestions.items)} found in {suggestions.tested:,} cells of two-way and three-way margins; "
        f"at most {suggestions.false_discovery:.0%}\n# are expected to be chance; rare is not impossible.\n"
    )
    if not suggestions.items:
        return head + "impossible: []\n"
    entries = [_format_entry(number, item) for number, item in enumerate(suggestions.items, start=1)]
    return head + "impossible:\n" + "".join(entries)


def _format_entry(number: int, item: Suggestion) -> str:
    words = "".join(character if character.isprintable() else "?" for character in item.words)
    rule = {name: list(codes) for name, codes in zip(item.variables, item.categories, strict=True)}
    text = yaml.safe_dump(rule, default_flow_style=True, sort_keys=False, allow_unicode=True, width=math.inf)
    return (
        f"  # SUGGESTION {number}, to be confirmed by a person: {words}\n"
        f"  # nobody seen, {item.expected:.1f} expected\n"
        f"  - {text.strip()}\n"
    )

"""One rule, whatever the file it came from."""

from collections.abc import Sequence
from dataclasses import dataclass

from keyhole.zeros.boxes import Box
from keyhole.zeros.vocabulary import Vocabulary
from keyhole.zeros.words import describe_union


@dataclass(frozen=True)
class Rule:
    """A set of impossible combinations.

    name
        the user's, or "rule 1", "rule 2", ... in the order of the file
    source
        file and line
    words
        what is impossible, in words
    label
        the user's own explanation, empty when there is none
    boxes
        the impossible cells; boxes of one rule may overlap, and there are none when nothing meets the rule
    """

    name: str
    source: str
    words: str
    label: str
    boxes: tuple[Box, ...]


def make_rule(vocabulary: Vocabulary, name: str, source: str, boxes: Sequence[Box], label: str = "") -> Rule:
    """Put a rule together, with its words."""
    words = describe_union(vocabulary.variables, vocabulary.grid, boxes)
    return Rule(name, source, words, label, tuple(boxes))

"""Rules that say nothing that the others do not say."""

from collections.abc import Sequence

from keyhole.zeros.boxes import Grid
from keyhole.zeros.partition import is_covered
from keyhole.zeros.rule import Rule

EXPLAIN_LIMIT = 40  # a redundant rule that meets more rules than this is not traced to the few that cover it


def find_redundant(grid: Grid, rules: Sequence[Rule]) -> dict[int, tuple[int, ...]]:
    """Map each redundant rule to those that cover it; all can go and the same cells stay impossible."""
    order = range(len(grid.levels))
    owned = [(k, box) for k, rule in enumerate(rules) for box in rule.boxes]
    redundant: dict[int, tuple[int, ...]] = {}
    for i in reversed(range(len(rules))):
        near = sorted(
            {
                k
                for own in rules[i].boxes
                for k, box in owned
                if ((own & box) + grid.full) & grid.guard == grid.guard  # meets(), in line: all pairs of boxes
            }
            - {i}
            - redundant.keys()
        )

        def covered_by(chosen: list[int], i: int = i) -> bool:
            others = [box for k in chosen for box in rules[k].boxes]
            return all(is_covered(grid, box, others, order) for box in rules[i].boxes)

        if covered_by(near):
            if len(near) <= EXPLAIN_LIMIT:
                for k in list(reversed(near)):
                    fewer = [other for other in near if other != k]
                    near = fewer if covered_by(fewer) else near
            redundant[i] = tuple(near)
    return redundant

"""Few combinations of options that hold every pair of values."""

from collections.abc import Mapping, Sequence
from itertools import combinations


def pairwise(values: Mapping[str, Sequence[object]]) -> list[dict[str, object]]:
    """Return combinations, a value for each name, so that each pair of values is in one of them.

    Greedy: each combination begins with a pair that is in none yet, and takes for the other names
    the values that bring the most pairs of that kind.
    """
    names = list(values)
    missing = {
        frozenset([(a, x), (b, y)])
        for a, b in combinations(names, 2)
        for x in range(len(values[a]))
        for y in range(len(values[b]))
    }
    found = []
    while missing:
        chosen = dict(min(missing, key=sorted))
        for name in names:
            if name not in chosen:
                chosen[name] = max(
                    range(len(values[name])),
                    key=lambda place, name=name: sum(
                        frozenset([(name, place), item]) in missing for item in chosen.items()
                    ),
                )
        missing -= {frozenset(pair) for pair in combinations(chosen.items(), 2)}
        found.append({name: values[name][chosen[name]] for name in names})
    return found

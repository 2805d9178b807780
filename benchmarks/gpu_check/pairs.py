"""The flags of a run, by pairs: combinations in which every two of them meet in every way."""

from itertools import chain, combinations
from typing import Final

FLAGS: Final = (
    "--decode cuda",
    "--prep-on-gpu",
    "--infer-on-gpu",
    "--enable-compile",
    "--use-amp",
    "--split-point",
    "--mode retrain",
)
"""Each is given or left out; --split-point goes with a layer."""
ON_GPU: Final = frozenset({"--decode cuda", "--prep-on-gpu", "--infer-on-gpu"})
BY_NVDEC: Final = "--decode cuda"
"""The one of them that wants more of a GPU than its cores."""
REFUSED: Final = (
    frozenset({"--enable-compile", "--split-point"}),
    frozenset({"--prep-on-gpu", "--mode retrain"}),
    frozenset({"--split-point", "--mode retrain"}),
    frozenset({"--decode cuda", "--mode retrain"}),
)
"""What does not go together, and is said to be so before anything is run."""

Combination = frozenset[str]
"""The flags that are given."""
_Met = frozenset[tuple[str, bool]]


def covering() -> tuple[Combination, ...]:
    """Return few combinations in which all pairs meet that can, the plain run first.

    A pair is two flags, each given or not: four for any two flags, but for those that are refused.
    The next combination is always the one with the most pairs that have not met yet.
    """
    possible = [each for each in _all() if not is_refused(each)]
    chosen: list[Combination] = [frozenset()]
    missing = set(chain.from_iterable(map(_pairs, possible))) - _pairs(frozenset())
    while missing:
        best = max(possible, key=lambda each: len(_pairs(each) & missing))
        chosen.append(best)
        missing -= _pairs(best)
    return tuple(chosen)


def is_refused(combination: Combination) -> bool:
    """Whether some of these flags do not go together."""
    return any(refused <= combination for refused in REFUSED)


def _all() -> list[Combination]:
    sizes = (combinations(FLAGS, size) for size in range(len(FLAGS) + 1))
    return [frozenset(flags) for flags in chain.from_iterable(sizes)]


def _pairs(combination: Combination) -> set[_Met]:
    return {
        frozenset({(one, one in combination), (other, other in combination)})
        for one, other in combinations(FLAGS, 2)
    }

"""Which videos are held out: whole videos, drawn class by class, no copy on both sides."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from headrace.runs.retrain.examples import Examples
from headrace.sampling.feistel import Feistel
from headrace.sampling.random import Draws, Purpose


def held_out(
    examples: Examples, contents: Sequence[str], *, share: float, seed: int
) -> frozenset[int]:
    """Return the videos that are not trained on.

    Of each class `share` of its videos, at least one, and never its last one: that is trained on.

    Args:
        examples: The classes of each video's frames.
        contents: An id of each video's content; those with the same stay together.
        share: Of the videos, in [0, 1).
        seed: What they are drawn from.

    Returns:
        Their places; none where no class has a video to spare.
    """
    groups: dict[str, list[int]] = {}
    for video, content in enumerate(contents):
        groups.setdefault(content, []).append(video)
    members = list(groups.values())
    classes = [
        frozenset[int]().union(*(examples.classes_of(video) for video in each)) for each in members
    ]
    have = Counter(number for found in classes for number in found)
    wanted = {
        number: min(max(1, round(share * groups_of)), groups_of - 1) if share else 0
        for number, groups_of in have.items()
    }
    draws = Draws(seed=seed, epoch=0, purpose=Purpose.HELD_OUT)
    taken: Counter[int] = Counter()
    found: set[int] = set()
    for group in Feistel(size=len(members), draws=draws).at(np.arange(len(members))).tolist():
        of_group = classes[group]
        is_wanted = any(taken[number] < wanted[number] for number in of_group)
        if is_wanted and all(taken[number] + 1 < have[number] for number in of_group):
            taken.update(of_group)
            found.update(members[group])
    return frozenset(found)

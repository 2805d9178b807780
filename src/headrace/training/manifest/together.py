"""Which rows of a manifest must stay together when it is split, and which part they go to."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headrace.sampling.random import Draws, Purpose
from headrace.training.manifest.columns import Column, is_missing


def units_of(files: Sequence[str], groups: Column | None) -> NDArray[np.int64]:
    """Return the number of each row's unit, int64 [rows]: units share no file and no group.

    Args:
        files: Of each row.
        groups: Of each row, with nothing for one that belongs to none. None: there are no groups.
    """
    leader: dict[object, object] = {}

    def leader_of(each: object) -> object:
        while leader.setdefault(each, each) != each:
            leader[each] = each = leader[leader[each]]
        return each

    for row, file in enumerate(files):
        if groups is not None and not is_missing(groups[row]):
            leader[leader_of(("group", str(groups[row])))] = leader_of(file)
    found = [leader_of(file) for file in files]
    number = {each: place for place, each in enumerate(dict.fromkeys(found))}
    return np.array([number[each] for each in found], np.int64)


def drawn_share(unit: NDArray[np.int64], share: float, *, seed: int) -> NDArray[np.bool_]:
    """Return which rows are in a share of whole units, drawn by chance; bool [rows].

    As near to `share` of the rows as the units allow, in the order in which they were drawn; on
    each side there is one unit at least.

    Args:
        unit: int64 [rows]: two or more of them.
        share: Above 0 and below 1.
        seed: Another one draws another share.
    """
    rows_of = np.bincount(unit)
    draws = Draws(seed=seed, epoch=0, purpose=Purpose.HELD_OUT)
    order = np.argsort(draws.words(np.arange(len(rows_of))), kind="stable")
    rows = np.cumsum(rows_of[order])[:-1]
    nearest = int(np.abs(rows - share * len(unit)).argmin())
    return np.isin(unit, order[: nearest + 1])

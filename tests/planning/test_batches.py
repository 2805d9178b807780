"""Stretches fill batches of an exact size, each frame one place."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.planning.batches import batch_parts
from headrace.planning.stretches import Stretch


def stretches(lengths: list[int]) -> list[Stretch]:
    borders = np.cumsum([0, *lengths]).tolist()
    return [Stretch(video=0, index=None, wanted=tuple(range(*span))) for span in pairwise(borders)]


@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=8),
    batch_size=st.integers(1, 50),
    most=st.integers(1, 50),
)
def test_every_frame_has_one_place_in_batches_of_the_size(lengths, batch_size, most):
    total = sum(lengths)
    plan = list(batch_parts(stretches(lengths), total, batch_size=batch_size, most=most))
    assert [len(stretch.wanted) for stretch, _ in plan] == lengths
    for stretch, parts in plan:
        assert [n for part in parts for n in part.wanted] == list(stretch.wanted)
    parts = [part for _, parts in plan for part in parts]
    assert max(len(part.wanted) for part in parts) <= most
    places = [
        part.batch * batch_size + part.first + k for part in parts for k in range(len(part.wanted))
    ]
    assert places == list(range(total))
    for part in parts:
        assert part.batch_frames == min(batch_size, total - part.batch * batch_size)
    full = [part.batch for part in parts if part.is_last]
    assert full == list(range(-(-total // batch_size)))

"""Whole videos are held out, class by class, and no copy of one is on both sides."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.runs.retrain.examples import Examples
from headrace.runs.retrain.split import held_out


def examples(*classes: tuple[int, ...]) -> Examples:
    """Return examples of videos that have a frame of each of their classes."""
    return Examples(classes=tuple("abcd"), of_frame=tuple(np.array(each) for each in classes))


def test_a_share_of_the_videos_of_each_class_is_held_out():
    videos = examples(*[(0,)] * 10, *[(1,)] * 5, (2,), (2,))
    held = held_out(videos, [*map(str, range(17))], share=0.2, seed=0)
    assert [len({v for v in held if videos.classes_of(v) == {k}}) for k in range(3)] == [2, 1, 1]
    assert held == held_out(videos, [*map(str, range(17))], share=0.2, seed=0)
    assert held != held_out(videos, [*map(str, range(17))], share=0.2, seed=1)


@pytest.mark.parametrize(
    ("videos", "contents", "share"),
    [
        (examples((0,), (1,)), "ab", 0.5),
        (examples((0,), (0,), (1,)), "abc", 0.0),
        (examples((0,), (0,), (1,), (1,)), "aabb", 0.5),
    ],
    ids=["one of each class", "share 0", "copies only"],
)
def test_nothing_is_held_out_where_no_video_can_be_spared(videos, contents, share):
    assert held_out(videos, contents, share=share, seed=0) == frozenset()


@given(
    st.lists(
        st.tuples(st.sets(st.integers(0, 3), min_size=1), st.sampled_from("stuvw")), min_size=1
    ),
    st.floats(0, 0.99),
    st.integers(0, 99),
)
def test_every_class_is_trained_on_and_copies_stay_together(drawn, share, seed):
    by_content = {content: classes for classes, content in drawn}
    contents = [content for _, content in drawn]
    videos = examples(*(tuple(by_content[content]) for content in contents))
    held = held_out(videos, contents, share=share, seed=seed)
    trained = set(range(len(contents))) - held
    assert not {contents[v] for v in held} & {contents[v] for v in trained}
    every = frozenset().union(*by_content.values())
    assert frozenset().union(*(videos.classes_of(v) for v in trained)) == every

"""The file of labels, the class of each frame, the videos held out, and the order of the frames."""

import math
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.runs.retrain import frame_labels
from headrace.runs.retrain.labelled_dataset import SubsetSampler
from headrace.sampling.population import Population
from headrace.sampling.sampler import SamplerContext, bind_sampler, check_order
from runs.retrain.toy import write_labels

INDICES = tuple(np.array(each) for each in ([0, 2], [1, 3, 4], [5]))
POPULATION = Population.of([np.array([6]), np.array([3, 4])])
"""Of the videos 0 and 2 of three: the second cannot be opened."""


def test_lines_name_a_video_a_label_and_a_part(tmp_path):
    text = "\ufeffLabel, Path ,start_seconds,end_seconds\ncat,a.mp4,,\n\ndög,/b.mp4,1.5,2\n"
    path = tmp_path / "labels.csv"
    path.write_text(text)
    whole = {"start_seconds": 0.0, "end_seconds": math.inf}
    assert frame_labels.read_labels(path) == (
        frame_labels.LabelRow(line=2, path=tmp_path / "a.mp4", label="cat", **whole),
        frame_labels.LabelRow(
            line=4, path=Path("/b.mp4"), label="dög", start_seconds=1.5, end_seconds=2.0
        ),
    )


def test_a_file_without_names_of_columns_has_them_in_order(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("a.mp4,cat,,\nb.mp4,dog,1.5,2\n")
    rows = frame_labels.read_labels(path)
    assert [(row.path.name, row.label, row.start_seconds) for row in rows] == [
        ("a.mp4", "cat", 0.0),
        ("b.mp4", "dog", 1.5),
    ]


def found(videos, *lines: str) -> frame_labels.FrameLabels:
    """Return the examples that lines of labels beside the videos make."""
    heads = "path,label,start_seconds,end_seconds"
    path = write_labels(videos[0].source.path.parent / "labels.csv", lines, heads)
    return frame_labels.label_frames(videos, frame_labels.read_labels(path), path)


def test_whole_videos_and_parts_of_them_have_classes(labelled_videos):
    examples = found(
        labelled_videos, "a.mp4,dog", "b.mp4,cat,0,0.2", "b.mp4,dog,0.5,", "b.mp4,cat,0.1,0.2"
    )
    assert examples.classes == ("cat", "dog")
    assert (examples.of_frame[0] == 1).all()
    numbers = examples.of_frame[1]
    assert numbers.tolist() == [0] * 6 + [frame_labels.NO_CLASS] * 9 + [1] * 15
    assert examples.frames_of(1).tolist() == [*range(6), *range(15, 30)]
    assert examples.frames_of(1, stride=10).tolist() == [0, 19, 29]
    assert [sorted(examples.classes_of(video)) for video in (0, 1)] == [[1], [0, 1]]


def test_dummy_classes_follow_from_the_seed(labelled_videos):
    one, same, other = (frame_labels.dummy_labels(labelled_videos, seed) for seed in (1, 1, 2))
    assert one.is_dummy
    assert len(one.classes) == 10
    assert [len(each) for each in one.of_frame] == [30, 30]
    assert all(map(np.array_equal, one.of_frame, same.of_frame))
    assert not np.array_equal(one.of_frame[0], other.of_frame[0])
    assert set(np.concatenate(one.of_frame)) == set(range(10))


def examples(*classes: tuple[int, ...]) -> frame_labels.FrameLabels:
    """Return examples of videos that have a frame of each of their classes."""
    return frame_labels.FrameLabels(
        classes=tuple("abcd"), of_frame=tuple(np.array(each) for each in classes)
    )


def test_a_share_of_the_videos_of_each_class_is_held_out():
    videos = examples(*[(0,)] * 10, *[(1,)] * 5, (2,), (2,))
    held = frame_labels.held_out(videos, [*map(str, range(17))], share=0.2, seed=0)
    assert [len({v for v in held if videos.classes_of(v) == {k}}) for k in range(3)] == [2, 1, 1]
    assert held == frame_labels.held_out(videos, [*map(str, range(17))], share=0.2, seed=0)
    assert held != frame_labels.held_out(videos, [*map(str, range(17))], share=0.2, seed=1)


def test_nothing_is_held_out_where_no_video_can_be_spared():
    """One of each class; a share of 0; copies only."""
    for classes, contents, share in (("01", "ab", 0.5), ("001", "abc", 0.0), ("0011", "aabb", 0.5)):
        videos = examples(*((int(number),) for number in classes))
        assert frame_labels.held_out(videos, contents, share=share, seed=0) == frozenset()


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
    held = frame_labels.held_out(videos, contents, share=share, seed=seed)
    trained = set(range(len(contents))) - held
    assert not {contents[v] for v in held} & {contents[v] for v in trained}
    every = frozenset().union(*by_content.values())
    assert frozenset().union(*(videos.classes_of(v) for v in trained)) == every


def opened(sampler: SubsetSampler) -> SubsetSampler:
    use = SamplerContext(videos=np.array([0, 2]), videos_given=3, seed=5)
    return bind_sampler(sampler, use)


def test_chosen_frames_come_in_order_or_shuffled_each_once():
    in_order = opened(SubsetSampler(indices=INDICES, is_shuffled=False))
    assert in_order.order(POPULATION, 0)[:].tolist() == [0, 2, 11]
    many = tuple(np.arange(6) for _ in INDICES)
    shuffled = opened(SubsetSampler(indices=many))
    orders = [shuffled.order(POPULATION, epoch)[:].tolist() for epoch in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[2]) == list(range(12))
    check_order(shuffled.order(POPULATION, 0), shuffled, POPULATION)


def test_other_frames_are_another_identity():
    one, same, other = (
        SubsetSampler(indices=each).traits.identity for each in (INDICES, INDICES, INDICES[::-1])
    )
    assert one == same != other

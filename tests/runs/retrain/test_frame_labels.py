"""Label files, frame labels, held-out videos, and the sampler of labelled frames."""

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

INDICES = tuple(map(np.array, ([0, 2], [1, 3, 4], [5])))
POPULATION = Population.of([np.array([6]), np.array([3, 4])])
"""Videos 0 and 2 of three; video 1 cannot be opened."""


def test_a_line_gives_a_video_a_label_and_a_part(tmp_path):
    text = "\ufeffLabel, Path ,start_seconds,end_seconds\ncat,a.mp4,,\n\ndög,/b.mp4,1.5,2\n"
    path = tmp_path / "labels.csv"
    path.write_text(text)
    full = {"start_seconds": 0.0, "end_seconds": math.inf}
    assert frame_labels.read_labels(path) == (
        frame_labels.LabelRow(line=2, path=tmp_path / "a.mp4", label="cat", **full),
        frame_labels.LabelRow(
            line=4, path=Path("/b.mp4"), label="dög", start_seconds=1.5, end_seconds=2.0
        ),
    )


def test_a_file_without_a_header_has_the_columns_in_order(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("a.mp4,cat,,\nb.mp4,dog,1.5,2\n")
    rows = frame_labels.read_labels(path)
    assert [(row.path.name, row.label, row.start_seconds) for row in rows] == [
        ("a.mp4", "cat", 0.0),
        ("b.mp4", "dog", 1.5),
    ]


def labels_of(videos, *lines: str) -> frame_labels.FrameLabels:
    """Return the frame labels of videos, from the lines of a label file beside them."""
    header = "path,label,start_seconds,end_seconds"
    path = write_labels(videos[0].source.path.parent / "labels.csv", lines, header)
    return frame_labels.label_frames(videos, frame_labels.read_labels(path), path)


def test_complete_videos_and_parts_have_classes(labelled_videos):
    labels = labels_of(
        labelled_videos, "a.mp4,dog", "b.mp4,cat,0,0.2", "b.mp4,dog,0.5,", "b.mp4,cat,0.1,0.2"
    )
    assert labels.classes == ("cat", "dog")
    assert (labels.of_frame[0] == 1).all()
    numbers = labels.of_frame[1]
    assert numbers.tolist() == [0] * 6 + [frame_labels.NO_CLASS] * 9 + [1] * 15
    assert labels.frames_of(1).tolist() == [*range(6), *range(15, 30)]
    assert labels.frames_of(1, stride=10).tolist() == [0, 19, 29]
    assert [sorted(labels.classes_of(video)) for video in (0, 1)] == [[1], [0, 1]]


def test_dummy_labels_depend_only_on_the_seed(labelled_videos):
    first, same, other = (frame_labels.dummy_labels(labelled_videos, seed) for seed in (1, 1, 2))
    assert first.is_dummy
    assert len(first.classes) == 10
    assert list(map(len, first.of_frame)) == [30, 30]
    assert all(map(np.array_equal, first.of_frame, same.of_frame))
    assert not np.array_equal(first.of_frame[0], other.of_frame[0])
    assert set(np.concatenate(first.of_frame)) == set(range(10))


def one_frame_per_class(*classes: tuple[int, ...]) -> frame_labels.FrameLabels:
    """Return the labels of videos with one frame for each of their classes."""
    return frame_labels.FrameLabels(classes=tuple("abcd"), of_frame=tuple(map(np.array, classes)))


def test_a_share_of_the_videos_of_each_class_is_held_out():
    videos = one_frame_per_class(*[(0,)] * 10, *[(1,)] * 5, (2,), (2,))
    held = frame_labels.held_out(videos, [*map(str, range(17))], share=0.2, seed=0)
    assert [len({v for v in held if videos.classes_of(v) == {k}}) for k in range(3)] == [2, 1, 1]
    assert held == frame_labels.held_out(videos, [*map(str, range(17))], share=0.2, seed=0)
    assert held != frame_labels.held_out(videos, [*map(str, range(17))], share=0.2, seed=1)


def test_nothing_is_held_out_if_no_video_can_be_spared():
    """One video per class; a share of 0; only copies."""
    for classes, contents, share in (("01", "ab", 0.5), ("001", "abc", 0.0), ("0011", "aabb", 0.5)):
        videos = one_frame_per_class(*((int(number),) for number in classes))
        assert frame_labels.held_out(videos, contents, share=share, seed=0) == frozenset()


@given(
    st.lists(
        st.tuples(st.sets(st.integers(0, 3), min_size=1), st.sampled_from("stuvw")), min_size=1
    ),
    st.floats(0, 0.99),
    st.integers(0, 99),
)
def test_every_class_is_trained_and_copies_stay_together(videos, share, seed):
    by_content = {content: classes for classes, content in videos}
    contents = [content for _, content in videos]
    labels = one_frame_per_class(*(tuple(by_content[content]) for content in contents))
    held = frame_labels.held_out(labels, contents, share=share, seed=seed)
    trained = set(range(len(contents))) - held
    assert not {contents[v] for v in held} & {contents[v] for v in trained}
    all_classes = frozenset().union(*by_content.values())
    assert frozenset().union(*(labels.classes_of(v) for v in trained)) == all_classes


def bind(sampler: SubsetSampler) -> SubsetSampler:
    context = SamplerContext(videos=np.array([0, 2]), videos_given=3, seed=5)
    return bind_sampler(sampler, context)


def test_the_given_frames_are_sampled_once_in_order_or_shuffled():
    in_order = bind(SubsetSampler(indices=INDICES, is_shuffled=False))
    assert in_order.order(POPULATION, 0)[:].tolist() == [0, 2, 11]
    many = tuple(np.arange(6) for _ in INDICES)
    shuffled = bind(SubsetSampler(indices=many))
    orders = [shuffled.order(POPULATION, epoch)[:].tolist() for epoch in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[2]) == list(range(12))
    check_order(shuffled.order(POPULATION, 0), shuffled, POPULATION)


def test_the_identity_of_a_sampler_depends_on_its_frames():
    first, same, other = (
        SubsetSampler(indices=indices).traits.identity
        for indices in (INDICES, INDICES, INDICES[::-1])
    )
    assert first == same != other

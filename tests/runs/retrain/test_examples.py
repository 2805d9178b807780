"""Which class each frame has, and how labels that do not fit are refused."""

import numpy as np
import pytest

from headrace.errors import ConfigError
from headrace.runs.retrain.examples import NO_CLASS, Examples, dummies, labelled
from headrace.runs.retrain.label_file import read_labels
from headrace.testing.synth import SynthClip, write_clip
from headrace.video.stream_index import StreamIndex
from runs.retrain.toy import write_labels


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    """Return the indexes of a.mp4 and b.mp4, of 30 frames in a second each."""
    folder = tmp_path_factory.mktemp("videos")
    clips = [write_clip(folder / name, SynthClip(num_frames=30)) for name in "ab"]
    return [StreamIndex.scan(clip) for clip in clips]


def found(videos, *lines: str) -> Examples:
    """Return the examples that lines of labels beside the videos make."""
    heads = "path,label,start_seconds,end_seconds"
    path = write_labels(videos[0].source.path.parent / "labels.csv", lines, heads)
    return labelled(videos, read_labels(path), path)


def test_whole_videos_and_parts_of_them_have_classes(videos):
    examples = found(videos, "a.mp4,dog", "b.mp4,cat,0,0.2", "b.mp4,dog,0.5,", "b.mp4,cat,0.1,0.2")
    assert examples.classes == ("cat", "dog")
    assert (examples.of_frame[0] == 1).all()
    numbers = examples.of_frame[1]
    assert numbers.tolist() == [0] * 6 + [NO_CLASS] * 9 + [1] * 15
    assert examples.frames_of(1).tolist() == [*range(6), *range(15, 30)]
    assert examples.frames_of(1, stride=10).tolist() == [0, 19, 29]
    assert [sorted(examples.classes_of(video)) for video in (0, 1)] == [[1], [0, 1]]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a.mp4,cat"], r"has no label for .*b.mp4; add a line for each"),
        (["a.mp4,cat", "b.mp4,cat"], "all labels in .* are 'cat'; there is nothing to tell apart"),
        (["a.mp4,cat", "b.mp4,dog", "c.mp4,dog"], r"labels .*c.mp4, not there; mend the path"),
        (["a.mp4,cat", "b.mp4,dog", "labels.csv,dog"], "not among the videos given; give them too"),
        (["a.mp4,cat", "b.mp4,dog,2,3"], "line 3 of .* labels no frame: .* its last is at 0.967 s"),
        (["a.mp4,cat", "b.mp4,dog,0,0.5", "b.mp4,cat,0.4,1"], "an earlier line labels 'dog'"),
    ],
)
def test_labels_that_do_not_fit_are_refused(videos, lines, message):
    with pytest.raises(ConfigError, match=message) as caught:
        found(videos, *lines)
    assert len(str(caught.value).splitlines()) == 1


def test_dummy_classes_follow_from_the_seed(videos):
    one, same, other = (dummies(videos, seed) for seed in (1, 1, 2))
    assert one.is_dummy
    assert len(one.classes) == 10
    assert [len(each) for each in one.of_frame] == [30, 30]
    assert all(map(np.array_equal, one.of_frame, same.of_frame))
    assert not np.array_equal(one.of_frame[0], other.of_frame[0])
    assert set(np.concatenate(one.of_frame)) == set(range(10))

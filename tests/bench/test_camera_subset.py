"""Parts of a camera set: equally many moments from the beginning of each clip."""

import pytest

from headrace.bench.camera_rank import CameraSubset
from headrace.decode.index_store import IndexStore
from headrace.training.cameras.alignment import Alignment
from headrace.video.camera_layout import CameraLayout
from training.cameras.clips import layout_of, write_layout

LENGTHS = {"a": 6, "b": 3, "c": 5}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("part")
    write_layout(folder / "videos", LENGTHS)
    return folder


@pytest.fixture(scope="module")
def store(folder):
    return IndexStore(folder / "store")


def lengths(part, store):
    return {clip.clip.name: clip.moments.tolist() for clip in part.open(store).clips}


@pytest.mark.parametrize(
    ("moments", "slots", "left"),
    [
        (6, 1, {"a": 6}),
        (7, 1, {"a": 4, "b": 3}),
        (4, 2, {"a": 2, "b": 2}),
        (4, 9, {"a": 2, "b": 2, "c": 2}),
        (1, 3, {"a": 1, "b": 1, "c": 1}),
        (14, 1, {"a": 5, "b": 3, "c": 5}),
        (1000, 1, LENGTHS),
    ],
)
def test_clips_are_as_many_as_are_needed_and_equally_long(folder, store, moments, slots, left):
    whole = CameraSubset(layout=layout_of(folder / "videos"), alignment=Alignment())
    part = whole.cut(whole.open(store), moments, slots)
    assert lengths(part, store) == {name: list(range(count)) for name, count in left.items()}


def test_clips_of_one_name_are_cut_alike(folder, store, tmp_path):
    """Moments are chosen by the name of a clip, which two folders may share."""
    write_layout(tmp_path / "others", {"a": 2})
    layout = CameraLayout.of_folders(
        [folder / "videos", tmp_path / "others"], lambda file: 2 if "others" in str(file) else 6
    )
    clips = (layout.clips[0], layout.clips[-1])
    whole = CameraSubset(
        layout=CameraLayout(clips=clips, cameras=layout.cameras), alignment=Alignment()
    )
    part = whole.cut(whole.open(store), 8, 2)
    assert [len(clip) for clip in part.open(store).clips] == [2, 2]

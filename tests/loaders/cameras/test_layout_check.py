"""`camera_problems` names every problem with the files of a layout, and its fix."""

import shutil
from dataclasses import replace
from fractions import Fraction
from functools import partial

import pytest

from headrace import Alignment, CameraClock, CameraLayout, camera_problems, open_index
from loaders.cameras.clips import CAMERAS, replace_camera, write_cameras

FAST, SLOW = (Fraction(rate) for rate in (60, 30))
MASKED = {"sync": "nearest", "on_missing": "mask"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Three clips of three cameras, 6 frames each."""
    folder = tmp_path_factory.mktemp("whole")
    cameras = {camera: {"num_frames": 6} for camera in CAMERAS}
    write_cameras(folder, dict.fromkeys("abc", cameras), 6)
    return folder


@pytest.fixture
def named(whole, tmp_path, store):
    """Return `named(change, layout=None, **alignment)`: the problems after a change of a copy."""

    def problems(change=lambda folder: None, layout=None, **alignment):
        folder = shutil.copytree(whole, tmp_path / str(len([*tmp_path.iterdir()])) / "videos")
        before = layout_of(folder, store)
        change(folder)
        given = layout_of(folder, store) if layout is None else layout(before)
        return list(camera_problems(given, Alignment(**alignment), index_store=store))

    return problems


def layout_of(folder, store):
    return CameraLayout.of_folders([folder], lambda file: len(open_index(file, store)))


def broken(folder):
    """Remove two cameras of a clip, and make one of each other clip no video."""
    for camera in ("back", "left"):
        (folder / "a" / f"{camera}.mp4").unlink()
    (folder / "b" / "back.mp4").write_text("no video")
    (folder / "c" / "front.mp4").write_bytes(b"")


def with_cameras(**options):
    """Return a function that replaces cameras: a_back={...}."""

    def change(folder):
        for name, given in options.items():
            path = folder / f"{name.replace('_', '/')}.mp4"
            replace_camera(path, **{"size": (64, 96), **given})

    return change


def missing_and_early(folder):
    (folder / "b" / "back.mp4").unlink()
    with_cameras(b_left={"num_frames": 5})(folder)


def other_length(layout):
    a, *others = layout.clips
    return replace(layout, clips=(replace(a, num_frames=8), *others))


OWN_RATE = {
    f"{clip}_{camera}": {"num_frames": frames, "frame_rate": rate}
    for clip in "abc"
    for camera, frames, rate in (("front", 12, FAST), ("back", 6, SLOW), ("left", 6, SLOW))
}
EARLY = {
    "a_back": {"num_frames": 30, "frame_rate": SLOW},
    "a_front": {"num_frames": 30, "frame_rate": FAST},
    "a_left": {"num_frames": 60, "frame_rate": FAST},
}
BEFORE = {
    "a_back": {"num_frames": 6, "frame_rate": Fraction(5)},
    "a_front": {"num_frames": 3, "frame_rate": Fraction(5, 2)},
}
LENGTHS = with_cameras(a_front={"num_frames": 4}, c_left={"num_frames": 9})


def test_every_problem_is_named_with_what_to_do(named, holds, tmp_path):
    found = {
        "missing and damaged": named(broken),
        "missing and damaged, a reference": named(broken, reference="back"),
        "no camera of a clip can be read": named(
            lambda folder: [file.write_text("no video") for file in (folder / "b").iterdir()]
        ),
        "a clip is gone": named(lambda folder: shutil.rmtree(folder / "b"), lambda before: before),
        "later frames do not count": named(
            with_cameras(**BEFORE), sync="previous", on_missing="mask"
        ),
        "other lengths": named(LENGTHS),
        "the first is missing, another ends early": named(missing_and_early),
        "an index that disagrees": named(layout=other_length),
        "a frame rate of its own, by index": named(with_cameras(**OWN_RATE)),
        "ends early, by time": named(with_cameras(**EARLY), **MASKED),
        "a reference by name": named(with_cameras(a_back={"num_frames": 4}), reference="front"),
        "a clock": named(sync="nearest", clocks={"left": CameraClock(offset_seconds=1.0)}),
    }
    lines = (f"{what}: {said}\n" for what, all_said in found.items() for said in all_said)
    holds("problems.txt", "".join(lines).replace(str(tmp_path), "<folder>"))


def test_whole_files_have_no_problem(named, whole, store):
    assert named() == named(sync="nearest", tolerance_ms=1) == []
    by_time = partial(named, with_cameras(**OWN_RATE))
    assert by_time(sync="nearest") == by_time(sync="previous") == []
    done = []
    layout = layout_of(whole, store)
    assert list(camera_problems(layout, index_store=store, on_progress=done.append)) == []
    assert done == [1, 2, 3]


def test_invalid_alignments_are_refused(whole, store, refused):
    refused("problems_refused", layout=layout_of(whole, store))

"""Alignment by index or by time, and `camera_problems`, which names problems with their fixes."""

import shutil
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import torch

from headrace import Alignment, CameraClock, CameraLayout, OpenError, camera_problems, open_index
from headrace.loaders.cameras.camera_set import CameraSet
from headrace.sampling.moments import MISSING
from headrace.testing.synth_clip import Timing
from loaders.cameras.clips import CAMERAS, at_rate, replace_camera, write_cameras

pytestmark = pytest.mark.filterwarnings("ignore::headrace.errors.SkippedVideosWarning")

TWENTIETH = Fraction(1, 20)
GAP = Timing(durations_seconds=(*[TWENTIETH] * 9, Fraction(9, 20), *[TWENTIETH] * 3))


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    """One second at 20 frames/s, at 30, and at 20 with a gap of 0.4 s after frame 9."""
    cameras = {
        "0_reference": at_rate(20),
        "1_faster": at_rate(30),
        "2_gap": {"num_frames": 12, "timing": GAP},
    }
    return write_cameras(tmp_path_factory.mktemp("rates"), {"clip": cameras}, 20)


@pytest.fixture
def opened(layout, store):
    """Return a function of an alignment: the aligned single clip of the layout."""

    def of_clip(**options):
        [clip] = CameraSet.open(layout, Alignment(**options), index_store=store).clips
        return clip

    return of_clip


def test_by_time_each_camera_shows_its_nearest_frame_or_the_latest_that_was_there(opened):
    clip = opened(sync="nearest", tolerance_ms=20, on_missing="mask")
    assert clip.frames[:, 0].tolist() == list(range(20))
    assert clip.frames[:6, 1].tolist() == [0, 1, 3, 4, 6, 7]
    assert clip.frames[:, 2].tolist() == [*range(10), *[MISSING] * 8, 10, 11]
    clip = opened(sync="previous", tolerance_ms=40, on_missing="mask")
    assert clip.frames[:6, 1].tolist() == [0, 1, 3, 4, 6, 7]
    late = opened(sync="previous", tolerance_ms=100, on_missing="mask")
    assert late.frames[9:14, 2].tolist() == [9, 9, 9, MISSING, MISSING]


def test_moments_without_a_frame_are_dropped_or_repeated(opened):
    options = {"sync": "nearest", "tolerance_ms": 20}
    dropped = opened(on_missing="drop", **options)
    assert dropped.moments.tolist() == [*range(10), 18, 19]
    assert dropped.is_own.all()
    assert dropped.dropped == 8
    repeated = opened(on_missing="repeat", **options)
    assert repeated.frames[:, 2].tolist() == [*range(10), *[9] * 8, 10, 11]
    assert np.flatnonzero(~repeated.is_own[:, 2]).tolist() == list(range(10, 18))


def test_moments_of_a_clip_that_is_left_out_whole_are_counted_too(tmp_path, cameras):
    clips = {
        clip: {"0_first": {"num_frames": 6}, "1_late": {"num_frames": 6, "timing": timing}}
        for clip, timing in {"late": Timing(start_seconds=Fraction(5)), "whole": Timing()}.items()
    }
    alignment = Alignment(sync="nearest", tolerance_ms=20, on_missing="drop")
    loader = cameras(write_cameras(tmp_path, clips, 6), group_num=1, alignment=alignment)
    assert sum(int((batch.clip >= 0).sum()) for batch in loader) == 6
    assert loader.statistics.moments_dropped == 6
    assert loader.statistics.clips_skipped == 1


def test_clocks_take_out_offset_and_drift(opened):
    """The faster camera's clock is 1.5 times too slow and 0.1 s behind."""
    clocks = {"1_faster": CameraClock(offset_seconds=0.1, rate=1.5)}
    clip = opened(sync="nearest", tolerance_ms=5, on_missing="mask", clocks=clocks)
    assert clip.frames[:5, 1].tolist() == [MISSING, MISSING, 0, 1, 2]
    assert clip.seconds[1][:3] == pytest.approx([0.1, 0.15, 0.2])


def test_a_batch_says_how_far_apart_its_frames_are(layout, cameras):
    alignment = Alignment(sync="nearest", tolerance_ms=20, on_missing="mask")
    loader = cameras(layout, group_num=1, alignment=alignment)
    batches = list(loader)
    assert [batch.index.item() for batch in batches] == list(range(20))
    errors, times = (
        torch.cat([batch[name] for batch in batches]).numpy()
        for name in ("error_ms", "pts_seconds")
    )
    assert not errors[:, 0].any()
    assert np.nanmax(np.abs(errors[:, 1])) == pytest.approx(1000 / 60, abs=0.1)
    assert np.isnan(errors[10:18, 2]).all()
    assert loader.statistics.frames_missing == 8
    assert times[:, 0] == pytest.approx(np.arange(20) / 20)
    assert errors[:, 1] == pytest.approx((times[:, 1] - times[:, 0]) * 1000)


@pytest.fixture
def copied(layout, tmp_path):
    """The same clip to remove cameras from, and a complete one after it."""
    [clip] = layout.clips
    for name in ("a", "b"):
        shutil.copytree(clip.folder, tmp_path / name)
    return CameraLayout.of_folders([tmp_path], lambda file: 20)


MASKED = Alignment(sync="nearest", tolerance_ms=60, on_missing="mask")


def test_a_camera_that_a_clip_lacks_is_masked_named_and_delivered_black(copied, store, cameras):
    gone = copied.clips[0].file("1_faster")
    gone.unlink()
    opened = CameraSet.open(copied, MASKED, index_store=store)
    lacks, complete = opened.clips
    assert (lacks.frames[:, 1] == MISSING).all()
    assert not lacks.is_own[:, 1].any()
    assert (lacks.frames[:, ::2] == complete.frames[:, ::2]).all()
    assert (complete.frames[:, 1] != MISSING).all()
    assert opened.lacking == lacks.lacking == (gone,)
    loader = cameras(copied, alignment=MASKED)
    batches = list(loader)
    assert len(batches) == 20
    for batch in batches:
        assert batch.valid[:, 1].tolist() == [False, True]
        assert batch.valid[:, 0].all()
        assert not batch.frames[0, 1].any()
        assert batch.frames[1, 1].any()
        assert batch.pts_seconds[0, 1].isnan()
    assert loader.statistics.frames_missing == 20 + 2 * 6  # the gap of the third camera, twice
    assert loader.statistics.frames_lost == loader.statistics.clips_skipped == 0


def test_a_first_camera_that_is_missing_is_masked_too(copied, store, cameras):
    gone = copied.clips[0].file("0_reference")
    gone.unlink()
    opened = CameraSet.open(copied, MASKED, index_store=store)
    lacks, complete = opened.clips
    assert opened.lacking == lacks.lacking == (gone,)
    assert (len(lacks), len(complete)) == (30, 20)
    assert (lacks.frames[:, 0] == MISSING).all()
    assert lacks.frames[:, 1].tolist() == lacks.moments.tolist() == list(range(30))
    assert lacks.moment_seconds == pytest.approx(np.arange(30) / 30)
    batches = list(cameras(copied, alignment=MASKED))
    assert len(batches) == 30
    for moment, batch in enumerate(batches):
        [position] = (batch.clip == 0).nonzero().flatten().tolist()
        assert batch.index[position] == moment
        assert batch.valid[position].tolist()[:2] == [False, True]
        assert not batch.frames[position, 0].any()
        assert batch.error_ms[position, 1] == 0


def test_an_unreadable_camera_drops_its_clip_or_is_masked(copied, store):
    def opened(alignment):
        opened = CameraSet.open(copied, alignment, skip_bad=True, index_store=store)
        assert [clip.number for clip in opened.clips] == numbers
        return opened

    damaged, reference = (copied.clips[0].file(name) for name in ("1_faster", "0_reference"))
    damaged.write_text("no video")
    numbers = [0, 1]
    assert opened(MASKED).lacking == (damaged,)
    numbers = [1]
    assert len(opened(Alignment(sync="nearest", tolerance_ms=250)).skipped) == 1
    reference.unlink()  # its moments are unknown without it
    named = opened(replace(MASKED, reference="0_reference"))
    assert named.lacking == ()
    assert [error.source for error in named.skipped] == [str(reference)]
    shutil.rmtree(copied.clips[0].folder)
    opened(MASKED)


MASKING = {"tolerance_ms": 60, "on_missing": "mask"}


def test_clips_that_cannot_be_aligned_are_refused(copied, store, refused):
    clip = copied.clips[0]

    def lacking(camera, text=None, **alignment):
        file = clip.file(camera)
        held = file.read_bytes()
        file.unlink() if text is None else file.write_text(text)
        try:
            CameraSet.open(copied, Alignment(sync="nearest", **alignment), index_store=store)
        finally:
            file.write_bytes(held)

    refused("camera_set", lacking=lacking)
    shutil.rmtree(clip.folder)
    with pytest.raises(OpenError, match=r"a/0_reference\.mp4 is missing"):
        CameraSet.open(copied, MASKED, index_store=store)


def test_sets_that_lack_other_clips_of_one_length_differ(tmp_path, store):
    """Ranks that opened other files must notice."""
    layout = write_cameras(tmp_path, {clip: {"front": {"num_frames": 6}} for clip in "ab"}, 6)
    opened = []
    for clip in layout.clips:
        moved = clip.file("front").rename(tmp_path / "moved")
        opened.append(CameraSet.open(layout, skip_bad=True, index_store=store))
        moved.rename(clip.file("front"))
    first, second = opened
    assert first.sequences(1).tolist() == second.sequences(1).tolist()
    assert first.num_lost == second.num_lost == 1
    assert first.checksum != second.checksum


FAST, SLOW = (Fraction(rate) for rate in (60, 30))


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
        "ends early, by time": named(with_cameras(**EARLY), sync="nearest", on_missing="mask"),
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

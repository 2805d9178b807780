"""Cameras are aligned by index or by time: own frame rates, offsets, drift and gaps."""

import shutil
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from headrace.errors import ConfigError, DecodeError, OpenError
from headrace.sampling.alignment import MISSING
from headrace.testing.synth import SynthClip, write_clip
from headrace.testing.synth_clip import Timing
from headrace.training.cameras.alignment import Alignment, CameraClock
from headrace.training.cameras.camera_set import CameraSet
from headrace.training.cameras.loader import CameraLoader
from headrace.training.cameras.moment_table import MomentTable
from headrace.video.camera_layout import CameraLayout

pytestmark = pytest.mark.filterwarnings("ignore::headrace.errors.LeftOutWarning")

SIZE = (32, 48)


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    """A second at 20 frames/s; the same at 30; at 20 with a gap of 0.4 s after frame 9."""
    folder = tmp_path_factory.mktemp("rates") / "clip"
    folder.mkdir()
    steps = (*[Fraction(1, 20)] * 9, Fraction(9, 20), *[Fraction(1, 20)] * 3)
    for camera, clip in {
        "0_reference": SynthClip(num_frames=20, frame_rate=Fraction(20), size=(64, 96)),
        "1_faster": SynthClip(num_frames=30, frame_rate=Fraction(30), size=(64, 96)),
        "2_gap": SynthClip(num_frames=12, timing=Timing(durations_seconds=steps), size=(64, 96)),
    }.items():
        write_clip(folder / camera, clip)
    return CameraLayout.of_folders([folder.parent], lambda file: 20)


def opened(layout, store, **options):
    [clip] = CameraSet.open(layout, Alignment(**options), store=store).clips
    return clip


def test_by_time_each_camera_shows_its_nearest_frame(layout, store):
    clip = opened(layout, store, sync="nearest", tolerance_ms=20, on_missing="mask")
    assert clip.frames[:, 0].tolist() == list(range(20))
    assert clip.frames[:6, 1].tolist() == [0, 1, 3, 4, 6, 7]
    assert clip.frames[:, 2].tolist() == [*range(10), *[MISSING] * 8, 10, 11]


def test_by_time_the_latest_frame_that_was_there(layout, store):
    clip = opened(layout, store, sync="previous", tolerance_ms=40, on_missing="mask")
    assert clip.frames[:6, 1].tolist() == [0, 1, 3, 4, 6, 7]
    late = opened(layout, store, sync="previous", tolerance_ms=100, on_missing="mask")
    assert late.frames[9:14, 2].tolist() == [9, 9, 9, MISSING, MISSING]


def test_moments_without_a_frame_are_dropped_or_repeated(layout, store):
    options = {"sync": "nearest", "tolerance_ms": 20}
    dropped = opened(layout, store, on_missing="drop", **options)
    assert dropped.moments.tolist() == [*range(10), 18, 19]
    assert dropped.is_own.all()
    assert dropped.dropped == 8
    repeated = opened(layout, store, on_missing="repeat", **options)
    assert repeated.frames[:, 2].tolist() == [*range(10), *[9] * 8, 10, 11]
    assert np.flatnonzero(~repeated.is_own[:, 2]).tolist() == list(range(10, 18))


def test_moments_of_a_clip_that_is_left_out_whole_are_counted_too(tmp_path, store):
    late = {"0_first": Timing(), "1_late": Timing(start_seconds=Fraction(5))}
    for clip, timings in {"late": late, "whole": dict.fromkeys(late, Timing())}.items():
        (tmp_path / clip).mkdir()
        for camera, timing in timings.items():
            synthetic = SynthClip(num_frames=6, timing=timing, size=(64, 96))
            write_clip(tmp_path / clip / camera, synthetic)
    layout = CameraLayout.of_folders([tmp_path], lambda file: 6)
    options = {"alignment": Alignment(sync="nearest", tolerance_ms=20, on_missing="drop")}
    with CameraLoader(layout, group_num=1, size=SIZE, store=store, **options) as loader:
        assert sum(int((batch.clip >= 0).sum()) for batch in loader) == 6
        assert loader.statistics.moments_dropped == 6
        assert loader.statistics.clips_left_out == 1


def test_a_moment_without_a_frame_is_named(layout, store):
    with pytest.raises(DecodeError) as said:
        opened(layout, store, sync="nearest", tolerance_ms=20)
    assert "2_gap.mp4 has no frame for 8 of 20 moments, the first is frame 10" in str(said.value)
    assert "nearest frame is 50.0 ms away, 20 are tolerated" in str(said.value)


def test_clocks_take_out_offset_and_drift(layout, store):
    """The faster camera's clock is 1.5 times too slow and 0.1 s behind."""
    clock = CameraClock(offset_seconds=0.1, rate=1.5)
    clip = opened(
        layout,
        store,
        sync="nearest",
        tolerance_ms=5,
        on_missing="mask",
        clocks={"1_faster": clock},
    )
    assert clip.frames[:5, 1].tolist() == [MISSING, MISSING, 0, 1, 2]
    assert clip.seconds[1][:3] == pytest.approx([0.1, 0.15, 0.2])


def test_a_batch_says_how_far_apart_its_frames_are(layout, store):
    alignment = Alignment(sync="nearest", tolerance_ms=20, on_missing="mask")
    with CameraLoader(
        layout, group_num=1, size=SIZE, alignment=alignment, store=store, workers=2
    ) as loader:
        batches = list(loader)
        statistics = loader.statistics
    assert [batch.index.item() for batch in batches] == list(range(20))
    errors = np.concatenate([batch.error_ms.numpy() for batch in batches])
    assert not errors[:, 0].any()
    assert np.nanmax(np.abs(errors[:, 1])) == pytest.approx(1000 / 60, abs=0.1)
    assert np.isnan(errors[10:18, 2]).all()
    assert statistics.frames_missing == 8
    times = np.concatenate([batch.pts_seconds.numpy() for batch in batches])
    assert times[:, 0] == pytest.approx(np.arange(20) / 20)
    assert errors[:, 1] == pytest.approx((times[:, 1] - times[:, 0]) * 1000)


def test_a_slower_camera_shows_a_frame_twice_and_decodes_it_once(layout, store):
    cameras = ("1_faster", "0_reference")
    turned = CameraLayout(
        clips=tuple(
            type(clip)(video_dir=clip.video_dir, name=clip.name, num_frames=30)
            for clip in layout.clips
        ),
        cameras=cameras,
    )
    with CameraLoader(
        turned,
        group_num=1,
        size=SIZE,
        alignment=Alignment(sync="nearest", tolerance_ms=30),
        store=store,
        workers=2,
    ) as loader:
        delivered = len(list(loader)) * 2
        assert loader.statistics.frames_delivered == delivered == 60
        assert loader.statistics.frames_decoded == 50


@pytest.mark.parametrize(
    "wrong",
    [
        {"rate": 0.0},
        {"rate": -1.0},
        {"offset_seconds": float("nan")},
        {"rate": "1"},
        {"offset_seconds": None},
    ],
)
def test_a_clock_that_stands_still_is_refused(wrong):
    with pytest.raises(ConfigError, match="a finite offset and a rate above 0"):
        CameraClock(**wrong)


@pytest.mark.parametrize("wrong", [["left"], {"left": 0.12}, "left"])
def test_clocks_that_are_none_are_refused(wrong):
    with pytest.raises(ConfigError, match=r"clocks must be by name of the camera, such as .*, got"):
        Alignment(sync="nearest", clocks=wrong)


@pytest.mark.parametrize("wrong", ["50", None, float("nan"), True, -1])
def test_a_tolerance_that_is_no_span_is_refused(wrong):
    with pytest.raises(ConfigError, match=r"tolerance_ms must be a number >= 0, got"):
        Alignment(sync="nearest", tolerance_ms=wrong)
    with pytest.raises(ConfigError, match=r"tolerance_ms must be a number >= 0, got"):
        MomentTable.of_rows([{"clip": "a", "frame": 0}], tolerance_ms=wrong)


def test_no_clip_left_is_an_error(layout, store):
    with pytest.raises(ConfigError, match=r"no clip of 1 .*: none of its 20 moments"):
        opened(
            layout,
            store,
            sync="nearest",
            on_missing="drop",
            clocks={"1_faster": CameraClock(offset_seconds=100)},
        )


@pytest.fixture
def copied(layout, tmp_path):
    """The same clip, and a whole one behind it, to take cameras from."""
    [clip] = layout.clips
    for name in ("a", "b"):
        shutil.copytree(clip.folder, tmp_path / name)
    return CameraLayout.of_folders([tmp_path], lambda file: 20)


MASKED = Alignment(sync="nearest", tolerance_ms=60, on_missing="mask")


def test_a_camera_that_a_clip_lacks_is_masked_and_named(copied, store):
    gone = copied.clips[0].file("1_faster")
    gone.unlink()
    found = CameraSet.open(copied, MASKED, store=store)
    lacks, whole = found.clips
    assert (lacks.frames[:, 1] == MISSING).all()
    assert not lacks.is_own[:, 1].any()
    assert (lacks.frames[:, ::2] == whole.frames[:, ::2]).all()
    assert (whole.frames[:, 1] != MISSING).all()
    assert found.lacking == lacks.lacking == (gone,)


def test_a_camera_that_a_clip_lacks_is_delivered_black(copied, store):
    copied.clips[0].file("1_faster").unlink()
    with CameraLoader(
        copied, group_num=2, size=SIZE, alignment=MASKED, store=store, workers=2
    ) as loader:
        batches = list(loader)
        statistics = loader.statistics
    assert len(batches) == 20
    for batch in batches:
        assert batch.valid[:, 1].tolist() == [False, True]
        assert batch.valid[:, 0].all()
        assert not batch.frames[0, 1].any()
        assert batch.frames[1, 1].any()
        assert batch.pts_seconds[0, 1].isnan()
    assert statistics.frames_missing == 20 + 2 * 6  # and the gap of the third camera, twice
    assert statistics.frames_lost == statistics.clips_left_out == 0


@pytest.mark.parametrize("on_missing", ["raise", "drop", "repeat"])
def test_a_camera_that_a_clip_lacks_is_an_error_unless_masked(copied, store, on_missing):
    copied.clips[0].file("1_faster").unlink()
    alignment = Alignment(sync="nearest", tolerance_ms=250, on_missing=on_missing)
    with pytest.raises(OpenError, match=r"a/1_faster\.mp4"):
        CameraSet.open(copied, alignment, store=store)


def test_a_first_camera_that_is_missing_is_masked_too(copied, store):
    gone = copied.clips[0].file("0_reference")
    gone.unlink()
    found = CameraSet.open(copied, MASKED, store=store)
    lacks, whole = found.clips
    assert found.lacking == lacks.lacking == (gone,)
    assert (len(lacks), len(whole)) == (30, 20)
    assert (lacks.frames[:, 0] == MISSING).all()
    assert lacks.frames[:, 1].tolist() == lacks.moments.tolist() == list(range(30))
    assert lacks.moment_seconds == pytest.approx(np.arange(30) / 30)
    with CameraLoader(
        copied, group_num=2, size=SIZE, alignment=MASKED, store=store, workers=2
    ) as loader:
        batches = list(loader)
    assert len(batches) == 30
    for moment, batch in enumerate(batches):
        [place] = (batch.clip == 0).nonzero().flatten().tolist()
        assert batch.index[place] == moment
        assert batch.valid[place].tolist()[:2] == [False, True]
        assert not batch.frames[place, 0].any()
        assert batch.error_ms[place, 1] == 0


def test_a_reference_that_is_missing_leaves_out_its_clip(copied, store):
    """Nobody knows its moments."""
    copied.clips[0].file("0_reference").unlink()
    named = replace(MASKED, reference="0_reference")
    with pytest.raises(OpenError, match=r"a/0_reference\.mp4 is missing; add it, or .*on_error"):
        CameraSet.open(copied, named, store=store)
    found = CameraSet.open(copied, named, skip_bad=True, store=store)
    assert ([clip.number for clip in found.clips], found.lacking) == ([1], ())
    assert [error.source for error in found.left_out] == [str(copied.clips[0].file("0_reference"))]


def test_a_clip_without_any_camera_is_left_out(copied, store):
    shutil.rmtree(copied.clips[0].folder)
    with pytest.raises(OpenError, match=r"a/0_reference\.mp4 is missing"):
        CameraSet.open(copied, MASKED, store=store)
    found = CameraSet.open(copied, MASKED, skip_bad=True, store=store)
    assert [clip.number for clip in found.clips] == [1]


def test_a_damaged_camera_is_masked_only_where_bad_media_may_be_skipped_too(copied, store):
    damaged = copied.clips[0].file("1_faster")
    damaged.write_text("no video")
    with pytest.raises(OpenError, match=r"a/1_faster\.mp4"):
        CameraSet.open(copied, MASKED, store=store)
    found = CameraSet.open(copied, MASKED, skip_bad=True, store=store)
    assert ([clip.number for clip in found.clips], found.lacking) == ([0, 1], (damaged,))
    strict = Alignment(sync="nearest", tolerance_ms=250)
    assert len(CameraSet.open(copied, strict, skip_bad=True, store=store).left_out) == 1


def test_a_camera_that_is_missing_is_named_with_what_to_do(layout, tmp_path, store):
    folder = shutil.copytree(layout.clips[0].video_dir, tmp_path / "copy")
    (folder / "clip" / "2_gap.mp4").unlink()
    copied = CameraLayout.of_folders([folder], lambda file: 20, layout.cameras[:2])
    lacking = replace(copied, cameras=layout.cameras)
    with pytest.raises(
        OpenError, match=r"2_gap\.mp4 is missing; add it, or choose on_missing='mask'"
    ):
        CameraSet.open(lacking, Alignment(sync="nearest"), store=store)


def test_sets_that_lack_other_clips_of_one_length_differ(tmp_path, store):
    """So that ranks which opened other files find out."""
    for clip in ("a", "b"):
        (tmp_path / clip).mkdir()
        write_clip(tmp_path / clip / "front", SynthClip(num_frames=6, size=(64, 96)))
    layout = CameraLayout.of_folders([tmp_path], lambda file: 6)
    found = []
    for clip in layout.clips:
        file = clip.file("front")
        bytes_of_file = file.read_bytes()
        file.unlink()
        found.append(CameraSet.open(layout, skip_bad=True, store=store))
        file.write_bytes(bytes_of_file)
    first, second = found
    assert first.sequences(1).tolist() == second.sequences(1).tolist()
    assert first.num_lost == second.num_lost == 1
    assert first.checksum != second.checksum

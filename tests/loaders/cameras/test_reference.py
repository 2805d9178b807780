"""The reference defines the moments: a named camera, the longest, or the first."""

import shutil
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from headrace import Alignment, CameraLayout, ConfigError, Moments, open_index
from headrace.loaders.cameras.camera_set import CameraSet
from headrace.sampling.moments import MISSING
from loaders.cameras.clips import PlainCameras, at_rate, write_cameras

FRONT, BACK = 24, 15


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """CAM_FRONT, the second by name, has 24 frames, CAM_BACK 15. Another clip is even."""
    folder = tmp_path_factory.mktemp("unequal") / "videos"
    rate = {"frame_rate": Fraction(12)}
    clips = {
        clip: {"CAM_BACK": {"num_frames": back, **rate}, "CAM_FRONT": {"num_frames": front, **rate}}
        for clip, back, front in (("a", BACK, FRONT), ("b", 9, 9))
    }
    write_cameras(folder, clips, FRONT)
    return folder


@pytest.fixture
def index_file(folder, store, tmp_path):
    """Return a function: the path of an index file with a number of frames of the first clip."""
    videos = shutil.copytree(folder, tmp_path / "videos")

    def written(frames=None):
        layout = CameraLayout.of_folders([videos], lambda file: len(open_index(file, store)))
        a, b = layout.clips
        assert a.num_frames == FRONT
        path = tmp_path / "index.json"
        replace(layout, clips=(replace(a, num_frames=frames or FRONT), b)).write(path)
        return path

    return written


@pytest.mark.parametrize("frames", [BACK, FRONT])
@pytest.mark.parametrize("cameras", [None, ["CAM_FRONT"], ["CAM_BACK"], ["CAM_FRONT", "CAM_BACK"]])
def test_an_index_of_either_length_is_read_with_any_cameras(index_file, store, frames, cameras):
    layout = CameraLayout.read(index_file(frames), cameras)
    opened = CameraSet.open(layout, Alignment(on_missing="mask"), index_store=store)
    longest = BACK if cameras == ["CAM_BACK"] else FRONT
    assert list(map(len, opened.clips)) == [longest, 9]
    with pytest.raises(ConfigError, match="the index file says 16 frames"):
        CameraSet.open(CameraLayout.read(index_file(16), cameras), index_store=store)


@pytest.mark.parametrize(
    ("on_missing", "beyond", "length"),
    [("mask", MISSING, FRONT), ("repeat", BACK - 1, FRONT), ("drop", None, BACK)],
)
def test_moments_after_the_end_of_a_short_camera_are_masked_or_dropped(
    index_file, cameras, on_missing, beyond, length
):
    """Batches are freed, so that their memory is reused."""
    layout, moments = CameraLayout.read(index_file()), []
    plain, alignment = PlainCameras(layout), Alignment(on_missing=on_missing)
    loader = cameras(layout, group_num=1, lookahead=1, alignment=alignment)
    for batch in loader:
        plain.check(batch)
        if batch.clip == 0:
            moments.append(moment := batch.index.item())
            is_own = moment < BACK
            assert batch.valid.tolist() == [[is_own, True]]
            assert batch.frame.tolist() == [[moment if is_own else beyond, moment]]
            assert batch.error_ms[0, 1] == 0
        del batch
    assert moments == list(range(length))
    counted, dropped = loader.statistics, FRONT - length
    assert (counted.frames_surplus, counted.moments_dropped) == (0, dropped)
    assert counted.frames_missing == FRONT - BACK - dropped


@pytest.mark.parametrize(
    ("reference", "length", "surplus"),
    [("CAM_FRONT", FRONT, 0), ("CAM_BACK", BACK, FRONT - BACK), ("longest", FRONT, 0)],
)
def test_the_reference_determines_the_moments(index_file, store, reference, length, surplus):
    layout = CameraLayout.read(index_file())
    alignment = Alignment(on_missing="mask", reference=reference)
    [a, _] = CameraSet.open(layout, alignment, index_store=store).clips
    assert a.moments.tolist() == list(range(length))
    assert a.moment_seconds == pytest.approx(np.arange(length) / 12)
    assert a.frames[:BACK].tolist() == [[k, k] for k in range(BACK)]
    assert a.frames[BACK:].tolist() == [[MISSING, k] for k in range(BACK, length)]
    assert a.surplus == surplus


@pytest.fixture(scope="module")
def rates(tmp_path_factory):
    """One second of a slow camera, and of another, three times as fast."""
    cameras = {"0_slow": at_rate(10), "1_fast": at_rate(30)}
    return write_cameras(tmp_path_factory.mktemp("rates"), {"clip": cameras}, 10)


@pytest.mark.parametrize("reference", ["1_fast", "longest"])
@pytest.mark.parametrize("workers", [0, 2])
def test_by_time_other_cameras_are_aligned_to_the_reference(
    rates, cameras, by_stock, reference, workers
):
    """A loader, and a stock DataLoader with workers, show a slow frame three times, none lost."""
    options = {"alignment": Alignment(sync="nearest", tolerance_ms=70, reference=reference)}
    if workers:
        batches = [batch for batch in by_stock(rates, 2, **options)[1] if batch["clip"] >= 0]
    else:
        loader = cameras(rates, group_num=1, **options)
        batches = list(loader)
        assert loader.statistics.frames_decoded == 40
    plain = PlainCameras(rates)
    for moment, batch in enumerate(batches):
        plain.check(batch)
        slow = min((moment + 1) // 3, 9)
        assert batch["index"].item() == moment
        assert batch["frame"].tolist() == [[slow, moment]]
        assert batch["error_ms"][0].tolist() == pytest.approx([slow * 100 - moment / 0.03, 0])
    assert len(batches) == 30


@pytest.mark.parametrize("moments", [Moments.every(6), Moments.rate(2.0), Moments.frames([0, 6])])
def test_only_moments_that_are_asked_for_come_with_their_pixels(
    index_file, store, cameras, by_stock, moments
):
    layout = CameraLayout.read(index_file())
    alignment = Alignment(on_missing="mask")
    plain = PlainCameras(layout)
    opened = CameraSet.open(layout, alignment, index_store=store)
    chosen = [moments.of("", clip.moment_seconds).tolist() for clip in opened.clips]
    expected = [(clip, moment) for clip in (0, 1) for moment in chosen[clip]]
    batches = list(cameras(layout, group_num=1, alignment=alignment, moments=moments))
    batches += by_stock(layout, alignment=alignment, moments=moments)[1]
    assert [(item["clip"].item(), item["index"].item()) for item in batches] == expected * 2
    for batch in batches:
        plain.check(batch)
        moment = batch["index"].item()
        assert all(frame in (moment, MISSING) for frame in batch["frame"][0].tolist())
        assert batch["valid"].tolist() == (batch["frame"] >= 0).tolist()
        assert batch["first_frame"].item() == (moment == 0)


def test_invalid_references_and_moments_are_refused(index_file, store, refused):
    layout = CameraLayout.read(index_file())
    [clip] = CameraSet.open(layout, moments=Moments.frames({"b": [2, 5]}), index_store=store).clips
    assert (clip.number, clip.moments.tolist()) == (1, [2, 5])

    def opened(layout, moments=None, **alignment):
        CameraSet.open(layout, Alignment(**alignment), moments=moments, index_store=store)

    refused("reference", layout=layout, opened=opened)

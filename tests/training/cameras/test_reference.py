"""The reference says what a moment is: by name, the longest camera, or the first there is."""

import shutil
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from torch.utils.data import DataLoader

from headrace.decode.open import open_index
from headrace.errors import ConfigError, DecodeError
from headrace.sampling.alignment import MISSING
from headrace.sampling.moments import Moments
from headrace.testing.synth import SynthClip, write_clip
from headrace.training.cameras.alignment import Alignment
from headrace.training.cameras.camera_set import CameraSet
from headrace.training.cameras.datasets import CameraStreamDataset
from headrace.training.cameras.loader import CameraLoader
from headrace.training.cameras.stream_sampler import CameraStreamSampler
from headrace.video.camera_layout import CameraLayout
from training.cameras.clips import PlainCameras

SIZE = (32, 48)
FRONT, BACK = 24, 15


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """CAM_FRONT, of 24 frames, is not the first by name; CAM_BACK has 15. Another clip is even."""
    folder = tmp_path_factory.mktemp("unequal") / "videos"
    for clip, frames in {"a": (BACK, FRONT), "b": (9, 9)}.items():
        (folder / clip).mkdir(parents=True)
        for camera, count in zip(("CAM_BACK", "CAM_FRONT"), frames, strict=True):
            synthetic = SynthClip(num_frames=count, frame_rate=Fraction(12), size=(64, 96))
            write_clip(folder / clip / camera, synthetic)
    return folder


@pytest.fixture
def index_file(folder, store, tmp_path):
    """Return a function: the path of an index file that says so many frames of the first clip."""
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
    found = CameraSet.open(layout, Alignment(on_missing="mask"), store=store)
    most = BACK if cameras == ["CAM_BACK"] else FRONT
    assert list(map(len, found.clips)) == [most, 9]
    with pytest.raises(ConfigError, match="the index file says 16 frames"):
        CameraSet.open(CameraLayout.read(index_file(16), cameras), store=store)


@pytest.mark.parametrize("on_missing", ["mask", "repeat"])
def test_what_lies_beyond_a_short_camera_is_delivered_and_marked(index_file, store, on_missing):
    layout = CameraLayout.read(index_file())
    plain = PlainCameras(layout)
    alignment = Alignment(on_missing=on_missing)
    with CameraLoader(
        layout, group_num=1, size=SIZE, alignment=alignment, store=store, workers=2
    ) as loader:
        batches = [batch for batch in loader if batch.clip == 0]
        assert loader.statistics.frames_surplus == loader.statistics.moments_dropped == 0
        assert loader.statistics.frames_missing == FRONT - BACK
    assert [batch.index.item() for batch in batches] == list(range(FRONT))
    for moment, batch in enumerate(batches):
        assert batch.valid.tolist() == [[moment < BACK, True]]
        assert np.array_equal(batch.frames[0, 1], plain.of(0, 1, moment))
        if moment < BACK or on_missing == "repeat":
            shown = plain.of(0, 0, min(moment, BACK - 1))
            assert np.array_equal(batch.frames[0, 0], shown)
        else:
            assert not batch.frames[0, 0].any()
        assert batch.error_ms[0, 1] == 0


def test_moments_that_are_dropped_are_counted_and_no_longer_lost(index_file, store):
    layout = CameraLayout.read(index_file())
    found = CameraSet.open(layout, Alignment(on_missing="drop"), store=store)
    assert list(map(len, found.clips)) == [BACK, 9]
    assert found.moments_dropped == FRONT - BACK
    assert not any(clip.surplus for clip in found.clips)


@pytest.mark.parametrize("reference", ["CAM_FRONT", "CAM_BACK", "longest", None])
def test_another_number_of_frames_is_an_error_unless_it_may_be(index_file, store, reference):
    layout = CameraLayout.read(index_file())
    with pytest.raises(DecodeError, match=r"choose on_missing='drop', 'mask' or 'repeat'"):
        CameraSet.open(layout, Alignment(reference=reference), store=store)


@pytest.mark.parametrize(
    ("reference", "length", "surplus"),
    [("CAM_FRONT", FRONT, 0), ("CAM_BACK", BACK, FRONT - BACK), ("longest", FRONT, 0)],
)
def test_the_reference_says_what_moments_there_are(index_file, store, reference, length, surplus):
    layout = CameraLayout.read(index_file())
    alignment = Alignment(on_missing="mask", reference=reference)
    [a, _] = CameraSet.open(layout, alignment, store=store).clips
    assert a.moments.tolist() == list(range(length))
    assert a.moment_seconds == pytest.approx(np.arange(length) / 12)
    assert a.frames[:BACK].tolist() == [[k, k] for k in range(BACK)]
    assert a.frames[BACK:].tolist() == [[MISSING, k] for k in range(BACK, length)]
    assert a.surplus == surplus


@pytest.fixture(scope="module")
def rates(tmp_path_factory):
    """A second of a slow camera andanother, three times as fast."""
    folder = tmp_path_factory.mktemp("rates")
    (folder / "clip").mkdir()
    for camera, rate in {"0_slow": 10, "1_fast": 30}.items():
        clip = SynthClip(num_frames=rate, frame_rate=Fraction(rate), size=(64, 96))
        write_clip(folder / "clip" / camera, clip)
    return CameraLayout.of_folders([folder], lambda file: 10)


@pytest.mark.parametrize("reference", ["1_fast", "longest"])
@pytest.mark.parametrize("workers", [0, 2])
def test_by_time_other_cameras_are_held_against_the_reference(rates, store, reference, workers):
    """A loader, and with workers a stock DataLoader, show a slow frame thrice, none lost."""
    alignment = Alignment(sync="nearest", tolerance_ms=70, reference=reference)
    options = {"size": SIZE, "alignment": alignment, "store": store}
    plain = PlainCameras(rates)
    if workers:
        with CameraStreamDataset(rates, **options) as dataset:
            sampler = CameraStreamSampler(dataset, group_num=1, num_workers=2, interleaved=True)
            batches = list(DataLoader(dataset, batch_sampler=sampler, num_workers=2))
        batches = [batch for batch in batches if batch["clip"] >= 0]
    else:
        with CameraLoader(rates, group_num=1, **options) as loader:
            batches = list(loader)
            assert loader.statistics.frames_decoded == 40
    assert [batch["index"].item() for batch in batches] == list(range(30))
    for moment, batch in enumerate(batches):
        slow = min((moment + 1) // 3, 9)
        assert np.array_equal(batch["frames"][0, 0], plain.of(0, 0, slow))
        assert np.array_equal(batch["frames"][0, 1], plain.of(0, 1, moment))
        assert batch["error_ms"][0].tolist() == pytest.approx([slow * 100 - moment / 0.03, 0])


@pytest.mark.parametrize("moments", [Moments.every(6), Moments.rate(2.0), Moments.frames([0, 6])])
def test_only_moments_that_are_asked_for_come_with_their_pixels(index_file, store, moments):
    layout = CameraLayout.read(index_file())
    options = {"alignment": Alignment(on_missing="mask"), "moments": moments, "size": SIZE}
    plain = PlainCameras(layout)
    expected = [
        (clip, moment)
        for clip, aligned in enumerate(
            CameraSet.open(layout, options["alignment"], store=store).clips
        )
        for moment in moments.of("", aligned.moment_seconds).tolist()
    ]
    with CameraLoader(layout, group_num=1, store=store, **options) as loader:
        batches = list(loader)
    with CameraStreamDataset(layout, store=store, **options) as dataset:
        batches += list(
            DataLoader(dataset, batch_sampler=CameraStreamSampler(dataset, group_num=1))
        )
    assert [(each["clip"].item(), each["index"].item()) for each in batches] == expected * 2
    for batch in batches:
        clip, moment = batch["clip"].item(), batch["index"].item()
        for camera in np.flatnonzero(batch["valid"][0]):
            shown = batch["frames"][0, camera]
            assert np.array_equal(shown, plain.of(clip, camera, moment))
        assert batch["first_frame"].item() == (moment == 0)


def test_clips_that_a_list_names_come_alone_and_others_are_refused(index_file, store):
    layout = CameraLayout.read(index_file())
    [clip] = CameraSet.open(layout, moments=Moments.frames({"b": [2, 5]}), store=store).clips
    assert (clip.number, clip.moments.tolist()) == (1, [2, 5])
    with pytest.raises(ConfigError, match=r"a clip that is not there, such as 'z'; .* like 'a'"):
        CameraSet.open(layout, moments=Moments.frames({"b": [2], "z": [5]}), store=store)
    far = Alignment(on_missing="drop")
    with pytest.raises(ConfigError, match=r"it has none of the moments that are asked for; look"):
        CameraSet.open(layout, far, moments=Moments.frames({"b": [999]}), store=store)
    with pytest.raises(ConfigError, match=r"moments must be of Moments, such as"):
        CameraSet.open(layout, moments=6, store=store)


@pytest.mark.parametrize("wrong", ["top", "LONGEST", ""])
def test_a_reference_that_is_not_read_is_refused(rates, store, wrong):
    with pytest.raises(ConfigError, match=r"reference must be one of the cameras .*, or longest"):
        CameraSet.open(rates, Alignment(reference=wrong), store=store)


def test_a_reference_that_is_no_name_is_refused():
    with pytest.raises(ConfigError, match=r"reference must be the name of a camera, .* got 3"):
        Alignment(reference=3)

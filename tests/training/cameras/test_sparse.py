"""Moments far apart: the frames of a dense stream, and none decoded that they do not need."""

from dataclasses import replace

import numpy as np
import psutil
import pytest
from torch.utils.data import DataLoader

from headrace.decode.index_store import IndexStore
from headrace.sampling.moments import Moments
from headrace.testing.damage import damage_packets
from headrace.testing.synth import SynthClip, write_clip
from headrace.training.cameras.datasets import CameraStreamDataset
from headrace.training.cameras.loader import CameraLoader
from headrace.training.cameras.stream_sampler import CameraStreamSampler
from headrace.video.camera_layout import CameraLayout

LENGTH, GOP, SIZE = 100, 10, (32, 48)
KINDS = {
    "hevc": {"codec": "hevc", "b_frames": 2},
    "open": {"b_frames": 2, "open_gop": True},
    "plain": {},
    "pyramid": {"b_frames": 3, "structure": "b_pyramid"},
    "refresh": {"structure": "intra_refresh"},
    "vp9": {"codec": "vp9", "container": "webm"},
}
SPARSE = {
    "every 25th": (Moments.every(25), range(0, LENGTH, 25)),
    "every 3rd": (Moments.every(3, first=1), range(1, LENGTH, 3)),
    "keyframes": (Moments.every(GOP), range(0, LENGTH, GOP)),
    "some": (Moments.frames([3, 4, 38, 39, 40, 97]), (3, 4, 38, 39, 40, 97)),
    "2 Hz": (Moments.rate(2.0), range(0, LENGTH, 15)),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cameras")
    (folder / "clip").mkdir()
    for name, options in KINDS.items():
        clip = SynthClip(num_frames=LENGTH, size=(64, 96), gop=GOP, **options)
        write_clip(folder / "clip" / name, clip)
    (folder / "damaged").mkdir()
    for path in (folder / "clip").iterdir():
        damage_packets(path, folder / "damaged" / path.name, ordinals=[23, 52])
    return folder


def layout_of(folder, clip, cameras=None) -> CameraLayout:
    layout = CameraLayout.of_folders([folder], lambda file: LENGTH, cameras)
    return replace(layout, clips=tuple(each for each in layout.clips if each.name == clip))


def shown(folder, clip, store, *, cameras=None, **options):
    """Return moment → (frames, valid), and what decoding cost."""
    layout = layout_of(folder, clip, cameras)
    with CameraLoader(layout, group_num=1, size=SIZE, store=store, **options) as loader:
        found = {
            int(batch.index[0]): (batch.frames[0].numpy().copy(), batch.valid[0].tolist())
            for batch in loader
        }
        return found, loader.statistics


@pytest.fixture(scope="module", params=["clip", "damaged"])
def dense(request, folder, tmp_path_factory):
    store = IndexStore(tmp_path_factory.mktemp("index"))
    found, _ = shown(folder, request.param, store, on_error="mask")
    return request.param, store, found


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("moments", SPARSE)
def test_they_are_those_of_the_dense_stream(folder, dense, moments, workers):
    clip, store, plain = dense
    asked, expected = SPARSE[moments]
    found, _ = shown(folder, clip, store, moments=asked, on_error="mask", workers=workers)
    assert list(found) == list(expected)
    for moment, (frames, valid) in found.items():
        assert valid == plain[moment][1]
        assert np.array_equal(frames, plain[moment][0])
    assert clip == "damaged" or all(all(valid) for _, valid in found.values())


@pytest.mark.parametrize(
    ("moments", "decoded"),
    [
        ("every 25th", 1 + 6 + 1 + 6),  # of the GOPs that begin with 0, 20, 50 and 70
        ("every 3rd", LENGTH - 2),  # every GOP has one that is wanted; the last one is 97
        ("keyframes", LENGTH // GOP),  # and nothing behind them
        ("some", 5 + 10 + 1 + 8),  # GOPs 0; 30 and 40; 90
        ("2 Hz", 1 + 6 + 1 + 6 + 1 + 6 + 1),
    ],
)
def test_no_gop_is_decoded_of_which_none_is_wanted(folder, store, moments, decoded):
    found, cost = shown(folder, "clip", store, cameras=["plain"], moments=SPARSE[moments][0])
    assert cost.frames_delivered == len(found)
    assert cost.frames_decoded == decoded


def in_stock_dataloader(folder, store, camera, **options):
    """Return moment → frames, and what decoding cost."""
    layout = layout_of(folder, "clip", [camera])
    with CameraStreamDataset(layout, num_of_set=1, size=SIZE, store=store, **options) as dataset:
        batches = DataLoader(dataset, batch_sampler=CameraStreamSampler(dataset, group_num=1))
        found = {int(batch["index"]): batch["frames"][0].numpy() for batch in batches}
        return found, dataset.counters


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("moments", SPARSE)
def test_a_stock_dataloader_gives_the_same_and_decodes_no_more(folder, store, kind, moments):
    """Of some few frames more: where entries are doubtful, it learns one frame later how far to
    go back."""
    dense, _ = in_stock_dataloader(folder, store, kind)
    asked, expected = SPARSE[moments]
    found, cost = in_stock_dataloader(folder, store, kind, moments=asked)
    assert list(found) == list(expected)
    assert all(np.array_equal(frames, dense[moment]) for moment, frames in found.items())
    _, least = shown(folder, "clip", store, cameras=[kind], moments=asked)
    assert cost.frames_decoded <= least.frames_decoded + (GOP if kind == "refresh" else 0)


def test_files_of_which_no_more_is_wanted_are_closed(folder, store):
    layout = layout_of(folder, "clip", ["plain"])
    asked = Moments.frames([0, 3])
    with CameraStreamDataset(layout, size=SIZE, store=store, moments=asked) as dataset:
        for cells in CameraStreamSampler(dataset, group_num=1):
            dataset[cells[0]]
            held = [each.path for each in psutil.Process().open_files()]
            assert (str(layout.clips[0].file("plain")) in held) == (cells[0].row == 0)

"""Moments far apart: the frames of a dense stream, and no other GOP decoded."""

from dataclasses import replace

import numpy as np
import pytest

from headrace import CameraLayout, CameraStreamSampler, Moments
from headrace.testing.damage import damage_packets
from loaders.cameras.clips import write_cameras
from loaders.videos import open_videos

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
    usual = {"num_frames": LENGTH, "gop": GOP}
    kinds = {name: {**usual, **options} for name, options in KINDS.items()}
    write_cameras(folder, {"clip": kinds}, LENGTH)
    (folder / "damaged").mkdir()
    for path in (folder / "clip").iterdir():
        damage_packets(path, folder / "damaged" / path.name, ordinals=[23, 52])
    return folder


def layout_of(folder, clip, cameras=None) -> CameraLayout:
    layout = CameraLayout.of_folders([folder], lambda file: LENGTH, cameras)
    return replace(layout, clips=tuple(each for each in layout.clips if each.name == clip))


@pytest.fixture
def shown(folder, opener):
    """Return a function: moment → (frames, valid), and the decode counters."""

    def of_clip(clip, names=None, **options):
        loader = opener("cameras", layout_of(folder, clip, names), group_num=1, **options)
        delivered = {
            int(batch.index[0]): (batch.frames[0].numpy().copy(), batch.valid[0].tolist())
            for batch in loader
        }
        return delivered, loader.statistics

    return of_clip


@pytest.mark.parametrize("clip", ["clip", "damaged"])
def test_they_are_those_of_the_dense_stream(shown, clip):
    plain, _ = shown(clip, on_error="mask")
    for chosen, expected in SPARSE.values():
        for workers in (1, 3):
            delivered, _ = shown(clip, moments=chosen, on_error="mask", num_threads=workers)
            assert list(delivered) == list(expected)
            for moment, (frames, valid) in delivered.items():
                assert valid == plain[moment][1]
                assert np.array_equal(frames, plain[moment][0])
            assert clip == "damaged" or all(all(valid) for _, valid in delivered.values())


@pytest.mark.parametrize(
    ("moments", "decoded"),
    [
        ("every 25th", 1 + 6 + 1 + 6),  # in the GOPs that start at 0, 20, 50 and 70
        ("every 3rd", LENGTH - 2),  # every GOP has a wanted frame; the last one is 97
        ("keyframes", LENGTH // GOP),  # and nothing after them
        ("some", 5 + 10 + 1 + 8),  # GOPs 0; 30 and 40; 90
        ("2 Hz", 1 + 6 + 1 + 6 + 1 + 6 + 1),
    ],
)
def test_no_gop_is_decoded_of_which_none_is_wanted(shown, moments, decoded):
    delivered, cost = shown("clip", ["plain"], moments=SPARSE[moments][0])
    assert cost.frames_delivered == len(delivered)
    assert cost.frames_decoded == decoded


@pytest.mark.parametrize("kind", KINDS)
def test_a_stock_dataloader_gives_the_same_and_decodes_no_more(folder, by_stock, shown, kind):
    """A few frames more: for a doubtful entry, it knows one frame later how far to go back."""

    def shown_by_stock(**options):
        items, batches = by_stock(layout_of(folder, "clip", [kind]), num_of_set=1, **options)
        delivered = {int(batch["index"]): batch["frames"][0].numpy() for batch in batches}
        return delivered, items.counters

    dense, _ = shown_by_stock()
    for chosen, expected in SPARSE.values():
        delivered, cost = shown_by_stock(moments=chosen)
        assert list(delivered) == list(expected)
        assert all(np.array_equal(frames, dense[moment]) for moment, frames in delivered.items())
        _, min_cost = shown("clip", [kind], moments=chosen)
        assert cost.frames_decoded <= min_cost.frames_decoded + (GOP if kind == "refresh" else 0)


def test_files_of_which_no_more_is_wanted_are_closed(folder, opener):
    layout = layout_of(folder, "clip", ["plain"])
    dataset = opener("camera items", layout, moments=Moments.frames([0, 3]))
    for cells in CameraStreamSampler(dataset, group_num=1):
        dataset[cells[0]]
        held = open_videos(folder / "clip")
        assert (str(layout.clips[0].file("plain")) in held) == (cells[0].row == 0)

"""CameraLoader: every frame exact, in order, decoded once; bad media is named or marked."""

import errno
import json
from collections import Counter
from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
import pytest
import torch

from headrace import (
    Alignment,
    CameraLayout,
    CameraStreamSampler,
    ConfigError,
    FrameFormat,
    MediaError,
    Moments,
    OpenError,
)
from headrace.decode.open_decoder import open_any_decoder
from headrace.loaders.cameras import camera_engine
from headrace.testing.damage import damage_packets
from loaders.cameras import clips as kit
from loaders.cameras.clips import CAMERAS, EVERY, LENGTHS, cells, replace_camera, write_cameras
from loaders.videos import KEPT, check_pictures, contents, open_videos, samples

pytestmark = pytest.mark.filterwarnings("ignore::headrace.errors.SkippedVideosWarning")


@pytest.mark.parametrize(
    ("num_ranks", "workers", "group_num"),
    [(ranks, 1 + 2 * ((ranks + slots) % 2), slots) for ranks in (1, 2, 4) for slots in (1, 2, 3)],
)
def test_every_frame_comes_once_in_order_decoded_once(
    cameras, plain_cameras, num_ranks, workers, group_num
):
    loaders = [
        cameras(rank=rank, num_replicas=num_ranks, num_threads=workers, group_num=group_num)
        for rank in range(num_ranks)
    ]
    batches = [list(loader) for loader in loaders]
    assert len({len(epoch) for epoch in batches}) == 1
    shown = [cell for rank in batches for cell in cells(rank)]
    assert sorted(cell[1:] for cell in shown) == sorted(EVERY)
    for slot in {slot for slot, *_ in shown}:
        slot_cells = [cell[1:] for cell in shown if cell[0] == slot]
        for (before, k), (after, next_k) in pairwise(slot_cells):
            assert (after, next_k) == (before, k + 1) or (after != before and next_k == 0)
    for batch in (batch for rank in batches for batch in rank):
        assert batch.frames.shape == (group_num, len(CAMERAS), 3, *kit.SIZE)
        assert torch.equal(batch.first_frame, batch.index == 0)
        is_there = (batch.clip >= 0)[:, None]
        assert (batch.valid == is_there).all()
        assert (batch.frame == torch.where(is_there, batch.index[:, None], -1)).all()
        plain_cameras.check(batch)
    statistics = [loader.statistics for loader in loaders]
    frames = len(EVERY) * len(CAMERAS)
    assert sum(rank.frames_delivered for rank in statistics) == frames
    assert sum(rank.frames_decoded for rank in statistics) == frames
    assert {rank.amplification for rank in statistics} == {1.0}
    assert sum(rank.opens for rank in statistics) == len(LENGTHS) * len(CAMERAS)


@pytest.mark.parametrize("tail", ["pad", "drop", "refill"])
def test_a_tail_is_padded_dropped_or_refilled_and_counted(cameras, tail):
    loader = cameras(tail=tail)
    first, second = list(loader), list(loader)
    assert len(first) == len(second) == len(cameras(tail=tail)) == len(loader)
    assert all((batch.clip >= 0).all() for batch in first) == (tail != "pad")
    shown = [cell[1:] for cell in cells(first)]
    assert (set(shown) == EVERY) == (tail != "drop")
    assert len(set(shown)) == len(shown) or tail == "refill"
    beyond = 2 * (2 * len(loader) - sum(LENGTHS.values()))
    stats = loader.statistics
    counted = {"pad": (beyond, 0, 0), "drop": (0, 0, -beyond), "refill": (0, beyond, 0)}
    assert (stats.moments_empty, stats.moments_repeated, stats.moments_cut) == counted[tail]
    assert beyond != 0


def test_clips_are_cut_into_sequences(cameras):
    batches = list(cameras(seq_split=2))
    assert sorted(cell[1:] for cell in cells(batches)) == sorted(EVERY)
    shown = samples(batches, "clip", "index", "first_frame")
    firsts = {(clip, index) for clip, index, is_first in shown if is_first}
    halves = {(clip, length // 2) for clip, length in enumerate(LENGTHS.values())}
    assert firsts == {(clip, 0) for clip, _ in halves} | halves


@pytest.mark.parametrize(("num_of_file", "max_open"), [(1, 3), (4, 4), (6, 6)])
def test_fewer_open_files_than_cameras_bring_the_same_frames(
    cameras, num_of_file, max_open, monkeypatch
):
    opened, most_open = set(), []

    def counted(*args, **options):
        decoder = open_any_decoder(*args, **options)
        opened.add(id(decoder))
        most_open.append(len(opened))
        close = decoder.close
        decoder.close = lambda: (opened.discard(id(decoder)), close())
        return decoder

    expected = contents(cameras())
    monkeypatch.setattr(camera_engine, "open_any_decoder", counted)
    bounded = cameras(num_of_file=num_of_file, lookahead=8)
    assert contents(bounded) == expected
    assert max(most_open) <= max_open
    assert not opened
    is_bounded = num_of_file < 2 * len(CAMERAS)
    assert (bounded.statistics.opens > len(LENGTHS) * len(CAMERAS)) == is_bounded


def test_a_clip_that_cannot_be_opened_is_named_or_left_out(cameras, copied):
    copied.clips[1].file("left").unlink()
    copied.clips[3].file("back").write_text("no video")
    with pytest.raises(OpenError, match=r"b/left\.mp4"):
        cameras(copied)
    loader = cameras(copied, on_error="mask")
    bad = [str(copied.clips[clip].file(name)) for clip, name in ((1, "left"), (3, "back"))]
    assert [error.source for error in loader.skipped_videos] == bad
    assert loader.statistics.clips_skipped == 2
    assert {clip for _, clip, _ in cells(loader)} == {0, 2, 4}


def test_a_file_that_vanishes_is_named_and_nothing_hangs(cameras, copied):
    loader = cameras(copied)
    copied.clips[4].file("front").unlink()
    with pytest.raises(MediaError, match=r"e/front\.mp4"):
        list(loader)


@pytest.mark.parametrize("decoding", [None, KEPT], ids=["arrays", "kept"])
def test_cameras_of_different_sizes_are_padded_or_listed(cameras, copied, decoding):
    replace_camera(copied.clips[0].file("left"), num_frames=20, size=(96, 64), gop=6)
    options = {"size": None, "decoding": decoding}
    loaders = [cameras(copied, ragged=ragged, **options) for ragged in ("pad", "list")]
    own = kit.PlainCameras(copied, size=None)
    for padded, listed in zip(*loaders, strict=True):
        assert padded.frames.shape == (2, 3, 3, 96, 96)
        assert torch.equal(padded.sizes, listed.sizes)
        for (row, camera), frame in np.ndenumerate(padded.frame):
            height, width = padded.sizes[row, camera].tolist()
            unpadded, full = listed.frames[row][camera], padded.frames[row, camera]
            assert unpadded.shape == (3, height, width)
            assert torch.equal(full[:, :height, :width], unpadded)
            assert not full[:, height:].any()
            assert not full[..., width:].any()
            assert bool(unpadded.numel()) == (frame >= 0)
        own.check(listed) if decoding is None else check_pictures(listed, copied, FrameFormat())


def test_a_transform_is_not_called_with_missing_frames(cameras, copied):
    def shrunk(frame):
        assert frame.numel()
        return frame[..., ::2, ::2]

    replace_camera(copied.clips[0].file("left"), num_frames=20)
    batches = list(cameras(copied, size=None, ragged="list", transform=shrunk))
    assert (batches[-1].clip < 0).any()


@pytest.fixture
def first_early(copied):
    replace_camera(copied.clips[4].file("back"), num_frames=12, size=(64, 96))
    return kit.layout_of(copied.clips[0].video_dir)


def test_a_first_camera_that_ends_early_is_counted(cameras, first_early):
    named = cameras(first_early, alignment=Alignment(on_missing="mask", reference="back"))
    assert named.statistics.frames_surplus == 2 * 5
    loader = cameras(first_early, alignment=Alignment(on_missing="mask"))
    assert sum(int((batch.clip == 4).sum()) for batch in loader) == 17
    assert (loader.statistics.frames_surplus, loader.statistics.frames_missing) == (0, 5)


def test_all_moments_of_a_clip_are_transformed_by_one_chance(cameras):
    """One draw per clip and epoch, for any number of threads and any position in the epoch."""

    def read_draws(**options):
        loader = cameras(transform=lambda _: torch.rand(1), **options)
        return {
            (epoch, clip, draw)
            for epoch in (0, 1)
            for clip, (draw,) in samples(list(loader), "clip", "frames")
        }

    draws = read_draws()
    of_clips = [(epoch, clip) for epoch, clip, _ in draws if clip >= 0]
    assert len(of_clips) == len(set(of_clips)) == 2 * len(LENGTHS)
    assert len({draw for _, clip, draw in draws if clip >= 0}) == 2 * len(LENGTHS)
    assert read_draws(num_threads=1, group_num=2) == draws


def test_endless_slots_show_every_frame_about_equally_often(cameras):
    """In two epochs and a half every frame comes two or three times, in four by other chance."""
    loader = cameras(tail="endless", shuffle=True, transform=lambda _: torch.rand(1))
    batches = list(islice(loader, 2 * len(EVERY)))
    draws = {(clip, round(draw, 6)) for clip, (draw,) in samples(batches, "clip", "frames")}
    assert all(n >= 3 for n in Counter(clip for clip, _ in draws).values())
    times = Counter(cell[1:] for cell in cells(batches[: 5 * len(EVERY) // 2 // 2]))
    assert set(times) == EVERY
    assert set(times.values()) <= {2, 3}
    assert loader.statistics.moments_empty == loader.statistics.moments_repeated == 0
    assert loader.epoch == 0
    loader.close()


def test_what_cannot_be_is_refused(cameras, folder, tmp_path, refused):
    index = tmp_path / "index.json"
    index.write_text(json.dumps({str(folder): {"a": 21}}))
    closed = cameras()
    iteration = iter(closed)
    next(iteration)
    closed.close()
    refused("camera_loader", loader=cameras, index=index, iteration=iteration)


def test_more_open_files_than_the_system_allows_are_refused_and_no_bad_media(cameras, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.EMFILE, "Too many open files")

    loader = cameras(on_error="mask")
    monkeypatch.setattr("headrace.video.container.av.open", refuse)
    with pytest.raises(ConfigError, match="too many files are open"):
        list(loader)


LENGTH, GOP = 100, 10
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
def sparse(tmp_path_factory):
    sparse = tmp_path_factory.mktemp("cameras")
    usual = {"num_frames": LENGTH, "gop": GOP}
    kinds = {name: {**usual, **options} for name, options in KINDS.items()}
    write_cameras(sparse, {"clip": kinds}, LENGTH)
    (sparse / "damaged").mkdir()
    for path in (sparse / "clip").iterdir():
        damage_packets(path, sparse / "damaged" / path.name, ordinals=[23, 52])
    return sparse


def layout_of(sparse, clip, cameras=None) -> CameraLayout:
    layout = CameraLayout.of_folders([sparse], lambda file: LENGTH, cameras)
    return replace(layout, clips=tuple(each for each in layout.clips if each.name == clip))


@pytest.fixture
def shown(sparse, opener):
    """Return a function: moment → (frames, valid), and the decode counters."""

    def of_clip(clip, names=None, **options):
        loader = opener("cameras", layout_of(sparse, clip, names), group_num=1, **options)
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
def test_a_stock_dataloader_gives_the_same_and_decodes_no_more(sparse, by_stock, shown, kind):
    """A few frames more: for a doubtful entry, it knows one frame later how far to go back."""

    def shown_by_stock(**options):
        items, batches = by_stock(layout_of(sparse, "clip", [kind]), num_of_set=1, **options)
        delivered = {int(batch["index"]): batch["frames"][0].numpy() for batch in batches}
        return delivered, items.counters

    dense, _ = shown_by_stock()
    for chosen, expected in SPARSE.values():
        delivered, cost = shown_by_stock(moments=chosen)
        assert list(delivered) == list(expected)
        assert all(np.array_equal(frames, dense[moment]) for moment, frames in delivered.items())
        _, min_cost = shown("clip", [kind], moments=chosen)
        assert cost.frames_decoded <= min_cost.frames_decoded + (GOP if kind == "refresh" else 0)


def test_files_of_which_no_more_is_wanted_are_closed(sparse, opener):
    layout = layout_of(sparse, "clip", ["plain"])
    dataset = opener("camera items", layout, moments=Moments.frames([0, 3]))
    for [cell] in CameraStreamSampler(dataset, group_num=1):
        dataset[cell]
        held = open_videos(sparse / "clip")
        assert (str(layout.clips[0].file("plain")) in held) == (cell.row == 0)

"""One folder of frames for all that reads videos: what one wrote, each other reads, bit for bit."""

import pickle
import shutil
from copy import deepcopy
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

import headrace
from extraction.extracting import extract
from headrace import FrameLoader, FrameReader, OpenError, SequentialFrames, SpillWarning, load_clip
from headrace.cache.spill_store import SpillStore
from headrace.loaders.datasets import VideoDataset
from headrace.loaders.frame_dataset import FrameDataset
from loaders.cameras.clips import VIEW
from loaders.test_spill import HARM
from loaders.videos import CLIPS, OF_CAMERAS, SIZE, contents, samples, with_counters

TOTAL = sum(clip.num_frames for clip in CLIPS)
pytestmark = pytest.mark.usefixtures("whole_gops_at_once")


def placed(samples):
    """Return the frames of each video, of (video, index, uint8 [3, H, W])."""
    frames = [np.zeros((clip.num_frames, *SIZE, 3), np.uint8) for clip in CLIPS]
    for video, index, frame in samples:
        frames[video][index] = frame.movedim(0, -1).numpy()
    return frames


def _by_opening(videos, options, tmp_path):
    frames, decoded = [], 0
    for path in videos:
        with headrace.open(path, **options) as video:
            order = np.random.default_rng(0).permutation(len(video))
            frames.append(np.empty((len(video), *SIZE, 3), np.uint8))
            for part in np.array_split(order, 3):
                frames[-1][part] = video[part]
            decoded += video.counters.frames_decoded
    return frames, decoded


def _by_clips(videos, options, tmp_path):
    both = zip(videos, CLIPS, strict=True)
    return [load_clip(path, 0, clip.num_frames, 1, **options).frames for path, clip in both], None


def _in_order(videos, options, tmp_path):
    frames = [np.empty((0, *SIZE, 3), np.uint8) for _ in videos]
    reader = FrameReader(videos, workers=2, **options)
    for batch in reader:
        frames[batch.video] = np.concatenate([frames[batch.video], batch.frames])
    return frames, reader.counters.frames_decoded


def _by_loader(videos, options, tmp_path):
    with FrameLoader(videos, batch_size=10, sampling=SequentialFrames(), **options) as loader:
        frames = placed(samples(loader, "video", "index", "frames"))
        return frames, loader.statistics.frames_decoded


def _as_items(videos, options, tmp_path):
    parts = torch.randperm(TOTAL, generator=torch.Generator().manual_seed(0)).split(40)
    with FrameDataset(videos, **options) as items:
        came = (item for ids in parts for item in items.__getitems__(ids.tolist()))
        frames = placed((item["video"], item["index"], item["frames"]) for item in came)
        return frames, items.counters.frames_decoded


def _as_clip_items(videos, options, tmp_path):
    with VideoDataset(videos, 40, 1, start=0, boundary="repeat_last", **options) as items:
        clips = (items[video]["frames"].movedim(1, -1).numpy() for video in range(len(CLIPS)))
        frames = [frames[: clip.num_frames] for frames, clip in zip(clips, CLIPS, strict=True)]
        return frames, items.counters.frames_decoded


def _as_pictures(videos, options, tmp_path):
    out = tmp_path / f"out{len([*tmp_path.iterdir()])}"
    asked = {"frames": "every 1", "format": "png", "workers": 1, **options}
    result = extract(videos, out, asked.pop("index_store").folder, **asked)
    frames = [
        np.stack([np.asarray(Image.open(file)) for file in sorted(out.glob(f"{path.stem}_*"))])
        for path in videos
    ]
    return frames, result.session.decode.frames_decoded


READERS = {
    "open": _by_opening,
    "load_clip": _by_clips,
    "FrameReader": _in_order,
    "FrameLoader": _by_loader,
    "FrameDataset": _as_items,
    "VideoDataset": _as_clip_items,
    "extract frames": _as_pictures,
}
QUICK = ("open", "FrameLoader", "extract frames")
"""Writers that the quick suite tries."""


@pytest.fixture
def read(videos, store, disk, tmp_path):
    """Return `read(name, folder=disk)`: the frames that a reader gives, and how many it decoded."""
    options = {"size": SIZE, "index_store": store}
    return lambda name, folder=disk: READERS[name](videos, {**options, "spill": folder}, tmp_path)


@pytest.mark.parametrize(
    "writer",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in READERS],
)
def test_each_reader_reads_the_files_of_all_others(read, disk, plain, writer):
    frames, _ = read(writer)
    assert all(map(np.array_equal, frames, plain.frames))
    for reader in READERS:
        frames, decoded = read(reader)
        assert all(map(np.array_equal, frames, plain.frames)), reader
        assert decoded in (0, None), reader
    with SpillStore.open(disk, budget=None) as stored:
        assert stored.state().frames == TOTAL


@pytest.mark.parametrize(
    ("writer", "options"), [("cameras", {}), ("camera items", {"size": None, "view": VIEW})]
)
def test_each_camera_reader_reads_the_files_of_all_others(opener, by_stock, disk, writer, options):
    def by(door, **given):
        if door == "camera items":
            items, batches = by_stock(**options, **given)
            return contents(batches), items.counters.frames_decoded
        loader = opener(door, **options, **given)
        return contents(loader), loader.statistics.frames_decoded

    right = {door: by(door)[0] for door in OF_CAMERAS}
    assert by(writer, spill=disk)[0] == right[writer]
    for door in OF_CAMERAS:
        assert by(door, spill=disk) == (right[door], 0), door


@pytest.mark.parametrize(
    ("harm", "reader"),
    [*zip([*HARM, "full"], ["open", "FrameReader", "FrameDataset"] * 2, strict=True)],
)
def test_a_harmed_folder_costs_decoding_and_no_pixel(
    videos, read, disk, plain, reader, harm, recwarn
):
    if harm == "full":
        SpillStore.open(disk, budget=2**20).close()
    read("FrameReader")
    if harm != "full":
        HARM[harm](disk)
    frames, _ = read(reader)
    if disk.exists():
        disk.chmod(0o700)
    assert all(map(np.array_equal, frames, plain.frames))
    assert {warning.category for warning in recwarn} <= {SpillWarning}
    assert len(recwarn) <= 2 * len(videos)  # each reader of one video warns once of a kind


def test_an_extraction_records_the_findings_of_its_workers(videos, store, read, disk, tmp_path):
    read("FrameReader")
    HARM["bits turned over"](disk)
    options = {"frames": "every 1", "size": SIZE, "workers": 1, "spill": disk}
    found = extract(videos, tmp_path / "out", store.folder, **options)
    assert any("decoded again" in note for note in found.session.notes)


def test_a_file_that_changed_is_read_anew(videos, store, disk, tmp_path):
    path = Path(shutil.copy(videos[0], tmp_path / "a.mp4"))
    options = {"size": SIZE, "spill": disk, "index_store": store}
    with headrace.open(path, **options) as old:
        old[:]
        shutil.copy(videos[2], path)
        with pytest.raises(OpenError, match="changed"):
            old[0]
    with headrace.open(path, **options) as new, headrace.open(videos[2], **options) as right:
        assert np.array_equal(new[:], right[:])
        assert new.counters.frames_decoded > 0


def test_workers_of_a_stock_loader_share_the_folder(videos, store, disk, plain):
    items = FrameDataset(videos, SIZE, spill=disk, index_store=store)
    for is_first in (True, False):
        decoded, options = 0, {"batch_size": 32, "num_workers": 1}
        for batch, counters in DataLoader(items, collate_fn=with_counters, **options):
            assert torch.equal(batch["frames"], plain.of(batch))
            decoded = counters.frames_decoded
        assert (decoded > 0) == is_first
        items.close()
        items = pickle.loads(pickle.dumps(items))  # noqa: S301  (as to a worker that is spawned)


def test_a_copied_reader_opens_the_folder_again(videos, store, disk):
    with headrace.open(videos[0], size=SIZE, spill=disk, index_store=store) as video:
        frames = video[:]
        with deepcopy(video) as again:  # as to another process
            assert np.array_equal(again[:], frames)
            assert again.counters.frames_decoded == 0


def test_bytes_are_not_stored(videos, disk):
    for _ in range(2):
        with headrace.open(videos[0].read_bytes(), size=SIZE, spill=disk) as video:
            video[:]
            assert video.counters.frames_decoded == len(video)


def test_a_folder_keeps_its_budget(read, disk):
    SpillStore.open(disk, budget=2**21).close()
    read("FrameReader")
    assert SpillStore.open(disk, budget=None).state().budget_bytes == 2**21


def test_invalid_spill_folders_are_refused(opener, disk, tmp_path, refused):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").touch()
    refused("spill", spilling=partial(opener, spill=disk), mine=tmp_path / "mine")

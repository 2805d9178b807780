"""Datasets in a stock DataLoader: right pixels at low cost, in any process, also of a manifest."""

import pickle
import shutil
from dataclasses import replace
from functools import partial
from itertools import islice

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader
from torchvision.transforms import v2

import headrace
from forked import raised_by_a_worker
from headrace import Manifest, SequentialFrames, ShuffledFrames, UniformClips, UniformFrames
from headrace.loaders.frame_dataset import EpochSampler
from loaders.videos import SEGMENTS, SIZE, epochs, open_videos, samples, with_counters

RANDOM_IDS = [112, 0, 39, 40, 77, 3, 3, 95, 12, 0, 64, 41, 5, 100, 39, 8]


@pytest.fixture
def clips(loader):
    return loader("clip items")


def all_of(clips):
    """Return the frames of all clips, decoded in this process."""
    return torch.stack([clips[video]["frames"] for video in range(len(clips))])


def test_items_are_frames_with_their_places_in_the_order_asked_for(frames, plain):
    """Doubles share no memory."""
    assert len(frames) == 113 == frames.population.num_frames
    item = frames[41]
    assert item["frames"].shape == (3, *SIZE)
    assert item["frames"].dtype == torch.uint8
    assert (item["video"], item["index"]) == (1, 1)
    assert item["pts_seconds"] == pytest.approx(1 / 30)
    items = frames.__getitems__(RANDOM_IDS)
    where = np.array([(item["video"], item["index"]) for item in items]).T
    assert frames.population.frame_ids(*where).tolist() == RANDOM_IDS
    assert all(torch.equal(each["frames"], plain.of(each)) for each in (item, *items))
    one, two, three = frames.__getitems__([3, 3, 4])
    one["frames"].zero_()
    assert all(torch.equal(item["frames"], plain.of(item)) for item in (two, three))
    assert frames.__getitems__([]) == []


def test_each_gop_of_a_batch_is_decoded_once_and_no_further_than_needed(loader, videos):
    """The video is one GOP of 25 frames, without B-frames."""
    dataset = loader("frame items", videos[1:2])
    dataset.__getitems__([22, 20, 22, 1])
    assert dataset.counters.frames_decoded <= 24
    assert (dataset.counters.opens, dataset.counters.seeks) == (1, 0)


def test_the_gops_of_a_batch_cost_one_entry_each(frames):
    frames.__getitems__([35, 1, 15, 0, 36, 16])
    decoded = frames.counters.frames_decoded
    assert frames.counters.seeks <= 2
    for frame in (35, 1, 15, 0, 36, 16):
        frames[frame]
    assert frames.counters.frames_decoded > 2 * decoded


def test_workers_open_files_for_themselves_and_leave_the_parents_alone(frames, plain):
    for frame in (0, 41, 66):
        frames[frame]
    mine = replace(frames.counters)
    picked = [0, 1, 2, 3, 41, 42, 43, 44]
    options = {"batch_size": 4, "num_workers": 2, "collate_fn": with_counters}
    for batch, theirs in DataLoader(frames, sampler=picked, **options):
        assert torch.equal(batch["frames"], plain.of(batch))
        assert theirs.opens == 1
        assert theirs.frames_delivered == 4
        mine_again = frames[44]
        assert torch.equal(mine_again["frames"], plain.of(mine_again))
    assert frames.counters.opens == mine.opens


@pytest.mark.parametrize("door", ["frame items", "clip items"])
def test_a_batch_of_a_stock_dataloader_is_shown(loader, door):
    batch = next(iter(DataLoader(loader(door, size=(32, 48)), batch_size=2)))
    assert len(headrace.Batch(batch).show().strips) > 0


def test_no_more_files_are_open_than_allowed(loader, videos, tmp_path):
    one = loader("frame items", max_open=1)
    for _ in range(2):
        one.__getitems__([0, 41, 66, 100])
    assert one.counters.opens == 8
    copies = [shutil.copy(videos[1], tmp_path / f"{k}.mp4") for k in range(6)]
    dataset = loader("frame items", copies, max_open=2)
    for frame in range(0, 150, 25):
        dataset[frame]
        assert len(open_videos(tmp_path)) == min(2, frame // 25 + 1)
    dataset.close()
    assert not open_videos(tmp_path)


def test_a_file_that_changes_is_named_in_a_worker_too(loader, videos, tmp_path):
    path = shutil.copy(videos[1], tmp_path / "clip.mp4")
    dataset = loader("frame items", [path])
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(headrace.OpenError, match=r"clip\.mp4 has changed"):
        dataset[0]
    with raised_by_a_worker(RuntimeError, r"clip\.mp4 has changed"):
        list(DataLoader(dataset, num_workers=1))


def test_an_item_is_the_clip_of_a_video(clips, videos):
    assert len(clips) == len(videos)
    for number, path in enumerate(videos):
        indices = clips.clip_indices(number)
        expected = headrace.read_clip(path, int(indices[0]), 4, 3, size=SIZE)
        item, times = clips[number], headrace.load_clip(path, int(indices[0]), 4, 3).pts_seconds
        assert item["frames"].dtype == torch.uint8
        assert torch.equal(item["frames"], torch.from_numpy(expected).movedim(-1, -3))
        assert (item["video"], item["index"].tolist()) == (number, indices.tolist())
        assert item["pts_seconds"].tolist() == times.tolist()
        assert not item["is_concealed"].any()


def test_random_clips_depend_on_seed_epoch_and_video_alone(loader):
    def starts(epoch, seed):
        dataset = loader("clip items", stride=1, seed=seed)
        dataset.set_epoch(epoch)
        return [int(dataset.clip_indices(video)[0]) for video in (3, 0, 2, 1)]

    assert starts(0, 0) == starts(0, 0)
    assert starts(0, 0) != starts(1, 0) != starts(1, 5)


def test_random_clips_lie_inside_their_video_and_reach_both_ends(loader, videos):
    dataset = loader("clip items", videos[3:], clip_len=8, stride=2)
    seen = set()
    for epoch in range(60):
        dataset.set_epoch(epoch)
        indices = dataset.clip_indices(0)
        seen |= {int(indices[0]), int(indices[-1])}
    assert seen == {0, 1, 2, 3, 14, 15, 16, 17}
    fixed = loader("clip items", clip_len=3, start=5, stride=2)
    assert [fixed.clip_indices(k).tolist() for k in range(4)] == [[5, 7, 9]] * 4


def test_each_pass_has_other_clips_without_set_epoch(clips):
    """The same with any workers, which share the number of requests for each clip."""
    passes = []
    for workers in (0, 1, 2):
        clips._visits.zero_()
        loader = DataLoader(clips, batch_size=4, num_workers=workers)
        passes.append([batch["index"].tolist() for _ in range(3) for batch in loader])
    assert passes[0] == passes[1] == passes[2]
    assert len({str(each) for each in passes[0]}) == 3
    clips.set_epoch(1)
    assert clips[0]["index"].tolist() == passes[0][1][0] == clips[0]["index"].tolist()


def test_persistent_workers_get_the_new_epoch(clips):
    loader = DataLoader(clips, batch_size=4, num_workers=2, persistent_workers=True)
    for epoch in (0, 1):
        clips.set_epoch(epoch)
        [batch] = loader
        assert batch["frames"].shape == (4, 4, 3, *SIZE)
        assert batch["video"].tolist() == [0, 1, 2, 3]
        assert batch["index"].shape == batch["pts_seconds"].shape == (4, 4)
        assert torch.equal(batch["frames"], all_of(clips))
    del loader


def test_a_short_video_may_repeat_its_last_frame(loader):
    dataset = loader("clip items", clip_len=20, stride=1, boundary="repeat_last")
    assert dataset.clip_indices(3).tolist() == [*range(18), 17, 17]
    clip = dataset[3]["frames"]
    assert torch.equal(clip[17], clip[19])
    assert not torch.equal(clip[16], clip[17])
    assert dataset.counters.frames_decoded == 18


def test_what_cannot_be_is_refused(refused):
    refused("datasets")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_read_no_index_and_give_the_same(loader, plain, tmp_path, method):
    """It is deleted from disk; a worker that scanned the video would store it again."""
    store = headrace.IndexStore(tmp_path / "index")
    how = {"batch_size": 4, "num_workers": 1, "multiprocessing_context": method}
    frames, clips = (loader(door, index_store=store) for door in ("frame items", "clip items"))
    shutil.rmtree(store.folder)
    picked = {"sampler": [42, 0, 41, 41], "collate_fn": with_counters}
    [(batch, cost)] = DataLoader(frames, **picked, **how)
    assert torch.equal(batch["frames"], plain.of(batch))
    assert cost.packets_read < 10
    assert frames.counters == headrace.DecodeCounters()
    clips.set_epoch(0)
    with pickle.loads(pickle.dumps(clips)) as received:  # noqa: S301  (as a worker gets it)
        assert torch.equal(all_of(received), all_of(clips))
    assert not store.folder.exists()


ROWS = [0, 1, 2, 3, 5]
"""Rows that are long enough for a clip."""
COLUMNS = ("label", "weight", "group", "row", "video", "index", "pts_seconds", "is_concealed")
SAMPLINGS = [
    *(SequentialFrames(), ShuffledFrames(seed=3)),
    *(UniformFrames(over="seconds"), ShuffledFrames(over="videos")),
    UniformFrames(over=(1.0, 2.0, 1.0, 4.0, 0.0), seed=5),  # the weights of the rows
]


@pytest.fixture(scope="module")
def rows(manifest):
    return manifest.subset(ROWS)


@pytest.fixture
def row_frames(loader, rows):
    return loader("frame items", rows)


@pytest.fixture
def row_clips(loader, rows):
    """Return `row_clips(rows, **options)`, which opens a VideoDataset."""
    return lambda files=rows, **options: loader("clip items", files, **options)


def said(batch, pixels):
    """Return all entries of a batch of a loader or of a DataLoader."""
    rows = [*samples({name: batch[name] for name in COLUMNS}, *COLUMNS)]
    return rows, batch[pixels].contiguous().numpy().tobytes()


@pytest.mark.parametrize(
    ("sampling", "workers"), [*((each, 0) for each in SAMPLINGS), (SAMPLINGS[1], 2)], ids=repr
)
def test_batches_are_those_of_the_loader(rows, row_frames, loader, sampling, workers):
    expected = loader(files=rows, sampling=sampling, batch_size=16, num_threads=1)
    sampler = EpochSampler(row_frames, sampling)
    how = {"num_workers": workers, "multiprocessing_context": "spawn"} if workers else {}
    batches = DataLoader(row_frames, batch_size=16, sampler=sampler, **how)
    found = [said(batch, "frames") for batch in epochs(batches)]
    assert found == [said(batch, "frames") for batch in epochs(expected)]
    if isinstance(sampling, UniformFrames) and sampling.over == rows.weights:
        assert 4 not in {row for (row,) in samples(expected, "row")}


def test_a_frame_in_two_rows_is_decoded_once_and_both_have_memory_of_their_own(
    rows, row_frames, plain
):
    first = row_frames.population.video_start
    # Row 1 starts at 0.5 s; row 0 overlaps it.
    one, two = row_frames.__getitems__([int(first[1]) - 1, int(first[1])])
    inside = one["index"] - two["index"]
    same = row_frames.__getitems__([int(first[1]) - 1, int(first[1]) + inside])
    assert same[0]["index"] == same[1]["index"]
    assert [item["row"] for item in same] == [0, 1]
    assert [item["label"] for item in same] == [*map(rows.classes["label"].index, ("run", "jump"))]
    same[0]["frames"].zero_()
    assert torch.equal(same[1]["frames"], plain.of(same[1]))


def test_clips_are_inside_their_rows_and_have_the_columns_of_the_manifest(rows, row_clips, plain):
    dataset = row_clips(stride=2)
    assert len(dataset) == 5
    for row, item in enumerate(map(dataset.__getitem__, range(5))):
        number, start, end, name, weight, group = SEGMENTS[ROWS[row]]
        assert (item["row"], item["video"]) == (row, number)
        assert rows.classes["label"][item["label"]] == name
        assert (item["weight"], item["group"]) == (weight, group)
        assert item["pts_seconds"].min() >= float(start or 0) - 1e-9
        assert item["pts_seconds"].max() < float(end or 100)
        assert torch.equal(item["frames"], plain.of(item))
    (batch,) = DataLoader(dataset, batch_size=5)
    names = [rows.classes["label"][label] for label in batch["label"]]
    assert names == ["run", "jump", "run", "sit", "run"]
    assert batch["group"] == ["x", "x", "y", "", ""]


def test_clips_that_begin_at_the_start_are_the_loaders(rows, loader, row_clips):
    sampler = UniformClips(num_clips=1, num_frames=3)
    of_three = partial(row_clips, clip_len=3, stride=1)
    [batch] = loader("clips", rows, clips=sampler, batch_size=5)
    first = batch.index[:, 0] - torch.tensor([each["index"][0] for each in of_three(start=0)])
    for row, shift in enumerate(first):
        one = of_three(rows.subset([row]), start=int(shift))
        assert torch.equal(one[0]["frames"], batch.frames[row])
        assert one[0]["index"].tolist() == batch.index[row].tolist()


def test_chance_follows_from_the_row(row_clips):
    made = []
    for _ in range(2):
        dataset = row_clips(clip_len=2, stride=1, transform=v2.RandomHorizontalFlip())
        dataset.set_epoch(3)
        made.append([dataset[row]["frames"] for row in (4, 1, 0)])
    assert all(map(torch.equal, *made))


@pytest.mark.filterwarnings("ignore::headrace.errors.SkippedVideosWarning")
def test_unusable_rows_are_named_or_skipped(videos, loader, row_clips, refused, rows, tmp_path):
    named = [
        {"path": videos[0], "label": 1},
        {"path": "gone.mp4", "label": 2},
        {"path": videos[0], "label": 3, "start_seconds": 99},
        {"path": videos[1], "label": 4},
    ]
    mine = Manifest.of_rows(named, name="mine")
    skipping = loader("frame items", mine, on_error="skip")
    assert [str(each.source)[-8:] for each in skipping.skipped_videos] == ["gone.mp4", "eo-0.mp4"]
    sampler = EpochSampler(skipping, UniformFrames(over=(0, 9, 9, 1)))
    assert [skipping[place]["row"] for place in islice(sampler, 5)] == [3] * 5
    dataset = row_clips(mine, clip_len=2, on_error="skip")
    assert [item["label"] for item in map(dataset.__getitem__, range(len(dataset)))] == [1, 4]
    other = loader("frame items", rows.subset([0, 1, 2, 3]))
    table = tmp_path / "listed.csv"
    table.write_text(f"path,label\n{videos[0]},1\n\ngone.mp4,2\nlost.mp4,3\n")
    refused("row_datasets", mine=mine, other=other, listed=Manifest.read(table))


@pytest.mark.filterwarnings("ignore::headrace.errors.SkippedVideosWarning")
def test_without_a_manifest_the_row_is_the_video(videos, loader, row_clips):
    assert loader("frame items")[41]["row"] == loader("frame items")[41]["video"] == 1
    item = row_clips(["gone.mp4", *videos], clip_len=2, on_error="skip")[0]
    assert item["row"] == item["video"] == 1

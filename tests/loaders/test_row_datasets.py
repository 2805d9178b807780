"""Datasets on a manifest: the rows and samples of the loaders, in a stock DataLoader."""

from functools import partial
from itertools import islice

import pytest
import torch
from torch.utils.data import DataLoader
from torchvision.transforms import v2

from headrace import Manifest, SequentialFrames, ShuffledFrames, UniformClips, UniformFrames
from headrace.loaders.frame_dataset import EpochSampler
from loaders.videos import SEGMENTS, epochs, samples

pytestmark = pytest.mark.filterwarnings("ignore::headrace.errors.SkippedVideosWarning")

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
def frames(loader, rows):
    return loader("frame items", rows)


@pytest.fixture
def clips(loader, rows):
    """Return `clips(rows, **options)`, which opens a VideoDataset."""
    return lambda files=rows, **options: loader("clip items", files, **options)


def said(batch, pixels):
    """Return all entries of a batch of a loader or of a DataLoader."""
    rows = [*samples({name: batch[name] for name in COLUMNS}, *COLUMNS)]
    return rows, batch[pixels].contiguous().numpy().tobytes()


@pytest.mark.parametrize(
    ("sampling", "workers"), [*((each, 0) for each in SAMPLINGS), (SAMPLINGS[1], 2)], ids=repr
)
def test_batches_are_those_of_the_loader(rows, frames, loader, sampling, workers):
    expected = loader(files=rows, sampling=sampling, batch_size=16, num_threads=1)
    sampler = EpochSampler(frames, sampling)
    batches = DataLoader(frames, batch_size=16, sampler=sampler, num_workers=workers)
    found = [said(batch, "frame") for batch in epochs(batches)]
    assert found == [said(batch, "frames") for batch in epochs(expected)]
    if isinstance(sampling, UniformFrames) and sampling.over == rows.weights:
        assert 4 not in {row for (row,) in samples(expected, "row")}


def test_a_frame_in_two_rows_is_decoded_once_and_both_have_memory_of_their_own(rows, frames, plain):
    first = frames.population.video_start
    # Row 1 starts at 0.5 s; row 0 overlaps it.
    one, two = frames.__getitems__([int(first[1]) - 1, int(first[1])])
    inside = one["index"] - two["index"]
    same = frames.__getitems__([int(first[1]) - 1, int(first[1]) + inside])
    assert same[0]["index"] == same[1]["index"]
    assert [item["row"] for item in same] == [0, 1]
    assert [item["label"] for item in same] == [*map(rows.classes["label"].index, ("run", "jump"))]
    same[0]["frame"].zero_()
    assert torch.equal(same[1]["frame"], plain.of(same[1]))


def test_clips_are_inside_their_rows_and_have_the_columns_of_the_manifest(rows, clips, plain):
    dataset = clips(stride=2)
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


def test_clips_that_begin_at_the_start_are_the_loaders(rows, loader, clips):
    sampler = UniformClips(num_clips=1, num_frames=3)
    of_three = partial(clips, clip_len=3, stride=1)
    [batch] = loader("clips", rows, clips=sampler, batch_size=5)
    first = batch.index[:, 0] - torch.tensor([each["index"][0] for each in of_three(start=0)])
    for row, shift in enumerate(first):
        one = of_three(rows.subset([row]), start=int(shift))
        assert torch.equal(one[0]["frames"], batch.frames[row])
        assert one[0]["index"].tolist() == batch.index[row].tolist()


def test_chance_follows_from_the_row(clips):
    made = []
    for _ in range(2):
        dataset = clips(clip_len=2, stride=1, transform=v2.RandomHorizontalFlip())
        dataset.set_epoch(3)
        made.append([dataset[row]["frames"] for row in (4, 1, 0)])
    assert all(map(torch.equal, *made))


def test_unusable_rows_are_named_or_skipped(videos, loader, clips, refused, rows, tmp_path):
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
    dataset = clips(mine, clip_len=2, on_error="skip")
    assert [item["label"] for item in map(dataset.__getitem__, range(len(dataset)))] == [1, 4]
    other = loader("frame items", rows.subset([0, 1, 2, 3]))
    table = tmp_path / "listed.csv"
    table.write_text(f"path,label\n{videos[0]},1\n\ngone.mp4,2\nlost.mp4,3\n")
    refused("row_datasets", mine=mine, other=other, listed=Manifest.read(table))


def test_without_a_manifest_the_row_is_the_video(videos, loader, clips):
    assert loader("frame items")[41]["row"] == loader("frame items")[41]["video"] == 1
    item = clips(["gone.mp4", *videos], clip_len=2, on_error="skip")[0]
    assert item["row"] == item["video"] == 1

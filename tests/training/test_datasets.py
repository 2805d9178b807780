"""Datasets in a stock DataLoader: the right pixels, cheaply, in whatever process."""

import pickle
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from headrace.decode.clips import load_clip, read_clip
from headrace.decode.index_store import IndexStore
from headrace.decode.protocol import DecodeCounters
from headrace.errors import ConfigError, OpenError
from headrace.testing.synth import write_clip
from headrace.training.datasets import FrameDataset, VideoDataset
from headrace.video.source import Source
from training.videos import CLIPS, SIZE, open_videos, with_counters

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

RANDOM_IDS = [112, 0, 39, 40, 77, 3, 3, 95, 12, 0, 64, 41, 5, 100, 39, 8]
WORKERS = [0, 1, 2]


@pytest.fixture
def frames(videos, store):
    with FrameDataset(videos, SIZE, store=store) as dataset:
        yield dataset


@pytest.fixture
def clips(videos, store):
    with VideoDataset(videos, clip_len=4, stride=3, size=SIZE, store=store) as dataset:
        yield dataset


def of_item(item, plain):
    """Return what the frame of an item must look like."""
    return torch.from_numpy(plain.frames[item["video"]][item["index"]]).movedim(-1, 0)


def of_batch(batch, plain):
    """Return what the frames of a batch must look like."""
    places = zip(batch["video"].tolist(), batch["index"].tolist(), strict=True)
    return torch.stack([of_item({"video": v, "index": i}, plain) for v, i in places])


def all_of(clips):
    """Return the frames of all clips, made in this process."""
    return torch.stack([clips[video]["frames"] for video in range(len(clips))])


def test_there_are_as_many_items_as_frames(frames):
    assert len(frames) == 113 == frames.population.num_frames


def test_an_item_is_a_frame_with_its_place(frames, plain):
    item = frames[41]
    assert item["frame"].shape == (3, *SIZE)
    assert item["frame"].dtype == torch.uint8
    assert (item["video"], item["index"]) == (1, 1)
    assert item["pts_seconds"] == pytest.approx(1 / 30)
    assert torch.equal(item["frame"], of_item(item, plain))


def test_frames_come_in_the_order_asked_for_doubles_too(frames, plain):
    items = frames.__getitems__(RANDOM_IDS)
    where = np.array([(item["video"], item["index"]) for item in items]).T
    assert frames.population.frame_ids(*where).tolist() == RANDOM_IDS
    assert all(torch.equal(item["frame"], of_item(item, plain)) for item in items)


def test_doubles_share_no_memory(frames, plain):
    one, two, three = frames.__getitems__([3, 3, 4])
    one["frame"].zero_()
    assert all(torch.equal(item["frame"], of_item(item, plain)) for item in (two, three))


def test_each_gop_of_a_batch_is_decoded_once_and_no_further_than_needed(videos, store):
    """The video is one GOP of 25 frames, without B-frames."""
    with FrameDataset(videos[1:2], SIZE, store=store) as dataset:
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


@pytest.mark.parametrize("frame", [-1, 113])
def test_a_frame_that_is_not_there_is_an_index_error(frames, frame):
    with pytest.raises(IndexError, match=f"frame {frame} was asked for, there are 113"):
        frames[frame]


@pytest.mark.parametrize("workers", WORKERS)
def test_a_dataloader_gives_the_right_frames_with_any_workers(frames, plain, workers):
    frames[0]  # a file is open here when workers are forked
    loader = DataLoader(frames, batch_size=5, sampler=RANDOM_IDS, num_workers=workers)
    found = []
    for batch in loader:
        assert torch.equal(batch["frame"], of_batch(batch, plain))
        video, index = batch["video"].numpy(), batch["index"].numpy()
        found += frames.population.frame_ids(video, index).tolist()
    assert found == RANDOM_IDS


def test_workers_open_files_for_themselves_and_leave_the_parents_alone(frames, plain):
    for frame in (0, 41, 66):
        frames[frame]
    mine = replace(frames.counters)
    loader = DataLoader(
        frames,
        batch_size=4,
        sampler=[0, 1, 2, 3, 41, 42, 43, 44],
        num_workers=2,
        collate_fn=with_counters,
    )
    for _, theirs in loader:
        assert theirs.opens == 1
        assert theirs.frames_delivered == 4
        mine_again = frames[44]
        assert torch.equal(mine_again["frame"], of_item(mine_again, plain))
    assert frames.counters.opens == mine.opens


def test_no_more_files_are_open_than_allowed(videos, store):
    with FrameDataset(videos, SIZE, store=store, max_open=1) as dataset:
        dataset.__getitems__([0, 41, 66, 100])
        dataset.__getitems__([0, 41, 66, 100])
        assert dataset.counters.opens == 8


def test_no_more_files_are_open_than_allowed_however_many_videos(tmp_path, store):
    first = write_clip(tmp_path / "0", CLIPS[1])
    videos = [first, *(shutil.copy(first, tmp_path / f"{k}.mp4") for k in range(1, 6))]
    with FrameDataset(videos, SIZE, store=store, max_open=2) as dataset:
        for frame in range(0, 150, 25):
            dataset[frame]
            assert len(open_videos(tmp_path)) == min(2, frame // 25 + 1)
    assert not open_videos(tmp_path)


def test_a_transform_gets_each_frame(videos, store):
    with FrameDataset(videos, SIZE, lambda frame: frame.shape, store=store) as dataset:
        assert dataset[7]["frame"] == (3, *SIZE)


def test_a_file_that_changes_is_named_in_a_worker_too(tmp_path, store):
    path = write_clip(tmp_path / "clip", CLIPS[1])
    with FrameDataset([path], SIZE, store=store) as dataset:
        path.write_bytes(path.read_bytes() + b"\0")
        with pytest.raises(OpenError, match=r"clip\.mp4 has changed"):
            dataset[0]
        with pytest.raises(RuntimeError, match=r"clip\.mp4 has changed"):
            list(DataLoader(dataset, num_workers=1))


def test_an_item_is_the_clip_of_a_video(clips, videos):
    assert len(clips) == len(videos)
    for number, path in enumerate(videos):
        indices = clips.clip_indices(number)
        expected = read_clip(path, int(indices[0]), 4, 3, size=SIZE)
        item = clips[number]
        assert item["frames"].dtype == torch.uint8
        assert torch.equal(item["frames"], torch.from_numpy(expected).movedim(-1, -3))
        assert (item["video"], item["index"].tolist()) == (number, indices.tolist())
        assert (
            item["pts_seconds"].tolist()
            == load_clip(path, int(indices[0]), 4, 3).pts_seconds.tolist()
        )
        assert not item["is_concealed"].any()


def test_random_clips_depend_on_seed_epoch_and_video_alone(videos, store):
    def starts(epoch, seed):
        with VideoDataset(videos, 4, 1, size=SIZE, seed=seed, store=store) as dataset:
            dataset.set_epoch(epoch)
            return [int(dataset.clip_indices(video)[0]) for video in (3, 0, 2, 1)]

    assert starts(0, 0) == starts(0, 0)
    assert starts(0, 0) != starts(1, 0) != starts(1, 5)


def test_random_clips_lie_inside_their_video_and_reach_both_ends(videos, store):
    with VideoDataset(videos[3:], clip_len=8, stride=2, store=store) as dataset:
        seen = set()
        for epoch in range(60):
            dataset.set_epoch(epoch)
            indices = dataset.clip_indices(0)
            seen |= {int(indices[0]), int(indices[-1])}
        assert seen == {0, 1, 2, 3, 14, 15, 16, 17}


def test_a_fixed_start_is_that_of_every_video(videos, store):
    with VideoDataset(videos, clip_len=3, start=5, store=store) as dataset:
        assert [dataset.clip_indices(k).tolist() for k in range(4)] == [[5, 7, 9]] * 4


@pytest.mark.parametrize("workers", WORKERS)
def test_a_dataloader_batches_clips_with_any_workers(clips, workers):
    clips.set_epoch(0)
    [batch] = DataLoader(clips, batch_size=4, num_workers=workers)
    assert batch["frames"].shape == (4, 4, 3, *SIZE)
    assert batch["video"].tolist() == [0, 1, 2, 3]
    assert batch["index"].shape == batch["pts_seconds"].shape == (4, 4)
    assert torch.equal(batch["frames"], all_of(clips))


def test_each_pass_has_other_clips_where_nobody_says_the_epoch(clips):
    """The same ones with any workers: how often a clip was asked for is known to all of them."""
    passes = []
    for workers in (0, 1, 2):
        clips._visits.zero_()
        loader = DataLoader(clips, batch_size=4, num_workers=workers)
        passes.append([batch["index"].tolist() for _ in range(3) for batch in loader])
    assert passes[0] == passes[1] == passes[2]
    assert len({str(each) for each in passes[0]}) == 3
    clips.set_epoch(1)
    assert clips[0]["index"].tolist() == passes[0][1][0] == clips[0]["index"].tolist()


def test_workers_that_live_on_are_told_of_a_new_epoch(clips):
    loader = DataLoader(clips, batch_size=4, num_workers=2, persistent_workers=True)
    for epoch in (0, 1):
        clips.set_epoch(epoch)
        [batch] = loader
        assert torch.equal(batch["frames"], all_of(clips))
    del loader


def test_a_video_shorter_than_a_clip_is_named(videos, store):
    with pytest.raises(ConfigError, match=r"no clip of .*video-3.mp4: .* the video has 18: 9 are"):
        VideoDataset(videos, clip_len=10, stride=2, store=store)


def test_a_short_video_may_repeat_its_last_frame(videos, store):
    with VideoDataset(
        videos, clip_len=20, stride=1, size=SIZE, boundary="repeat_last", store=store
    ) as dataset:
        assert dataset.clip_indices(3).tolist() == [*range(18), 17, 17]
        clip = dataset[3]["frames"]
        assert torch.equal(clip[17], clip[19])
        assert not torch.equal(clip[16], clip[17])
        assert dataset.counters.frames_decoded == 18


@pytest.mark.parametrize("video", [-1, 4])
def test_a_video_that_is_not_there_is_an_index_error(clips, video):
    with pytest.raises(IndexError, match=f"video {video} was asked for, there are 4"):
        clips[video]


def test_a_transform_gets_each_clip(videos, store):
    def double(clip):
        return clip.float() * 2

    with VideoDataset(videos, 2, 1, double, start=0, size=SIZE, store=store) as dataset:
        plain_clip = read_clip(videos[0], 0, 2, 1, size=SIZE)
        assert np.array_equal(
            dataset[0]["frames"].movedim(-3, -1), plain_clip.astype(np.float32) * 2
        )


def test_one_path_that_is_in_no_list_is_refused(videos, store):
    for one in (str(videos[0]), videos[0], Source(videos[0])):
        for dataset in (FrameDataset, VideoDataset):
            with pytest.raises(ConfigError, match=r"got one path, '.*video-0.mp4'; put it in a"):
                dataset(one, store=store)


def test_no_video_and_an_argument_out_of_range_are_refused(videos, store):
    with pytest.raises(ConfigError, match="at least one video"):
        VideoDataset([], store=store)
    with pytest.raises(ConfigError, match="stride must be an integer >= 1, got 0"):
        VideoDataset(videos, stride=0, store=store)
    with pytest.raises(ConfigError, match="start must be an index of a frame, or 'random', got 1"):
        VideoDataset(videos, start=1.5, store=store)
    with FrameDataset(videos, SIZE, store=store) as frames:
        assert frames.__getitems__([]) == []
        with pytest.raises(ConfigError, match=r"frames are asked for by integers, got \[1\.5\]"):
            frames[1.5]
    with pytest.raises(ConfigError, match="start must be a frame of the video"):
        VideoDataset(videos, start=100, store=store)


def test_a_dataset_sent_to_another_process_gives_the_same(clips):
    with pickle.loads(pickle.dumps(clips)) as received:  # noqa: S301
        assert torch.equal(received[2]["frames"], clips[2]["frames"])


def test_a_missing_file_is_named(tmp_path, store):
    with pytest.raises(OpenError, match=r"gone\.mp4"):
        VideoDataset([tmp_path / "gone.mp4"], store=store)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_read_no_index_and_give_the_same(videos, plain, tmp_path, method):
    """It is gone from disk; a worker that had read it from the video would put it there again."""
    store = IndexStore(tmp_path / "index")
    how = {"batch_size": 4, "num_workers": 1, "multiprocessing_context": method}
    with (
        FrameDataset(videos, SIZE, store=store) as frames,
        VideoDataset(videos, 4, 3, size=SIZE, store=store) as clips,
    ):
        shutil.rmtree(store.folder)
        [(batch, cost)] = DataLoader(
            frames, sampler=[42, 0, 41, 41], collate_fn=with_counters, **how
        )
        assert torch.equal(batch["frame"], of_batch(batch, plain))
        assert cost.packets_read < 10
        assert frames.counters == DecodeCounters()
        clips.set_epoch(0)
        [clip_batch] = DataLoader(clips, **how)
        assert torch.equal(clip_batch["frames"], all_of(clips))
        assert not store.folder.exists()

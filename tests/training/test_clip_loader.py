"""Batches of clips."""

from collections import Counter

import pytest
import torch

from headrace.errors import ConfigError
from headrace.sampling.clips import RandomClips, UniformClips
from headrace.training.clip_loader import ClipLoader
from training.videos import SIZE, contents

pytestmark = pytest.mark.filterwarnings("ignore::headrace.errors.LeftOutWarning")

CLIPS = [
    RandomClips(num_frames=4, stride=2),
    RandomClips(num_frames=3, stride=4, temporal_jitter=3, each_once="starts"),
    RandomClips(num_frames=16, stride=2, boundary="repeat_last"),
    UniformClips(num_clips=3, num_frames=5),
    UniformClips(num_clips=2, num_frames=30, boundary="wrap"),
]


@pytest.mark.parametrize("clips", CLIPS, ids=repr)
def test_every_frame_of_every_clip_equals_a_plain_linear_decode(videos, store, plain, clips):
    with ClipLoader(videos, clips=clips, batch_size=3, size=SIZE, store=store) as loader:
        batches = list(loader)
    for batch in batches:
        assert batch.frames.shape == (len(batch), clips.num_frames, 3, *SIZE)
        assert batch.index.shape == batch.pts_seconds.shape == batch.frames.shape[:2]
        assert batch.video.shape == (len(batch),)
        assert torch.equal(batch.frames, plain.of(batch))


@pytest.mark.parametrize("clips", CLIPS, ids=repr)
def test_clips_are_those_of_naive_decoding_whatever_the_plan(videos, store, clips):
    def two_epochs(**options):
        options = {"clips": clips, "batch_size": 2, "size": SIZE, "store": store, **options}
        with ClipLoader(videos, **options) as loader:
            return contents(loader) + contents(loader)

    naive = two_epochs(lookahead=1, workers=1)
    budget = 4 * 2 * clips.num_frames * SIZE[0] * SIZE[1] * 3
    for options in [{"workers": 3}, {"lookahead": 9}, {"memory_budget": budget}]:
        assert two_epochs(**options) == naive, options


def test_an_epoch_of_random_clips_takes_each_video_once(videos, store):
    clips = RandomClips(num_frames=4, stride=2)
    with ClipLoader(videos, clips=clips, batch_size=3, size=SIZE, store=store) as loader:
        assert len(loader) == 2
        assert sorted(v for batch in loader for v in batch.video.tolist()) == [0, 1, 2, 3]


def test_a_batch_that_no_epoch_fills_holds_all_of_it(videos, store):
    """As the whole set is one batch for an evaluation: 4 videos, 3 clips of each."""
    clips = UniformClips(num_clips=3, num_frames=5)
    with ClipLoader(videos, clips=clips, batch_size=99, size=SIZE, store=store) as loader:
        [batch] = loader
    assert sorted(batch.video.tolist()) == [each for each in range(4) for _ in range(3)]


def test_a_clip_that_is_longer_than_a_video_names_it_and_says_what_is_possible(videos, store):
    message = r"a clip needs 31 frames, .*video-3\.mp4 has 18 \(and 2 more are .* choose"
    with pytest.raises(ConfigError, match=message):
        ClipLoader(videos, size=SIZE, store=store)


def test_the_video_that_is_too_short_is_named_where_others_were_left_out(videos, store, tmp_path):
    (tmp_path / "text.mp4").write_text("this is no video")
    paths = [tmp_path / "text.mp4", videos[0], videos[3]]
    clips = UniformClips(num_clips=1, num_frames=30)
    with pytest.raises(ConfigError, match=r"30 frames, .*video-3\.mp4 has 18 \(and 0 more"):
        ClipLoader(paths, clips=clips, size=SIZE, store=store, on_error="skip")


def test_the_default_clips_are_16_frames_two_apart(videos, store):
    with ClipLoader(videos[:1], batch_size=1, size=SIZE, store=store) as loader:
        (batch,) = loader
    assert batch.index.diff().tolist() == [[2] * 15]


@pytest.mark.parametrize(("ranks", "batch_size"), [(1, 7), (2, 4), (3, 5), (7, 2)])
def test_an_evaluation_on_many_ranks_counts_each_clip_once(videos, store, ranks, batch_size):
    """Ten clips of each video; where they do not share out evenly, the first come again, marked."""
    counted, given, steps = Counter(), 0, set()
    for rank in range(ranks):
        with ClipLoader(
            videos,
            clips=UniformClips(num_clips=10, num_frames=3),
            batch_size=batch_size,
            size=SIZE,
            store=store,
            workers=1,
            rank=rank,
            num_replicas=ranks,
        ) as loader:
            batches = list(loader)
        steps.add(len(batches))
        for batch in batches:
            given += len(batch)
            kept = ~batch.is_repeated
            places = zip(batch.video[kept].tolist(), batch.index[kept, 0].tolist(), strict=True)
            counted.update(places)
    assert counted.total() == 40
    assert given == -(-40 // ranks) * ranks
    assert len(steps) == 1
    per_video = Counter(video for video, _ in counted.elements())
    assert per_video == {0: 10, 1: 10, 2: 10, 3: 10}

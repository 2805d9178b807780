"""Batches of frames and clips: the right pixels in the planned order, with any decoder."""

import inspect
import time
from collections import Counter
from itertools import chain, islice

import pytest
import torch

from headrace import SequentialFrames, ShuffledFrames, Source, UniformClips, UniformFrames
from headrace.errors import CallError, NoLengthError
from loaders import videos as kit
from loaders.videos import contents, epochs, samples, takes

pytestmark = pytest.mark.filterwarnings("ignore::headrace.errors.SkippedVideosWarning")

FRAMES = [
    SequentialFrames(),
    SequentialFrames(stride=3),
    UniformFrames(),
    UniformFrames(over="seconds"),
    UniformFrames(over="videos"),
    UniformFrames(over=(1.0, 0.0, 2.0, 1.0)),
    ShuffledFrames(),
    ShuffledFrames(over="seconds"),
    kit.BURSTS,
]


@pytest.mark.parametrize("sampler", [*FRAMES, *kit.CLIP_SAMPLERS], ids=repr)
def test_every_frame_equals_a_plain_linear_decode(loader, plain, sampler):
    door, option = takes(sampler)
    of_clip = (sampler.num_frames,) if door == "clips" else ()
    batches = list(loader(door, **option))
    for batch in batches:
        assert torch.equal(batch.frames, plain.of(batch))
        assert batch.frames.shape == (len(batch), *of_clip, 3, *kit.SIZE)
        assert batch.index.shape == batch.pts_seconds.shape == (len(batch), *of_clip)
        assert batch.video.shape == (len(batch),)
        assert batch.frames.dtype == torch.uint8
        flat = batch.frames.flatten(0, -4)
        assert flat.is_contiguous(memory_format=torch.channels_last)
    size = kit.DOORS[door][1]["batch_size"]
    assert {len(batch) for batch in batches[:-1]} <= {size}


@pytest.mark.parametrize("sampling", [UniformFrames(), kit.BURSTS], ids=repr)
def test_frames_held_as_yuv420_are_near_the_exact_ones(loader, plain, sampling):
    for batch in loader(sampling=sampling, hold="yuv420"):
        assert (batch.frames.float() - plain.of(batch).float()).abs().mean() < 4


def test_yuv420_holds_twice_as_many_frames(loader):
    rgb, yuv = (loader(memory_budget=60 * kit.FRAME_BYTES, hold=hold) for hold in ("rgb", "yuv420"))
    assert yuv.lookahead > 1.7 * rgb.lookahead


def test_times_are_those_of_the_videos(loader, videos, store):
    indexes = [store.load(each) for each in map(Source, videos)]
    for video, index, seconds in samples(loader(), "video", "index", "pts_seconds"):
        assert seconds == pytest.approx(indexes[video].seconds(index))


def test_an_epoch_of_random_clips_takes_each_video_once(loader):
    each = loader("clips", batch_size=3)
    assert len(each) == 2
    assert sorted(samples(each, "video")) == [(0,), (1,), (2,), (3,)]


BY_CHANCE = pytest.mark.parametrize(
    ("door", "options"), [("frames", {}), ("cameras", {"shuffle": True})]
)


@BY_CHANCE
def test_each_epoch_and_seed_has_an_order_of_its_own_and_the_same_in_every_run(
    loader, door, options
):
    one, other = loader(door, **options), loader(door, **options)
    found = [contents(one) for _ in range(3)]
    assert found[0] != found[1] != found[2]
    for epoch in (2, 1):
        other.set_epoch(epoch)
        assert contents(other) == found[epoch]
    assert contents(loader(door, seed=1, **options)) not in found


def test_the_seed_may_be_that_of_the_sampler(loader):
    assert contents(loader(sampling=UniformFrames(seed=1))) == contents(loader(seed=1))


@BY_CHANCE
@pytest.mark.parametrize("on_early_exit", [None, "continue"])
def test_a_random_epoch_that_was_left_early_goes_on(loader, on_early_exit, door, options):
    """However often an iteration ends early, each batch comes once, then the next epoch."""
    each = loader(door, on_early_exit=on_early_exit, **options)
    whole = contents([*each, *each])
    again = loader(door, on_early_exit=on_early_exit, **options)
    seen = []
    while len(seen) < len(whole):
        seen += contents(islice(again, 5))
        assert len(again) == len(each)
    assert seen == whole
    assert again.epoch == 2


def test_loaders_in_order_or_on_request_start_again(loader):
    ways = [{"sampling": SequentialFrames()}, {"on_early_exit": "restart"}, {"door": "cameras"}]
    for each in (loader(**way) for way in ways):
        first = contents(islice(each, 2))
        assert contents(each)[:2] == first
        assert each.epoch == 1


def test_an_epoch_that_was_left_early_costs_nothing_twice(loader):
    each = loader(sampling=ShuffledFrames(), prefetch_next_epoch=False, lookahead=1000)
    for _ in range(4):
        list(islice(each, 3))
    assert each.epoch == 1
    assert each.statistics.frames_decoded < 1.2 * 113


def test_a_wide_window_decodes_each_frame_once_and_a_naive_one_over_and_over(loader, plain):
    wide = loader(sampling=ShuffledFrames(), prefetch_next_epoch=False, lookahead=1000)
    naive = loader(sampling=ShuffledFrames(), prefetch_next_epoch=False, lookahead=1)
    assert len(wide) == 12
    assert sorted(samples(wide, "video", "index")) == plain.places
    list(naive)
    frames = len(plain.places)
    assert wide.statistics.frames_delivered == frames
    assert frames <= wide.statistics.frames_decoded <= 1.2 * frames
    assert naive.statistics.amplification > 3
    assert wide.statistics.seeks < naive.statistics.seeks / 3
    assert wide.statistics.held_bytes == 0


def test_a_default_window_widens_and_delivers_the_same(loader):
    own = loader(sampling=ShuffledFrames(), prefetch_next_epoch=False)
    asked = loader(sampling=ShuffledFrames(), prefetch_next_epoch=False, lookahead=own.lookahead)
    assert contents(own) == contents(asked)
    assert own.statistics.frames_decoded > asked.statistics.frames_decoded, "it began narrow"


def test_the_next_epoch_finds_its_first_frames_decoded(loader):
    each = loader(sampling=ShuffledFrames())
    list(each)
    given_up = time.monotonic() + 60
    while not each.statistics.held_bytes:  # threads decode ahead without a request
        assert time.monotonic() < given_up, "nothing was decoded for the next epoch"
    list(each)
    decoded = each.statistics.frames_decoded
    assert decoded < 1.2 * each.statistics.frames_delivered + 113


def test_memory_in_use_stays_within_the_budget(loader):
    each = loader(memory_budget=50 * kit.FRAME_BYTES, lookahead=1000)
    epochs(each, 3)
    assert each.statistics.most_held_bytes <= 30 * kit.FRAME_BYTES


def test_drop_last_leaves_out_the_smaller_batch(loader):
    assert len(loader(drop_last=True)) == 11
    assert [len(batch) for batch in loader(drop_last=True)] == [10] * 11
    assert [len(batch) for batch in loader()] == [10] * 11 + [3]


def test_a_batch_that_no_epoch_fills_holds_all_of_it(loader, plain):
    """In little memory, too: the budget is checked against its real size."""
    options = {"batch_size": 10_000, "sampling": ShuffledFrames()}
    each = loader(memory_budget=3 * 113 * kit.FRAME_BYTES * 2, **options)
    assert len(each) == 1
    for _ in range(2):
        [batch] = each
        assert torch.equal(batch.frames, plain.of(batch))
        assert sorted(samples(batch, "video", "index")) == plain.places
    resumed = loader(**options)
    resumed.load_state_dict(each.state_dict())
    assert contents(resumed) == contents(each)
    [batch] = loader("clips", clips=kit.CLIP_SAMPLERS[3], batch_size=99)
    assert sorted(batch.video.tolist()) == [each for each in range(4) for _ in range(3)]


def test_own_size_is_kept_where_it_is_one_and_default_clips_are_16_frames_two_apart(loader, videos):
    (batch,) = loader("clips", videos[:1], batch_size=1, clips=None, size=None)
    assert batch.frames.shape == (1, 16, 3, 64, 96)
    assert batch.index.diff().tolist() == [[2] * 15]


@pytest.mark.parametrize(("ranks", "batch_size"), [(1, 7), (2, 4), (3, 5), (7, 2)])
def test_an_evaluation_on_many_ranks_counts_each_clip_once(loader, ranks, batch_size):
    """Ten clips of each video; the first are repeated, marked, if ranks cannot share evenly."""
    options = {"clips": UniformClips(num_clips=10, num_frames=3), "batch_size": batch_size}
    shares = [
        list(loader("clips", num_threads=1, rank=rank, num_replicas=ranks, **options))
        for rank in range(ranks)
    ]
    came = [*samples(chain(*shares), "video", "index", "is_repeated")]
    counted = [(video, first) for video, (first, *_), again in came if not again]
    assert len(set(counted)) == len(counted) == 40
    assert len(came) == -(-40 // ranks) * ranks
    assert len({*map(len, shares)}) == 1
    assert Counter(video for video, _ in counted) == {0: 10, 1: 10, 2: 10, 3: 10}


def test_invalid_arguments_are_refused_at_once(tmp_path, refused):
    text = tmp_path / "text.mp4"
    text.write_text("this is no video")
    refused("loader", text=text)
    assert issubclass(CallError, TypeError)
    assert issubclass(NoLengthError, TypeError)


def went_past(each):
    """Return an iteration of a loader that another one has overtaken."""
    first, second = iter(each), iter(each)
    next(first)
    next(second)
    return first


@pytest.mark.parametrize(
    ("door", "own"),
    [
        ("frames", ""),
        ("clips", "requests planned"),
        ("cameras", "Frames per camera"),
        ("windows", ""),
    ],
)
def test_help_documents_each_argument(door, own):
    kind, _ = kit.DOORS[door]
    documented = inspect.getdoc(kind.__init__)
    assert documented.startswith("Open the index of every")
    assert own in documented
    first, *names = inspect.signature(kind).parameters
    for name in (first, *names):
        assert documented.count(f"\n    {name}: ") == 1, name

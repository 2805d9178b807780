"""Batches of frames: the right pixels in the planned order, whatever decodes them."""

import gc
import os
import subprocess
import sys
import threading
import time
from functools import partial
from itertools import islice

import pytest
import torch

from headrace.errors import ConfigError
from headrace.sampling.bursts import Bursts
from headrace.sampling.frames import InOrder, Permutation, Uniform
from headrace.training.loader import FrameLoader
from headrace.video.source import Source
from training.videos import SIZE, contents

BURSTS = Bursts(frames_per_burst=4, lanes=10)
SAMPLINGS = [
    InOrder(),
    InOrder(stride=3),
    Uniform(),
    Uniform(over="seconds"),
    Uniform(over="videos"),
    Uniform(over=(1.0, 0.0, 2.0, 1.0)),
    Permutation(),
    Permutation(over="seconds"),
    BURSTS,
]


@pytest.fixture
def loader(opens, videos, store):
    asked = {"batch_size": 10, "size": SIZE, "store": store, "workers": 2}
    return partial(opens, FrameLoader, videos=videos, **asked)


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=repr)
def test_every_frame_equals_a_plain_linear_decode(loader, plain, sampling):
    batches = list(loader(sampling=sampling))
    for batch in batches:
        assert torch.equal(batch.frames, plain.of(batch))
        assert batch.frames.shape == (len(batch), 3, *SIZE)
        assert batch.frames.dtype == torch.uint8
        assert batch.frames.is_contiguous(memory_format=torch.channels_last)
    assert [len(batch) for batch in batches[:-1]] == [10] * (len(batches) - 1)


@pytest.mark.parametrize("sampling", [Uniform(), Permutation(over="seconds"), BURSTS], ids=repr)
def test_batches_are_those_of_naive_decoding_whatever_the_plan(loader, sampling):
    def two_epochs(**options):
        each = loader(sampling=sampling, seed=5, **options)
        return contents(each) + contents(each)

    naive = two_epochs(lookahead=1, workers=1)
    frame_bytes = SIZE[0] * SIZE[1] * 3
    for options in [
        {"workers": 1},
        {"workers": 3, "lookahead": 7},
        {"lookahead": 2000},
        {"memory_budget": 40 * frame_bytes},
        {"memory_budget": 80 * frame_bytes, "workers": 3},
    ]:
        assert two_epochs(**options) == naive, options


@pytest.mark.parametrize("sampling", [Uniform(), BURSTS], ids=repr)
def test_frames_held_as_yuv420_are_the_same_whatever_the_plan_and_near_the_exact_ones(
    loader, plain, sampling
):
    def epoch(**options):
        each = loader(sampling=sampling, hold="yuv420", **options)
        return list(each), each.statistics

    naive, _ = epoch(lookahead=1, workers=1)
    budget = 40 * SIZE[0] * SIZE[1] * 3
    for options in [{"workers": 3}, {"memory_budget": budget}]:
        assert contents(epoch(**options)[0]) == contents(naive), options
    for batch in naive:
        assert (batch.frames.float() - plain.of(batch).float()).abs().mean() < 4


def test_yuv420_holds_twice_as_many_frames(loader):
    budget = 60 * SIZE[0] * SIZE[1] * 3
    assert loader(memory_budget=budget, hold="yuv420").lookahead > 1.7 * (
        loader(memory_budget=budget).lookahead
    )


def test_times_are_those_of_the_videos(loader, videos, store):
    indexes = [store.load(each) for each in map(Source, videos)]
    for batch in loader():
        expected = [
            indexes[video].seconds(index)
            for video, index in zip(batch.video.tolist(), batch.index.tolist(), strict=True)
        ]
        assert batch.pts_seconds.tolist() == pytest.approx(expected)


def test_an_epoch_of_a_permutation_holds_each_frame_once(loader, plain):
    each = loader(sampling=Permutation())
    assert len(each) == 12
    for _ in range(2):
        seen = [
            frame
            for batch in each
            for frame in zip(batch.video.tolist(), batch.index.tolist(), strict=True)
        ]
        assert sorted(seen) == [(v, i) for v, f in enumerate(plain.frames) for i in range(len(f))]


def test_each_epoch_has_an_order_of_its_own_and_the_same_in_every_run(loader):
    one, other = loader(), loader()
    epochs = [contents(one) for _ in range(3)]
    assert epochs[0] != epochs[1] != epochs[2]
    other.set_epoch(2)
    assert contents(other) == epochs[2]
    other.set_epoch(1)
    assert contents(other) == epochs[1]


def test_another_seed_gives_other_batches(loader):
    assert contents(loader(seed=1)) != contents(loader(seed=2))
    assert contents(loader(sampling=Uniform(seed=1))) == contents(loader(seed=1))


def test_weights_may_be_said_by_path(loader, videos):
    weights = {videos[2]: 3.0, str(videos[0]): 1, videos[1]: 0, videos[3]: 0, "other.mp4": 5}
    each = loader(sampling=Uniform(over=weights))
    batches = list(each)
    assert contents(batches) == contents(loader(sampling=Uniform(over=(1.0, 0.0, 3.0, 0.0))))
    assert {int(video) for batch in batches for video in batch.video} == {0, 2}
    with pytest.raises(ConfigError, match=r"have none for .*video-1\.mp4 \(and 1 more videos\)"):
        loader(sampling=Permutation(over={videos[0]: 1.0, videos[2]: 1.0}))
    with pytest.raises(ConfigError, match="weights must be finite"):
        Uniform(over={videos[0]: -1.0})


@pytest.mark.parametrize("left_early", [None, "go_on"])
def test_a_random_epoch_that_was_left_early_goes_on(loader, left_early):
    """As often as it is left, each batch comes once, and the next epoch behind them."""
    each = loader(left_early=left_early)
    whole = contents([*each, *each])
    again = loader(left_early=left_early)
    seen = []
    while len(seen) < len(whole):
        seen += contents(islice(again, 5))
        assert len(again) == len(each)
    assert seen == whole
    assert again.epoch == 2


def test_what_is_in_order_or_was_asked_to_begins_again(loader):
    for each in (loader(sampling=InOrder()), loader(left_early="begin_again")):
        first = contents(islice(each, 2))
        assert contents(each)[:2] == first
        assert each.epoch == 1


def test_an_epoch_that_was_left_early_costs_nothing_twice(loader):
    each = loader(sampling=Permutation(), persistent=False, lookahead=1000)
    for _ in range(4):
        list(islice(each, 3))
    assert each.epoch == 1
    assert each.statistics.frames_decoded < 1.2 * 113


def test_a_wide_window_decodes_each_frame_once_and_a_naive_one_over_and_over(loader, plain):
    wide = loader(sampling=Permutation(), persistent=False, lookahead=1000)
    naive = loader(sampling=Permutation(), persistent=False, lookahead=1)
    list(wide), list(naive)
    frames = sum(map(len, plain.frames))
    assert wide.statistics.frames_delivered == frames
    assert frames <= wide.statistics.frames_decoded <= 1.2 * frames
    assert naive.statistics.amplification > 3
    assert wide.statistics.seeks < naive.statistics.seeks / 3
    assert wide.statistics.held_bytes == 0


def test_a_window_that_nobody_asked_for_widens_and_delivers_the_same(loader):
    own = loader(sampling=Permutation(), persistent=False)
    asked = loader(sampling=Permutation(), persistent=False, lookahead=own.lookahead)
    assert contents(own) == contents(asked)
    assert own.statistics.frames_decoded > asked.statistics.frames_decoded, "it began narrow"


def test_the_next_epoch_finds_its_first_frames_decoded(loader):
    each = loader(sampling=Permutation())
    list(each)
    given_up = time.monotonic() + 60
    while not each.statistics.held_bytes:  # the threads are at it while nobody asks
        assert time.monotonic() < given_up, "nothing was decoded for the next epoch"
    list(each)
    decoded = each.statistics.frames_decoded
    assert decoded < 1.2 * each.statistics.frames_delivered + 113


def test_what_is_held_stays_inside_the_budget(loader):
    frame_bytes = SIZE[0] * SIZE[1] * 3
    each = loader(memory_budget=50 * frame_bytes, lookahead=1000)
    for _ in range(3):
        list(each)
    assert each.statistics.most_held_bytes <= 30 * frame_bytes


def test_drop_last_leaves_out_the_smaller_batch(loader):
    assert len(loader(drop_last=True)) == 11
    assert [len(batch) for batch in loader(drop_last=True)] == [10] * 11
    assert [len(batch) for batch in loader()] == [10] * 11 + [3]


def test_a_batch_that_no_epoch_fills_holds_all_of_it(loader, plain):
    """In little memory, too: what it would need if it were full is not asked for."""
    budget = 3 * 113 * SIZE[0] * SIZE[1] * 3 * 2
    each = loader(batch_size=10_000, sampling=Permutation(), memory_budget=budget)
    assert len(each) == 1
    for _ in range(2):
        [batch] = each
        assert torch.equal(batch.frames, plain.of(batch))
        seen = sorted(zip(batch.video.tolist(), batch.index.tolist(), strict=True))
        assert seen == [(v, i) for v, f in enumerate(plain.frames) for i in range(len(f))]
    resumed = loader(batch_size=10_000, sampling=Permutation())
    resumed.load_state_dict(each.state_dict())
    assert contents(resumed) == contents(each)


def test_a_transform_is_given_uint8_frames_on_the_device(loader):
    def transform(frames):
        assert frames.dtype == torch.uint8
        assert frames.device.type == "cpu"
        return frames.float() / 255

    batch = next(iter(loader(transform=transform, device="cpu")))
    assert batch.frames.dtype == torch.float32
    assert 0.5 < batch.frames.max() <= 1


def test_own_size_is_kept_where_it_is_one(loader, videos):
    assert next(iter(loader(videos=videos[:1], size=None))).frames.shape == (10, 3, 64, 96)
    with pytest.raises(ConfigError, match=r"one size .* give a size"):
        loader(size=None)


def test_threads_end_with_the_loader(loader, videos, store):
    before = threading.active_count()
    each = FrameLoader(videos, batch_size=10, size=SIZE, store=store)
    next(iter(each))
    assert threading.active_count() > before
    del each
    gc.collect()
    assert threading.active_count() == before


def test_threads_end_with_the_epoch_where_nothing_persists(loader):
    before = threading.active_count()
    each = loader(persistent=False)
    list(each)
    assert threading.active_count() == before
    assert contents(each)


def test_a_loader_that_was_closed_may_be_iterated_again(loader):
    each = loader()
    whole = contents(each)
    each.close()
    each.set_epoch(0)
    assert contents(each) == whole


def test_two_iterations_at_once_are_told_apart(loader):
    each = loader()
    first, second = iter(each), iter(each)
    next(first)
    next(second)
    with pytest.raises(ConfigError, match="iterated anew"):
        next(first)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size must be an integer >= 1, got 0"),
        ({"batch_size": 200, "drop_last": True}, "ask for a batch_size of at most 113, or leave"),
        ({"memory_budget": 1000}, r"does not hold three batches of 10 frames .* are needed"),
        ({"memory_budget": "many"}, "a size must read like"),
        ({"batch_size": 2.0}, "batch_size must be an integer >= 1, got 2.0"),
        ({"workers": 1.5}, "workers must be an integer >= 1, got 1.5"),
        ({"left_early": "stop"}, "left_early must be one of go_on, begin_again, or None"),
        ({"transform": 3}, r"transform must be a function of frames, .* got int"),
        ({"lookahead": 0}, "lookahead must be an integer >= 1"),
        ({"videos": []}, "at least one video"),
        ({"on_error": "ignore"}, "one of raise, skip, conceal, got 'ignore'"),
        ({"rank": 1}, "rank and num_replicas go together"),
        ({"rank": 2, "num_replicas": 2}, "below the number of ranks"),
        ({"sampling": Uniform(over=(1.0,))}, "one weight is needed for each of 4 videos"),
        ({"size": (0, 5)}, "size"),
        ({"size": (33, 48), "hold": "yuv420"}, "even height and width, got 33x48"),
        ({"hold": "png"}, "hold must be one of rgb, yuv420, got 'png'"),
        ({"videos": "a.mp4"}, "a list of paths, got one path, 'a.mp4'"),
        ({"videos": None}, "a list of paths, got NoneType"),
        ({"videos": [3]}, "a video is named by its path, got int"),
        ({"drop_last": "no"}, "drop_last must be True or False, got 'no'"),
        ({"device": "cuda:x"}, "device must be one that torch knows, .* got 'cuda:x'"),
        ({"sampling": BURSTS, "batch_size": 11}, "ask for 11 lanes .* at most 10$"),
        ({"sampling": BURSTS, "rank": 1, "num_replicas": 2}, "ask for 20 lanes .* at most 5$"),
    ],
    ids=str,
)
def test_what_cannot_be_done_is_refused_at_once(loader, options, message):
    with pytest.raises(ConfigError, match=message):
        loader(**options)


def test_a_forgotten_loader_does_not_keep_the_program_from_ending(videos, store):
    """Its thread of jobs waits for room; nobody takes another batch."""
    script = f"""
import sys, time
from pathlib import Path
from headrace import FrameLoader, IndexStore, InOrder
loader = FrameLoader(
    [Path({str(videos[0])!r})], batch_size=4, size=(32, 48), memory_budget=20 * 32 * 48 * 3,
    sampling=InOrder(), store=IndexStore(Path({str(store.folder)!r})), workers=1,
)
batches = iter(loader)
next(batches)
while not loader._running.engine.room._changed._waiters:
    pass
1 / 0
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert "ZeroDivisionError" in done.stderr


def test_a_process_that_was_forked_has_threads_of_its_own(loader, plain):
    each = loader(workers=1)
    expected = contents(each)
    if (child := os.fork()) == 0:
        each.set_epoch(0)
        os._exit(contents(each) != expected)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

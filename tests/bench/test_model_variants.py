"""Cached frames of a video, and variants on them."""

from functools import partial
from itertools import islice

import numpy as np
import pytest
import torch

from headrace.bench.model_work import ModelRuns, cache_frames, check_scores_equal, decoding
from headrace.decode.index_store import IndexStore
from headrace.decode.open_decoder import open_index
from headrace.errors import BackendError, ConfigError, OpenError
from headrace.extraction.frame_reader import FrameReader
from headrace.preprocess.levels import build_preprocess
from headrace.testing.fake_clock import FakeClock
from models.tiny import IMAGES


def frames_of(path: str, store: IndexStore) -> list[bytes]:
    batches = list(FrameReader([path], index_store=store))
    return [frame.tobytes() for batch in batches for frame in batch.frames]


def test_batches_are_consecutive_frames_spread_over_the_video(clip, store):
    path = clip(90)
    known = frames_of(path, store)
    cached = cache_frames(path, 5, store)
    assert [batch.shape[0] for batch in cached.batches] == [5] * 4
    assert cached.num_frames == 20
    indices = [[known.index(frame.tobytes()) for frame in batch] for batch in cached.batches]
    for batch in indices:
        assert batch == list(range(batch[0], batch[0] + 5))
    starts = [batch[0] for batch in indices]
    assert len(set(starts)) == 4
    assert starts[-1] >= 45


def test_a_video_shorter_than_a_batch_repeats_its_frames(clip, store):
    path = clip(3)
    known = frames_of(path, store)
    [batch] = cache_frames(path, 8, store).batches
    assert [frame.tobytes() for frame in batch] == [known[k % 3] for k in range(8)]


def test_cached_frames_are_preprocessed_as_in_a_run(clip, store):
    cached = cache_frames(clip(12), 4, store)
    prepared = cached.prepared("simple", IMAGES)
    preprocess = build_preprocess("simple", IMAGES)
    for batch, tensor in zip(cached.batches, prepared, strict=True):
        assert torch.equal(tensor, preprocess(batch))
        assert tensor.shape == (4, 3, 4, 4)


def test_an_invalid_video_is_refused(tmp_path, store):
    path = tmp_path / "a.mp4"
    path.write_bytes(b"nothing")
    with pytest.raises(OpenError):
        cache_frames(str(path), 4, store)


def test_a_batch_larger_than_memory_is_refused_before_decoding(clip, store):
    with pytest.raises(ConfigError, match=r"a batch of 1000000000 frames of 96x128 takes .* GiB"):
        cache_frames(clip(3), 10**9, store)


@pytest.mark.parametrize(("other", "message"), [(0.5, "by 0.12 of"), (torch.nan, "by inf of")])
def test_the_difference_of_scores_is_relative_to_the_largest_score(other, message):
    batches = [torch.tensor([[1.0, -4.0]]), torch.tensor([[2.0, 0.0]])]
    check = partial(
        check_scores_equal, "scores differ", lambda b: b, batches=batches, device="cpu", fix=""
    )
    assert check(lambda b: b + 2**-9) == 2**-11
    with pytest.raises(BackendError, match=f"^scores differ: {message} the largest score"):
        check(lambda b: b + other)


def test_batches_run_in_turn_until_the_time_is_up_but_at_least_one():
    clock, seen = FakeClock(), []

    def run(batch):
        seen.append(int(batch[0]))
        clock.advance(1)

    batches = [np.full(2, k, np.uint8) for k in range(2)]
    runs = partial(ModelRuns, compute=None, cached=None, clock=clock)
    assert runs(seconds=2.5).passes(batches, run)() == 6
    assert seen == [0, 1, 0]
    assert runs(seconds=0).passes(batches, run)() == 2


def test_decoding_restarts_at_the_end_of_the_video(clip, store):
    with decoding(open_index(clip(7), store), 3) as counts:
        assert list(islice(counts, 5)) == [3, 3, 1, 3, 3]

"""Frames of a video held in memory, and ways that go through them."""

from functools import partial
from itertools import islice

import numpy as np
import pytest
import torch

from headrace.bench.model_variants import ModelRuns, decoding, hold_frames, prove_same
from headrace.decode.index_store import IndexStore
from headrace.decode.open_decoder import open_index
from headrace.errors import BackendError, ConfigError, OpenError
from headrace.extraction.frame_reader import FrameReader
from headrace.preprocess.levels import build_preprocess
from headrace.testing.fake_clock import FakeClock
from models.tiny import PICTURES


def frames_of(path: str, store: IndexStore) -> list[bytes]:
    batches = list(FrameReader([path], index_store=store))
    return [frame.tobytes() for batch in batches for frame in batch.frames]


def test_batches_of_frames_are_consecutive_and_from_all_over_the_video(clip, store):
    path = clip(90)
    known = frames_of(path, store)
    held = hold_frames(path, 5, store)
    assert [batch.shape[0] for batch in held.batches] == [5] * 4
    assert held.num_frames == 20
    places = [[known.index(frame.tobytes()) for frame in batch] for batch in held.batches]
    for batch in places:
        assert batch == list(range(batch[0], batch[0] + 5))
    starts = [batch[0] for batch in places]
    assert len(set(starts)) == 4
    assert starts[-1] >= 45


def test_a_video_shorter_than_a_batch_repeats_its_frames(clip, store):
    path = clip(3)
    known = frames_of(path, store)
    [batch] = hold_frames(path, 8, store).batches
    assert [frame.tobytes() for frame in batch] == [known[k % 3] for k in range(8)]


def test_held_frames_are_preprocessed_as_a_run_does(clip, store):
    held = hold_frames(clip(12), 4, store)
    prepared = held.prepared("simple", PICTURES)
    preprocess = build_preprocess("simple", PICTURES)
    for batch, tensor in zip(held.batches, prepared, strict=True):
        assert torch.equal(tensor, preprocess(batch))
        assert tensor.shape == (4, 3, 4, 4)


def test_a_file_that_is_no_video_is_refused(tmp_path, store):
    path = tmp_path / "a.mp4"
    path.write_bytes(b"nothing")
    with pytest.raises(OpenError):
        hold_frames(str(path), 4, store)


def test_a_batch_that_no_memory_holds_is_refused_before_it_is_decoded(clip, store):
    with pytest.raises(ConfigError, match=r"a batch of 1000000000 frames of 96x128 takes .* GiB"):
        hold_frames(clip(3), 10**9, store)


@pytest.mark.parametrize(("other", "said"), [(0.5, "by 0.12 of"), (torch.nan, "by inf of")])
def test_ways_are_as_far_apart_as_their_largest_difference_by_the_largest_score(other, said):
    batches = [torch.tensor([[1.0, -4.0]]), torch.tensor([[2.0, 0.0]])]
    prove = partial(prove_same, "it scores otherwise", lambda b: b, batches=batches, device="cpu")
    assert prove(lambda b: b + 2**-9, instead="") == 2**-11
    with pytest.raises(BackendError, match=f"^it scores otherwise: {said} the largest score"):
        prove(lambda b: b + other, instead="")


def test_batches_are_passed_in_turn_until_the_time_is_over_and_one_at_least():
    clock, seen = FakeClock(), []

    def run(batch):
        seen.append(int(batch[0]))
        clock.advance(1)

    batches = [np.full(2, k, np.uint8) for k in range(2)]
    runs = partial(ModelRuns, compute=None, cached=None, clock=clock)
    assert runs(seconds=2.5).passes(batches, run)() == 6
    assert seen == [0, 1, 0]
    assert runs(seconds=0).passes(batches, run)() == 2


def test_decoding_goes_on_from_the_start_of_the_video(clip, store):
    with decoding(open_index(clip(7), store), 3) as counts:
        assert list(islice(counts, 5)) == [3, 3, 1, 3, 3]

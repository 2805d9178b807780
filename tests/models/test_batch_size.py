"""The batch size that is chosen by measuring, on a clock that is set by hand."""

import pytest
import torch

from headrace.errors import BackendError
from headrace.models.batch_size import choose_batch_size, fastest, largest
from headrace.models.memory_peaks import KnownPeaks
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.testing.fake_clock import FakeClock
from models.tiny import Failing, Mean, tiny


def chosen_by_rate(seconds, *, most=256, budget_seconds=1e6, fails_from=None):
    """What is chosen where a batch of so many frames takes `seconds(size)`."""
    clock, seen = FakeClock(), []

    def run(size: int) -> None:
        if fails_from is not None and size >= fails_from:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried\nmore")
        if size not in seen:
            seen.append(size)
        clock.advance(seconds(size))

    return fastest(run, most=most, budget_seconds=budget_seconds, clock=clock), seen


def test_the_smallest_of_the_fastest_sizes_is_taken():
    choice, seen = chosen_by_rate(lambda size: 1 + 0.1 * size, most=64)
    assert seen == [1, 2, 4, 8, 16, 32, 64]
    assert choice.batch_size == 64
    assert "frames/s of the model by batch size: 1: 0.909, 2: 1.67, 4: 2.86" in choice.why
    assert choice.why.endswith("64 are the most there is reason or memory for")


def test_where_larger_batches_are_no_faster_none_further_is_tried():
    choice, seen = chosen_by_rate(lambda size: 0.1 * size)
    assert (choice.batch_size, seen) == (1, [1, 2, 4])
    assert choice.why.endswith("larger ones are no faster")
    choice, seen = chosen_by_rate(lambda size: 1.0 if size <= 8 else 1.0 * size)
    assert (choice.batch_size, seen) == (8, [1, 2, 4, 8, 16, 32])


def test_no_size_is_begun_that_would_take_longer_than_there_is_time():
    choice, seen = chosen_by_rate(lambda size: 1.0, budget_seconds=20)
    assert (choice.batch_size, seen) == (16, [1, 2, 4, 8, 16])
    assert choice.why.endswith("would take too long to measure")


def test_a_size_that_does_not_fit_ends_the_trials_and_smaller_ones_stand():
    choice, _ = chosen_by_rate(lambda size: 1.0, fails_from=16)
    assert choice.batch_size == 8
    assert choice.why.endswith("16 do not fit into the memory")


def test_a_model_that_takes_not_one_frame_is_an_error_of_one_line():
    with pytest.raises(BackendError, match=r"fails with batches of 1: .*can't allocate") as caught:
        chosen_by_rate(lambda size: 1.0, fails_from=1)
    assert "\n" not in str(caught.value)


def chosen_by_memory(*, limit, most=256, fails_from=None, known=None):
    """What is chosen where the model holds 100 bytes and a frame takes 10."""
    peaks, ran = [0], []

    def run(size: int) -> None:
        if fails_from is not None and size >= fails_from:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        ran.append(size)
        peaks[0] = 100 + 10 * size

    choice = largest(run, lambda: peaks[0], most=most, limit_bytes=limit, known=known)
    return choice, ran


def test_the_largest_that_fits_is_found_without_running_one_that_does_not():
    choice, ran = chosen_by_memory(limit=500)
    assert (choice.batch_size, ran) == (32, [1, 2, 4, 8, 16, 32])
    assert "64 would not fit" in choice.why
    assert chosen_by_memory(limit=10**9, most=100)[0].batch_size == 64


def test_what_runs_out_of_memory_in_spite_of_the_rule_is_backed_off_from():
    choice, _ = chosen_by_memory(limit=10**9, fails_from=8)
    assert choice.batch_size == 4
    assert choice.why.endswith("8 do not fit into the memory")


def test_an_error_that_is_not_of_memory_is_not_taken_for_one():
    with pytest.raises(BackendError, match="tiny cannot run on cpu with batches of 1: out of mem"):
        choose_batch_size(
            tiny(Failing()), picture_size=(8, 8), most=4, budget_seconds=1, clock=SYSTEM_CLOCK
        )


def test_a_real_model_is_measured_up_to_what_makes_sense():
    module = Mean()
    choice = choose_batch_size(
        tiny(module), picture_size=(8, 8), most=5, budget_seconds=5, clock=SYSTEM_CLOCK
    )
    assert choice.batch_size in (1, 2, 4)
    assert not module._forward_hooks


def test_frames_that_fill_the_memory_by_themselves_come_one_at_a_time():
    choice = choose_batch_size(
        tiny(Mean()),
        picture_size=(10**6, 10**6),
        most=256,
        budget_seconds=5,
        clock=SYSTEM_CLOCK,
    )
    assert choice.batch_size == 1


def known(**peaks):
    sizes = {int(size.removeprefix("of_")): peak for size, peak in peaks.items()}
    return KnownPeaks(peaks=sizes, origin="the table")


def test_where_a_table_is_at_hand_the_search_begins_with_what_fits_by_it():
    choice, ran = chosen_by_memory(limit=500, known=known(of_1=110, of_2=120))
    assert (choice.batch_size, ran) == (32, [32])
    assert "by the table, where the search began, 64 would take" in choice.why


def test_what_the_table_promised_and_does_not_fit_is_halved():
    choice, ran = chosen_by_memory(limit=10**9, most=64, known=known(of_1=1), fails_from=8)
    assert (choice.batch_size, ran) == (4, [4])
    assert choice.why.endswith(
        "by the table, where the search began, 8 do not fit into the memory now"
    )
    with pytest.raises(BackendError, match="fails with batches of 1"):
        chosen_by_memory(limit=10**9, known=known(of_1=1), fails_from=1)


def test_a_table_by_which_nothing_fits_is_not_believed_over_the_device():
    choice, ran = chosen_by_memory(limit=500, known=known(of_1=501, of_2=600))
    assert (choice.batch_size, ran) == (1, [1])


def test_on_the_cpu_a_table_says_what_a_frame_takes():
    def chosen(peaks):
        return choose_batch_size(
            tiny(Mean()),
            picture_size=(8, 8),
            most=4,
            budget_seconds=5,
            clock=SYSTEM_CLOCK,
            known=peaks,
        )

    choice = chosen(known(of_1=10, of_4=10**15))
    assert choice.batch_size == 1, "more would fill the memory"
    assert choice.why.endswith("; what a frame takes is from the table")
    assert "table" not in chosen(known(of_1=10)).why, "one size does not tell what a frame takes"

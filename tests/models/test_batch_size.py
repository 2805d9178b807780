"""The batch size that is chosen by measuring, and what is known of memory before."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torchvision import models

from headrace.decode.index_store import IndexStore
from headrace.errors import BackendError, ConfigError
from headrace.models.batch_size import choose_batch_size, fastest, largest
from headrace.models.load import load_classifier
from headrace.models.memory_peaks import KnownPeaks, predicted_peak
from headrace.models.memory_table import MemoryCell, MemoryKey, MemoryTable, MemoryTables
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


@given(
    held=st.integers(0, 10**9),
    frame=st.integers(0, 10**7),
    known=st.sets(st.integers(1, 64), min_size=2),
    asked=st.integers(1, 512),
)
def test_where_peaks_grow_evenly_the_prediction_is_exact_or_not_below_what_is_known(
    held, frame, known, asked
):
    found = predicted_peak({size: held + frame * size for size in known}, asked)
    assert found == pytest.approx(held + frame * asked, abs=1)


@pytest.mark.parametrize(
    ("peaks", "asked", "predicted"),
    [
        ({4: 100}, 8, 200),
        ({4: 100}, 5, 125),
        ({4: 100}, 1, 25),
        ({1: 100, 2: 90}, 4, 100),  # never less than a smaller batch took
        ({1: 10, 2: 20, 4: 80}, 8, 200),  # by the last two
        ({1: 10, 2: 20, 4: 80}, 3, 50),  # by those beside it
        ({1: 10, 2: 20, 4: 80}, 2, 20),
    ],
)
def test_the_line_goes_through_the_two_next_to_it(peaks, asked, predicted):
    assert predicted_peak(peaks, asked) == predicted


KEY = MemoryKey(
    device="Card A",
    memory_bytes=8 << 30,
    driver="570.1",
    torch="2.9.0",
    model="resnet50",
    precision="float16",
    prep_level="medium",
    input=(3, 224, 224),
)


def cell(height, batch_size, peak_bytes, model_bytes=None):
    size = height, height * 16 // 9
    return MemoryCell(
        size=size, batch_size=batch_size, peak_bytes=peak_bytes, model_bytes=model_bytes
    )


TABLE = MemoryTable(
    key=KEY,
    measured="2026-11-22",
    cells=(cell(360, 1, 10, 5), cell(360, 2, 20, 7), cell(1080, 1, 100, 5), cell(1080, 4, 400)),
)


def test_frames_take_what_the_next_larger_ones_took():
    assert TABLE.of_frames((100, 100)).peaks == {1: 10, 2: 20}
    assert TABLE.of_frames((360, 640)).peaks == {1: 10, 2: 20}
    assert TABLE.of_frames((640, 361)).peaks == {1: 100, 4: 400}
    assert TABLE.of_frames((2160, 3840)) is None


def test_the_model_alone_takes_the_same_whatever_was_decoded():
    assert TABLE.of_model().peaks == {1: 5, 2: 7}
    assert replace(TABLE, cells=(cell(360, 1, 10),)).of_model() is None


def test_what_was_kept_is_loaded_again_and_measured_anew_replaces_it(tmp_path):
    tables = MemoryTables(tmp_path)
    assert tables.load(KEY) is None
    path = tables.keep(KEY, TABLE.cells, "2026-11-22")
    assert tables.load(KEY) == TABLE
    tables.keep(KEY, (cell(360, 2, 25), cell(360, 8, 80)), "2026-11-23")
    found = tables.load(KEY)
    assert found.of_frames((360, 640)).peaks == {1: 10, 2: 25, 8: 80}
    assert found.of_frames((1080, 1920)).peaks == {1: 100, 4: 400}
    assert found.measured == "2026-11-23"
    assert list(tmp_path.iterdir()) == [path], "nothing half-written is left"


def test_each_key_has_a_file_of_its_own(tmp_path):
    tables = MemoryTables(tmp_path)
    tables.keep(KEY, TABLE.cells, "2026-11-22")
    assert tables.load(replace(KEY, driver="571.0")) is None
    assert tables.load(replace(KEY, torch="2.9.1")) is None


def test_a_file_that_was_renamed_is_not_taken_for_another_key(tmp_path):
    tables, other = MemoryTables(tmp_path), replace(KEY, model="vgg16")
    tables.keep(KEY, TABLE.cells, "2026-11-22").rename(tables.entry(other))
    assert tables.load(other) is None


def test_tables_lie_beside_the_indexes(tmp_path):
    assert MemoryTables.beside(IndexStore(tmp_path / "index")).folder == tmp_path / "memory"
    assert MemoryTables.beside(None).folder == MemoryTables().folder
    assert MemoryTables().folder.parent == IndexStore().folder.parent


REFUSED = RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes.")


def raising(error: BaseException):
    def fail(*given: object, **options: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize("error", [REFUSED, MemoryError()], ids=["PyTorch", "Python"])
@pytest.mark.parametrize("weights", ["none", "DEFAULT"])
def test_a_model_without_room_is_one_line(monkeypatch, error, weights):
    monkeypatch.setattr(models, "get_model", raising(error))
    with pytest.raises(BackendError, match=r"vgg16 does not fit into .* use a smaller") as caught:
        load_classifier("vgg16", weights)
    assert "\n" not in str(caught.value)


def test_a_checkpoint_without_room_is_not_called_unreadable(monkeypatch, tmp_path):
    monkeypatch.setattr(torch, "load", raising(REFUSED))
    with pytest.raises(BackendError, match="vgg16 does not fit into the memory"):
        load_classifier("vgg16", str(tmp_path / "weights.pt"))


def test_what_else_goes_wrong_is_called_what_it_is(monkeypatch):
    monkeypatch.setattr(models, "get_model", raising(RuntimeError("no such thing")))
    with pytest.raises(ConfigError, match="can be had neither from the cache"):
        load_classifier("vgg16", "DEFAULT")

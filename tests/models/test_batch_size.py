"""The batch size that is chosen by measuring, and what is known of memory before."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torchvision import models

from headrace import BackendError, ConfigError, IndexStore
from headrace.models import memory_table
from headrace.models.batch_size import choose_batch_size, fastest, largest
from headrace.models.load import load_classifier
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.testing.fake_clock import FakeClock
from models.tiny import Failing, Mean, refused, tiny

NO_ROOM = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes.\nmore"
DOUBLES = [1, 2, 4, 8, 16, 32, 64]


def by_rate(seconds, *, most=256, budget_seconds=1e6, fails_from=1 << 30):
    """What is chosen where a batch of so many frames takes `seconds(size)`."""
    clock, seen = FakeClock(), {}

    def run(size: int) -> None:
        if size >= fails_from:
            raise RuntimeError(NO_ROOM)
        seen[size] = True
        clock.advance(seconds(size))

    return fastest(run, most=most, budget_seconds=budget_seconds, clock=clock), list(seen)


def by_memory(*, limit, most=256, fails_from=1 << 30, known=None):
    """What is chosen where the model holds 100 bytes and a frame takes 10."""
    peaks, ran = [0], []

    def run(size: int) -> None:
        if size >= fails_from:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        ran.append(size)
        peaks[0] = 100 + 10 * size

    known = known and memory_table.KnownPeaks(peaks=known, origin="the table")
    return largest(run, lambda: peaks[0], most=most, limit_bytes=limit, known=known), ran


def growing(size):
    return 1 + 0.1 * size


RATES = "of the model by batch size: 1: 0.909, 2: 1.67, 4: 2.86"
BY_RATE = [
    (growing, {"most": 64}, 64, DOUBLES, RATES),
    (growing, {"most": 64}, 64, DOUBLES, "64 are the most there is reason or memory for"),
    (lambda size: 0.1 * size, {}, 1, [1, 2, 4], "larger ones are no faster"),
    (lambda size: 1.0 if size <= 8 else 1.0 * size, {}, 8, DOUBLES[:6], ""),
    (lambda size: 1.0, {"budget_seconds": 20}, 16, DOUBLES[:5], "would take too long to measure"),
    (lambda size: 1.0, {"fails_from": 16}, 8, DOUBLES[:4], "16 do not fit into the memory"),
]
ROOM, FIRST = {"limit": 10**9}, "by the table, where the search began,"
NO_ROOM_NOW = f"{FIRST} 8 do not fit into the memory now"
BY_MEMORY = [
    ({"limit": 500}, 32, DOUBLES[:6], "64 would not fit"),
    (ROOM | {"most": 100}, 64, DOUBLES, ""),
    (ROOM | {"fails_from": 8}, 4, DOUBLES[:3], "8 do not fit into the memory"),
    ({"limit": 500, "known": {1: 110, 2: 120}}, 32, [32], f"{FIRST} 64 would take"),
    (ROOM | {"most": 64, "known": {1: 1}, "fails_from": 8}, 4, [4], NO_ROOM_NOW),
    # A table by which nothing fits is not believed over the device.
    ({"limit": 500, "known": {1: 501, 2: 600}}, 1, [1], ""),
]
CHOICES = [
    *((partial(by_rate, seconds, **given), *rest) for seconds, given, *rest in BY_RATE),
    *((partial(by_memory, **given), *rest) for given, *rest in BY_MEMORY),
]


@pytest.mark.parametrize(("choose", "size", "tried", "why"), CHOICES)
def test_sizes_are_tried_as_far_as_they_are_faster_or_fit(choose, size, tried, why):
    choice, seen = choose()
    assert (choice.batch_size, seen) == (size, tried)
    assert why in choice.why


def chosen(module, *, size=(8, 8), most=4, known=None):
    if known is not None:
        known = memory_table.KnownPeaks(peaks=known, origin="the table")
    return choose_batch_size(
        tiny(module),
        picture_size=size,
        most=most,
        budget_seconds=5,
        clock=SYSTEM_CLOCK,
        known=known,
    )


def test_a_model_that_takes_not_one_frame_is_an_error_of_one_line():
    with refused("fails with batches of 1: ... can't allocate", error=BackendError):
        by_rate(lambda size: 1.0, fails_from=1)
    with refused("fails with batches of 1", error=BackendError):
        by_memory(limit=10**9, known={1: 1}, fails_from=1)
    # An error that is not of memory is not taken for one.
    with refused("tiny cannot run on cpu with batches of 1: out of mem", error=BackendError):
        chosen(Failing())


def test_a_real_model_is_measured_up_to_what_makes_sense():
    module = Mean()
    assert chosen(module, most=5).batch_size in (1, 2, 4)
    assert not module._forward_hooks


def test_frames_that_fill_the_memory_by_themselves_come_one_at_a_time():
    assert chosen(Mean(), size=(10**6, 10**6), most=256).batch_size == 1


def test_on_the_cpu_a_table_says_what_a_frame_takes():
    choice = chosen(Mean(), known={1: 10, 4: 10**15})
    assert choice.batch_size == 1, "more would fill the memory"
    assert choice.why.endswith("; what a frame takes is from the table")
    assert "table" not in chosen(Mean(), known={1: 10}).why, "one size does not tell it"


@given(
    held=st.integers(0, 10**9),
    frame=st.integers(0, 10**7),
    known=st.sets(st.integers(1, 64), min_size=2),
    asked=st.integers(1, 512),
)
def test_where_peaks_grow_evenly_the_prediction_is_exact(held, frame, known, asked):
    found = memory_table.predicted_peak({size: held + frame * size for size in known}, asked)
    assert found == pytest.approx(held + frame * asked, abs=1)


PREDICTED = [
    ({4: 100}, 8, 200),
    ({4: 100}, 5, 125),
    ({4: 100}, 1, 25),
    ({1: 100, 2: 90}, 4, 100),  # never less than a smaller batch took
    ({1: 10, 2: 20, 4: 80}, 8, 200),  # by the last two
    ({1: 10, 2: 20, 4: 80}, 3, 50),  # by those beside it
    ({1: 10, 2: 20, 4: 80}, 2, 20),
]


@pytest.mark.parametrize(("peaks", "asked", "predicted"), PREDICTED)
def test_the_line_goes_through_the_two_next_to_it(peaks, asked, predicted):
    assert memory_table.predicted_peak(peaks, asked) == predicted


KEY = memory_table.MemoryKey(
    device="Card A",
    memory_bytes=8 << 30,
    driver="570.1",
    torch="2.9.0",
    model="resnet50",
    precision="float16",
    prep_level="medium",
    input=(3, 224, 224),
)
DAY = "2026-11-22"


def cell(height, batch_size, peak_bytes, model_bytes=None):
    size = height, height * 16 // 9
    return memory_table.MemoryCell(
        size=size, batch_size=batch_size, peak_bytes=peak_bytes, model_bytes=model_bytes
    )


CELLS = (cell(360, 1, 10, 5), cell(360, 2, 20, 7), cell(1080, 1, 100, 5), cell(1080, 4, 400))
TABLE = memory_table.MemoryTable(key=KEY, measured=DAY, cells=CELLS)


@pytest.fixture
def tables(tmp_path):
    return memory_table.MemoryTables(tmp_path)


def test_frames_take_what_the_next_larger_ones_took_and_the_model_alone_always_the_same():
    assert TABLE.of_frames((100, 100)).peaks == {1: 10, 2: 20}
    assert TABLE.of_frames((360, 640)).peaks == {1: 10, 2: 20}
    assert TABLE.of_frames((640, 361)).peaks == {1: 100, 4: 400}
    assert TABLE.of_frames((2160, 3840)) is None
    assert TABLE.of_model().peaks == {1: 5, 2: 7}
    assert replace(TABLE, cells=(cell(360, 1, 10),)).of_model() is None


def test_what_was_kept_is_loaded_again_and_measured_anew_replaces_it(tables):
    assert tables.load(KEY) is None
    path = tables.keep(KEY, CELLS, DAY)
    assert tables.load(KEY) == TABLE
    tables.keep(KEY, (cell(360, 2, 25), cell(360, 8, 80)), "2026-11-23")
    found = tables.load(KEY)
    assert found.of_frames((360, 640)).peaks == {1: 10, 2: 25, 8: 80}
    assert found.of_frames((1080, 1920)).peaks == {1: 100, 4: 400}
    assert found.measured == "2026-11-23"
    assert list(tables.folder.iterdir()) == [path], "nothing half-written is left"


def test_each_key_has_a_file_of_its_own_and_a_renamed_one_is_not_another_keys(tables):
    path, other = tables.keep(KEY, CELLS, DAY), replace(KEY, model="vgg16")
    assert tables.load(replace(KEY, driver="571.0")) is None
    assert tables.load(replace(KEY, torch="2.9.1")) is None
    path.rename(tables.entry(other))
    assert tables.load(other) is None


def test_tables_lie_beside_the_indexes(tmp_path):
    beside = memory_table.MemoryTables.beside(IndexStore(tmp_path / "index"))
    assert beside.folder == tmp_path / "memory"
    assert memory_table.MemoryTables.beside(None).folder == memory_table.MemoryTables().folder
    assert memory_table.MemoryTables().folder.parent == IndexStore().folder.parent


def raising(error: BaseException):
    def fail(*given: object, **options: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize("error", [RuntimeError(NO_ROOM), MemoryError()], ids=["PyTorch", "Python"])
@pytest.mark.parametrize("weights", ["none", "DEFAULT"])
def test_a_model_without_room_is_one_line(monkeypatch, error, weights):
    monkeypatch.setattr(models, "get_model", raising(error))
    with refused("vgg16 does not fit into ... use a smaller", error=BackendError):
        load_classifier("vgg16", weights)


def test_a_checkpoint_without_room_is_not_called_unreadable(monkeypatch, tmp_path):
    monkeypatch.setattr(torch, "load", raising(RuntimeError(NO_ROOM)))
    with pytest.raises(BackendError, match="vgg16 does not fit into the memory"):
        load_classifier("vgg16", str(tmp_path / "weights.pt"))


def test_what_else_goes_wrong_is_called_what_it_is(monkeypatch):
    monkeypatch.setattr(models, "get_model", raising(RuntimeError("no such thing")))
    with pytest.raises(ConfigError, match="can be had neither from the cache"):
        load_classifier("vgg16", "DEFAULT")

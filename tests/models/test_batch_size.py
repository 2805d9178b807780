"""Measured batch sizes, and stored memory tables."""

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


def by_rate(seconds, *, max_batch_size=256, budget_seconds=1e6, fails_from=1 << 30):
    """Return the choice, and the sizes tried, if a batch takes `seconds(size)`."""
    clock, tried = FakeClock(), {}

    def run(size: int) -> None:
        if size >= fails_from:
            raise RuntimeError(NO_ROOM)
        tried[size] = True
        clock.advance(seconds(size))

    options = {"max_batch_size": max_batch_size, "budget_seconds": budget_seconds}
    return fastest(run, clock=clock, **options), list(tried)


def by_memory(*, limit, max_batch_size=256, fails_from=1 << 30, known=None):
    """Return the choice, and the sizes tried, of a model of 100 bytes plus 10 per frame."""
    peaks, tried = [0], []

    def run(size: int) -> None:
        if size >= fails_from:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        tried.append(size)
        peaks[0] = 100 + 10 * size

    known = known and memory_table.KnownPeaks(peaks=known, origin="the table")
    options = {"max_batch_size": max_batch_size, "limit_bytes": limit, "known": known}
    return largest(run, lambda: peaks[0], **options), tried


def growing(size):
    return 1 + 0.1 * size


RATES = "of the model by batch size: 1: 0.909, 2: 1.67, 4: 2.86"
BY_RATE = [
    (growing, {"max_batch_size": 64}, 64, DOUBLES, RATES),
    (growing, {"max_batch_size": 64}, 64, DOUBLES, "64 is the limit by frames or memory"),
    (lambda size: 0.1 * size, {}, 1, [1, 2, 4], "larger sizes are no faster"),
    (lambda size: 1.0 if size <= 8 else 1.0 * size, {}, 8, DOUBLES[:6], ""),
    (
        lambda size: 1.0,
        {"budget_seconds": 20},
        16,
        DOUBLES[:5],
        "larger sizes would take too long to measure",
    ),
    (
        lambda size: 1.0,
        {"fails_from": 16},
        8,
        DOUBLES[:4],
        "a batch of 16 does not fit into memory",
    ),
]
ROOM, FIRST = {"limit": 10**9}, "by the table, the start of the search,"
NO_ROOM_NOW = f"{FIRST} a batch of 8 does not fit into memory now"
BY_MEMORY = [
    ({"limit": 500}, 32, DOUBLES[:6], "a batch of 64 would not fit"),
    (ROOM | {"max_batch_size": 100}, 64, DOUBLES, ""),
    (ROOM | {"fails_from": 8}, 4, DOUBLES[:3], "a batch of 8 does not fit into memory"),
    ({"limit": 500, "known": {1: 110, 2: 120}}, 32, [32], f"{FIRST} a batch of 64 would need"),
    (ROOM | {"max_batch_size": 64, "known": {1: 1}, "fails_from": 8}, 4, [4], NO_ROOM_NOW),
    # The device decides, even if nothing fits by the table.
    ({"limit": 500, "known": {1: 501, 2: 600}}, 1, [1], ""),
]
CHOICES = [
    *((partial(by_rate, seconds, **options), *rest) for seconds, options, *rest in BY_RATE),
    *((partial(by_memory, **options), *rest) for options, *rest in BY_MEMORY),
]


@pytest.mark.parametrize(("choose", "size", "tried", "reason"), CHOICES)
def test_sizes_grow_while_they_are_faster_or_fit(choose, size, tried, reason):
    choice, sizes = choose()
    assert (choice.batch_size, sizes) == (size, tried)
    assert reason in choice.reason


def choose_for_module(module, *, size=(8, 8), max_batch_size=4, known=None):
    if known is not None:
        known = memory_table.KnownPeaks(peaks=known, origin="the table")
    return choose_batch_size(
        tiny(module),
        frame_size=size,
        max_batch_size=max_batch_size,
        budget_seconds=5,
        clock=SYSTEM_CLOCK,
        known=known,
    )


def test_a_model_that_cannot_run_one_frame_is_an_error():
    with refused("fails with batches of 1: ... can't allocate", error=BackendError):
        by_rate(lambda size: 1.0, fails_from=1)
    with refused("fails with batches of 1", error=BackendError):
        by_memory(limit=10**9, known={1: 1}, fails_from=1)
    # Not an out-of-memory error, despite its text.
    with refused("tiny cannot run on cpu with batches of 1: out of mem", error=BackendError):
        choose_for_module(Failing())


def test_a_real_model_is_measured_up_to_the_given_size():
    module = Mean()
    assert choose_for_module(module, max_batch_size=5).batch_size in (1, 2, 4)
    assert not module._forward_hooks


def test_huge_frames_have_batch_size_1():
    assert choose_for_module(Mean(), size=(10**6, 10**6), max_batch_size=256).batch_size == 1


def test_on_the_cpu_a_table_gives_the_memory_per_frame():
    choice = choose_for_module(Mean(), known={1: 10, 4: 10**15})
    assert choice.batch_size == 1, "larger batches exceed the memory"
    assert choice.reason.endswith("; memory per frame from the table")
    assert "table" not in choose_for_module(Mean(), known={1: 10}).reason, "one size is not enough"


@given(
    model_bytes=st.integers(0, 10**9),
    frame_bytes=st.integers(0, 10**7),
    known=st.sets(st.integers(1, 64), min_size=2),
    batch_size=st.integers(1, 512),
)
def test_the_prediction_of_linear_peaks_is_exact(model_bytes, frame_bytes, known, batch_size):
    peaks = {size: model_bytes + frame_bytes * size for size in known}
    predicted = memory_table.predicted_peak(peaks, batch_size)
    assert predicted == pytest.approx(model_bytes + frame_bytes * batch_size, abs=1)


PREDICTED = [
    ({4: 100}, 8, 200),
    ({4: 100}, 5, 125),
    ({4: 100}, 1, 25),
    ({1: 100, 2: 90}, 4, 100),  # at least the peak of a smaller batch
    ({1: 10, 2: 20, 4: 80}, 8, 200),  # on the line through the last two
    ({1: 10, 2: 20, 4: 80}, 3, 50),  # on the line through its neighbours
    ({1: 10, 2: 20, 4: 80}, 2, 20),
]


@pytest.mark.parametrize(("peaks", "batch_size", "predicted"), PREDICTED)
def test_the_prediction_is_linear_between_neighbours(peaks, batch_size, predicted):
    assert memory_table.predicted_peak(peaks, batch_size) == predicted


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


def test_peaks_are_of_the_next_larger_frames_or_of_the_model_alone():
    assert TABLE.of_frames((100, 100)).peaks == {1: 10, 2: 20}
    assert TABLE.of_frames((360, 640)).peaks == {1: 10, 2: 20}
    assert TABLE.of_frames((640, 361)).peaks == {1: 100, 4: 400}
    assert TABLE.of_frames((2160, 3840)) is None
    assert TABLE.of_model().peaks == {1: 5, 2: 7}
    assert replace(TABLE, cells=(cell(360, 1, 10),)).of_model() is None


def test_kept_cells_are_loaded_and_new_ones_replace_them(tables):
    assert tables.load(KEY) is None
    path = tables.keep(KEY, CELLS, DAY)
    assert tables.load(KEY) == TABLE
    tables.keep(KEY, (cell(360, 2, 25), cell(360, 8, 80)), "2026-11-23")
    table = tables.load(KEY)
    assert table.of_frames((360, 640)).peaks == {1: 10, 2: 25, 8: 80}
    assert table.of_frames((1080, 1920)).peaks == {1: 100, 4: 400}
    assert table.measured == "2026-11-23"
    assert list(tables.folder.iterdir()) == [path], "no partial file is left"


def test_each_key_has_its_own_file_and_a_renamed_file_is_not_used(tables):
    path, other = tables.keep(KEY, CELLS, DAY), replace(KEY, model="vgg16")
    assert tables.load(replace(KEY, driver="571.0")) is None
    assert tables.load(replace(KEY, torch="2.9.1")) is None
    path.rename(tables.entry(other))
    assert tables.load(other) is None


def test_tables_are_beside_the_indexes(tmp_path):
    beside = memory_table.MemoryTables.beside(IndexStore(tmp_path / "index"))
    assert beside.folder == tmp_path / "memory"
    assert memory_table.MemoryTables.beside(None).folder == memory_table.MemoryTables().folder
    assert memory_table.MemoryTables().folder.parent == IndexStore().folder.parent


def raising(error: BaseException):
    def fail(*args: object, **options: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize("error", [RuntimeError(NO_ROOM), MemoryError()], ids=["PyTorch", "Python"])
@pytest.mark.parametrize("weights", ["none", "DEFAULT"])
def test_a_model_that_does_not_fit_into_memory_is_an_error(monkeypatch, error, weights):
    monkeypatch.setattr(models, "get_model", raising(error))
    with refused("vgg16 does not fit into ... use a smaller", error=BackendError):
        load_classifier("vgg16", weights)


def test_a_checkpoint_that_does_not_fit_into_memory_is_not_called_unreadable(monkeypatch, tmp_path):
    monkeypatch.setattr(torch, "load", raising(RuntimeError(NO_ROOM)))
    with pytest.raises(BackendError, match="vgg16 does not fit into the memory"):
        load_classifier("vgg16", str(tmp_path / "weights.pt"))


def test_another_error_is_not_reported_as_out_of_memory(monkeypatch):
    monkeypatch.setattr(models, "get_model", raising(RuntimeError("no such thing")))
    with pytest.raises(ConfigError, match="cannot load the weights"):
        load_classifier("vgg16", "DEFAULT")

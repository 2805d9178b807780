"""Out-of-memory errors halve a measured batch size; known memory of batches."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from headrace.errors import BackendError, ConfigError
from headrace.models.load import load_classifier
from headrace.models.memory_table import MemoryCell, MemoryTables
from headrace.models.model import FixedBatch, Model, fit_to_shape
from headrace.runs.model_setup import (
    halve_until_it_fits,
    known_peaks,
    memory_key,
    random_weights_notes,
)
from headrace.runs.run_options import ComputeOptions, ExecutionOptions
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.testing.synth import SynthClip
from runs.kit import predictions, tiny_runner
from runs.tiny import Brightness, Failing, tiny_classifier

CHOSEN = "batch size 16 was chosen"
FRAMES = 30


def out_of_memory_above(max_batch_size: int) -> Failing:
    """Return a model that runs out of memory above a batch size, except on zeros (warm-up)."""
    error = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
    return Failing(error, lambda batch: len(batch) > max_batch_size and bool(batch.mean() > 0))


@pytest.fixture
def clip(written):
    return written(SynthClip(num_frames=FRAMES, size=(64, 64)))


@pytest.fixture
def runner(clip, tmp_path):
    """Return a function: module -> a run with a measured batch size."""

    def make(module, *, fit_batch=True):
        values = {"batch_size": 16, "fit_batch": fit_batch, "notes": (CHOSEN,)}
        return tiny_runner(clip, tmp_path, module, clock=SYSTEM_CLOCK, **values)

    return make


def indices(folder: Path) -> list[int]:
    return [row["index"] for row in predictions(folder)]


def test_the_run_restarts_with_half_the_batch_size_until_it_fits(runner, tmp_path):
    steps, starts = [], []
    first = replace(runner(out_of_memory_above(3)), before_start=lambda: starts.append(1))
    session = first.run(lambda step: steps.append((step.step, step.frames)))
    assert (session.outcome, session.error) == ("complete", None)
    assert session.setup.batch_size == 2
    assert session.provenance.configuration["batch_size"] == 2
    assert list(session.steps.frames) == [2] * 15
    assert indices(tmp_path) == list(range(FRAMES))
    assert starts == [1], "a restart does not wait again"
    assert steps == [(number, 2) for number in range(15)]
    choice, *notes = session.notes
    assert choice == CHOSEN
    expected = [f"memory ran out with batches of {size}" for size in (16, 8, 4)]
    assert [note.partition(" after ")[0] for note in notes] == expected
    assert notes[-1].endswith(" s; the run restarted with 2")


def test_a_restart_replaces_results_and_starts_at_step_0(runner, tmp_path):
    module = Failing(torch.OutOfMemoryError(), lambda batch: len(batch) == 14)  # the second batch
    steps = []
    session = runner(module).run(lambda step: steps.append(step.step))
    assert session.outcome == "complete"
    assert steps == [0, 0, 1, 2, 3]
    assert len(session.steps.frames) == 4
    assert indices(tmp_path) == list(range(FRAMES))


@pytest.mark.parametrize(
    ("module", "fit_batch", "batch_size", "message"),
    [
        (out_of_memory_above(0), True, 1, "out of memory"),
        (out_of_memory_above(3), False, 16, "; use a smaller --batch-size"),
        (Failing(RuntimeError("no such kernel")), True, 16, "no such kernel"),
    ],
    ids=["no frame fits", "the size is given", "another failure"],
)
def test_if_half_would_not_help_the_run_fails(runner, module, fit_batch, batch_size, message):
    session = runner(module, fit_batch=fit_batch).run()
    assert (session.outcome, session.setup.batch_size) == ("failed", batch_size)
    assert message in session.error
    assert batch_size == 1 or session.notes == (CHOSEN,)


def attempt(max_batch_size: int):
    """Return a function: batch size -> a model, if it fits."""

    def ready(batch_size: int) -> Model:
        if batch_size > max_batch_size:
            raise BackendError("cannot run") from torch.OutOfMemoryError()
        return tiny_classifier()

    return ready


def test_before_the_first_frame_the_batch_size_is_halved_too():
    _, batch_size, notes = halve_until_it_fits(attempt(5), 16)
    assert batch_size == 4
    assert notes == (
        "memory ran out with batches of 16 before the first frame; the next attempt used 8",
        "memory ran out with batches of 8 before the first frame; the next attempt used 4",
    )


def test_a_model_that_never_fits_or_fails_otherwise_is_an_error():
    with pytest.raises(BackendError, match="cannot run"):
        halve_until_it_fits(attempt(0), 16)

    def broken(batch_size: int) -> Model:
        raise BackendError("no compiler") from RuntimeError("g++: not found")

    with pytest.raises(BackendError, match="no compiler"):
        halve_until_it_fits(broken, 16)


def test_a_compiled_model_gets_the_smaller_batch_size():
    """It pads batches to its batch size, and would run out of memory again."""
    sizes = []

    class Sizes(Brightness):
        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            sizes.append(len(batch))
            return super().forward(batch)

    model = tiny_classifier(FixedBatch(Sizes(), 16))
    smaller = fit_to_shape(model, (4, 3, 8, 8))
    smaller.run(torch.zeros(3, 3, 8, 8))
    assert sizes == [4, 4]
    assert model.module.batch_size == 16


def stored(tmp_path, *cells: MemoryCell, **changed: object) -> MemoryTables:
    """Return tables with measurements of the tiny model on this machine."""
    tables = MemoryTables(tmp_path / "memory")
    key = memory_key(tiny_classifier(), device="cpu", precision="float32", prep_level="medium")
    tables.keep(replace(key, **changed), cells, "2026-11-22")
    return tables


CELLS = tuple(
    MemoryCell(size=(720, 1280), batch_size=n, peak_bytes=1000 + 10 * n, model_bytes=None)
    for n in (1, 4)
)


def known(tables: MemoryTables, frame_size=(360, 640), **options: object):
    return known_peaks(tiny_classifier(), ComputeOptions(**options), frame_size, tables)


def test_measurements_of_this_device_and_model_are_known(tmp_path):
    peaks = known(stored(tmp_path, *CELLS))
    assert peaks.peaks == {1: 1010, 4: 1040}
    assert peaks.origin == "the memory table of 2026-11-22 (headrace bench memory)"
    assert known(stored(tmp_path, *CELLS), frame_size=(1080, 1920)) is None


ELSEWHERE = {
    **{"torch": "1.0", "driver": "570.1", "device": "another", "memory_bytes": 1, "version": 0},
    **{"model": "other", "precision": "bfloat16", "prep_level": "simple", "input": (3, 9, 9)},
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_measurements_of_another_key_are_not_used(tmp_path, name):
    assert known(stored(tmp_path, *CELLS, **{name: ELSEWHERE[name]})) is None


def test_a_split_model_has_no_measurements(tmp_path):
    split = ExecutionOptions(split_point="features.8")
    assert known(stored(tmp_path, *CELLS), execution=split) is None
    assert known(stored(tmp_path, *CELLS), prep_level="simple") is None


def test_a_run_notes_that_its_batch_size_uses_the_table(prepare, clip, tmp_path):
    model = load_classifier("squeezenet1_1", "none")
    key = memory_key(model, device="cpu", precision="float32", prep_level="simple")
    MemoryTables(tmp_path / "memory").keep(key, CELLS, "2026-11-22")
    runner = prepare(clip, batch_size=2, prep_level="simple", fit_batch=True)
    assert runner.notes[0].endswith(
        "memory per frame from the memory table of 2026-11-22 (headrace bench memory)"
    )
    assert runner.options.compute.batch_size in (1, 2)


def test_a_damaged_table_is_ignored(tmp_path):
    tables = stored(tmp_path, *CELLS)
    [path] = tables.folder.iterdir()
    path.write_text('{"key": 3')
    assert known(tables) is None
    assert known(MemoryTables(tmp_path / "none")) is None


def test_a_table_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "memory").write_text("a file")
    with pytest.raises(ConfigError, match=r"cannot write .*memory"):
        stored(tmp_path, *CELLS)


@pytest.mark.parametrize(("weights", "count"), [("none", 1), ("DEFAULT", 0), ("a.pth", 0)])
def test_random_weights_are_a_note(weights, count):
    options = ComputeOptions(model_name="squeezenet1_1", weights=weights)
    assert len(random_weights_notes(options)) == count

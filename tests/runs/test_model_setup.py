"""A batch size that was chosen for a run never ends it for want of memory while half would fit."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from headrace.errors import BackendError, ConfigError
from headrace.models.load import load_classifier
from headrace.models.memory_table import MemoryCell, MemoryTables
from headrace.models.model import Model
from headrace.models.prepare import FixedBatch, fit_to_shape
from headrace.runs.model_setup import halve_until_it_fits, known_peaks, memory_key
from headrace.runs.run_options import ComputeOptions, ExecutionOptions
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.testing.synth import SynthClip
from runs.kit import predictions, tiny_runner
from runs.tiny import Brightness, Failing, tiny_classifier

CHOSEN = "batch size 16 was chosen"
FRAMES = 30


def large(most: int) -> Failing:
    """Return what runs out of memory above a batch size; not on the zeros it is warmed up with."""
    error = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
    return Failing(error, lambda batch: len(batch) > most and bool(batch.mean() > 0))


@pytest.fixture
def clip(written):
    return written(SynthClip(num_frames=FRAMES, size=(64, 64)))


@pytest.fixture
def runner(clip, tmp_path):
    """Return a function: module -> a run that chose the batch size."""

    def make(module, *, fit_batch=True):
        given = {"batch_size": 16, "fit_batch": fit_batch, "notes": (CHOSEN,)}
        return tiny_runner(clip, tmp_path, module, clock=SYSTEM_CLOCK, **given)

    return make


def indices(folder: Path) -> list[int]:
    return [row["index"] for row in predictions(folder)]


def test_the_run_begins_anew_with_half_the_batch_until_it_fits(runner, tmp_path):
    seen, begun = [], []
    first = replace(runner(large(3)), before_start=lambda: begun.append(1))
    session = first.run(lambda step: seen.append((step.step, step.frames)))
    assert (session.outcome, session.error) == ("complete", None)
    assert session.setup.batch_size == 2
    assert session.provenance.configuration["batch_size"] == 2
    assert list(session.steps.frames) == [2] * 15
    assert indices(tmp_path) == list(range(FRAMES))
    assert begun == [1], "others that it began with are not waited for again"
    assert seen == [(number, 2) for number in range(15)]
    chosen, *notes = session.notes
    assert chosen == CHOSEN
    tried = [f"memory ran out with batches of {size}" for size in (16, 8, 4)]
    assert [note.partition(" after ")[0] for note in notes] == tried
    assert notes[-1].endswith(" s; the run restarted with 2")


def test_what_came_out_before_is_replaced_and_told_again_from_step_0(runner, tmp_path):
    filling = Failing(torch.OutOfMemoryError(), lambda batch: len(batch) == 14)  # the second of 16
    seen = []
    session = runner(filling).run(lambda step: seen.append(step.step))
    assert session.outcome == "complete"
    assert seen == [0, 0, 1, 2, 3]
    assert len(session.steps.frames) == 4
    assert indices(tmp_path) == list(range(FRAMES))


@pytest.mark.parametrize(
    ("module", "fit_batch", "batch_size", "words"),
    [
        (large(0), True, 1, "out of memory"),
        (large(3), False, 16, "; use a smaller --batch-size"),
        (Failing(RuntimeError("no such kernel")), True, 16, "no such kernel"),
    ],
    ids=["not even one frame fits", "a size that was asked for", "another failure"],
)
def test_where_half_would_not_help_the_run_fails(runner, module, fit_batch, batch_size, words):
    session = runner(module, fit_batch=fit_batch).run()
    assert (session.outcome, session.setup.batch_size) == ("failed", batch_size)
    assert words in session.error
    assert batch_size == 1 or session.notes == (CHOSEN,)


def attempt(most: int):
    """Return what makes a model ready that fits up to a batch size."""

    def ready(batch_size: int) -> Model:
        if batch_size > most:
            raise BackendError("cannot run") from torch.OutOfMemoryError()
        return tiny_classifier()

    return ready


def test_before_the_first_frame_it_is_halved_as_well():
    fitted = halve_until_it_fits(attempt(5), 16)
    assert fitted.batch_size == 4
    assert fitted.notes == (
        "memory ran out with batches of 16 before the first frame; the next attempt used 8",
        "memory ran out with batches of 8 before the first frame; the next attempt used 4",
    )


def test_before_the_first_frame_what_never_fits_or_fails_otherwise_is_an_error():
    with pytest.raises(BackendError, match="cannot run"):
        halve_until_it_fits(attempt(0), 16)

    def broken(batch_size: int) -> Model:
        raise BackendError("no compiler") from RuntimeError("g++: not found")

    with pytest.raises(BackendError, match="no compiler"):
        halve_until_it_fits(broken, 16)


def test_a_compiled_model_is_fitted_to_the_smaller_batch():
    """It fills batches up to its own size, and would run out of memory as before."""
    seen = []

    class Sizes(Brightness):
        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            seen.append(len(batch))
            return super().forward(batch)

    model = tiny_classifier(FixedBatch(Sizes(), 16))
    smaller = fit_to_shape(model, (4, 3, 8, 8))
    smaller.run(torch.zeros(3, 3, 8, 8))
    assert seen == [4, 4]
    assert model.module.batch_size == 16


def kept(tmp_path, *cells: MemoryCell, **changed: object) -> MemoryTables:
    """Return tables with what was measured of the tiny model on this machine."""
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


def test_what_was_measured_on_this_device_with_this_model_is_known(tmp_path):
    found = known(kept(tmp_path, *CELLS))
    assert found.peaks == {1: 1010, 4: 1040}
    assert found.origin == "the memory table of 2026-11-22 (headrace bench memory)"
    assert known(kept(tmp_path, *CELLS), frame_size=(1080, 1920)) is None


ELSEWHERE = {
    **{"torch": "1.0", "driver": "570.1", "device": "another", "memory_bytes": 1, "version": 0},
    **{"model": "other", "precision": "bfloat16", "prep_level": "simple", "input": (3, 9, 9)},
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_was_measured_elsewhere_or_otherwise_is_not(tmp_path, name):
    assert known(kept(tmp_path, *CELLS, **{name: ELSEWHERE[name]})) is None


def test_of_a_model_that_is_split_nothing_is_known(tmp_path):
    split = ExecutionOptions(split_point="features.8")
    assert known(kept(tmp_path, *CELLS), execution=split) is None
    assert known(kept(tmp_path, *CELLS), prep_level="simple") is None


def test_a_run_says_that_its_batch_size_is_from_the_table(prepare, clip, tmp_path):
    model = load_classifier("squeezenet1_1", "none")
    key = memory_key(model, device="cpu", precision="float32", prep_level="simple")
    MemoryTables(tmp_path / "memory").keep(key, CELLS, "2026-11-22")
    found = prepare(clip, batch_size=2, prep_level="simple", fit_batch=True)
    assert found.notes[0].endswith(
        "memory per frame from the memory table of 2026-11-22 (headrace bench memory)"
    )
    assert found.options.compute.batch_size in (1, 2)


def test_a_damaged_table_is_as_none(tmp_path):
    tables = kept(tmp_path, *CELLS)
    [path] = tables.folder.iterdir()
    path.write_text('{"key": 3')
    assert known(tables) is None
    assert known(MemoryTables(tmp_path / "none")) is None


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "memory").write_text("a file")
    with pytest.raises(ConfigError, match=r"cannot write .*memory"):
        kept(tmp_path, *CELLS)

"""Options of execution in real runs: split, compiled, bound to cores, 16 bits, batch size."""

import pytest
import torch

from decode.gpus import needs_gpu, needs_no_gpu
from headrace.errors import BackendError
from headrace.runtime.processor_affinity import available_cores
from headrace.testing.synth import SynthClip
from runs.kit import predictions

FRAMES = 7
ONE_CORE = str(min(available_cores()))


@pytest.fixture
def clip(written):
    return written(SynthClip(num_frames=FRAMES, size=(64, 96)))


@pytest.fixture
def worker(prepare, clip):
    """Return a function: flat options -> a runner with a small real model.

    The compiler is a fake: torch.compile would take a minute.
    """

    def make(*, batch_size=3, **values):
        batch = {"fit_batch": batch_size is None, "batch_size": batch_size or 4}
        return prepare(clip, **batch, **values, compiler=lambda module: module)

    return make


@pytest.fixture
def predicted(worker, tmp_path):
    """Return a function: options -> label and confidence of each frame."""

    def run(**values):
        worker(video=False, **values).run()
        return [(row["label"], row["confidence"]) for row in predictions(tmp_path / "run")]

    return run


def test_predictions_are_equal_if_split_compiled_or_bound_and_close_in_16_bits(predicted):
    plain = predicted()
    for values in ({"split_point": "features.8"}, {"compile": True}, {"core_bind": "all"}):
        assert predicted(**values) == plain, values
    in_16_bits = predicted(amp=True)
    assert in_16_bits != plain
    assert [c for _, c in in_16_bits] == pytest.approx([c for _, c in plain], rel=0.05)


def test_the_transfer_inside_a_split_model_is_a_stage(worker):
    session = worker(split_point="features.8", video=False).run()
    assert [(stage.name, stage.role) for stage in session.stages] == [
        ("decode", "decode"),
        ("preprocess", "preprocess"),
        ("model, first part", "model"),
        ("transfer inside the model", "transfer"),
        ("model, second part", "model"),
        ("sink", "sink"),
    ]
    assert session.stages[3].moved_bytes == 0, "both parts are on the CPU"
    assert all(step.work_ms["transfer inside the model"] >= 0 for step in session.steps.rows())


def cores_and_threads() -> tuple[frozenset[int], int]:
    return available_cores(), torch.get_num_threads()


def test_cores_are_bound_during_the_run_and_restored(worker):
    before, during = cores_and_threads(), []
    runner = worker(core_bind=ONE_CORE, video=False)
    session = runner.run(lambda step: during.append(cores_and_threads()))
    assert set(during) == {(frozenset({int(ONE_CORE)}), 1)}
    assert cores_and_threads() == before
    assert session.provenance.machine.usable_cores == 1


def test_a_measured_batch_size_is_recorded_with_its_reason(worker):
    session = worker(batch_size=None, video=False).run()
    batch_size = session.setup.batch_size
    assert batch_size in (1, 2, 4)
    assert session.provenance.configuration["batch_size"] == batch_size
    assert session.notes[0].startswith(f"batch size {batch_size} was chosen for its rate")
    assert "batch size" in [part.name for part in session.startup]


def test_a_model_is_compiled_before_the_run_and_never_during_it(prepare, clip):
    """Neither for the layout of real batches, nor for the shorter last batch."""
    torch.compiler.reset()  # forgets the compilations of other tests
    compiled = []

    def count(graph, examples):
        compiled.append(graph)
        return graph.forward

    runner = prepare(
        clip,
        batch_size=3,
        compile=True,
        video=False,
        compiler=lambda module: torch.compile(module, backend=count),
    )
    assert len(compiled) == 1
    assert runner.run().outcome == "complete"
    assert len(compiled) == 1


@needs_no_gpu
def test_preprocessing_on_a_missing_gpu_is_refused(worker):
    with pytest.raises(
        BackendError, match=r"preprocessing on the GPU \(--prep-on-gpu\) needs a GPU"
    ):
        worker(prep_on_gpu=True)


@needs_gpu
@pytest.mark.parametrize(
    ("values", "transfers"),
    [
        ({"device": "cuda"}, 1),
        ({"device": "cuda", "prep_on_gpu": True, "amp": True}, 1),
        ({"prep_on_gpu": True}, 2),
        ({"device": "cuda", "split_point": "features.8", "amp": True}, 1),
        ({"device": "cuda", "split_point": "features.8", "prep_on_gpu": True}, 3),
        ({"device": "cuda", "batch_size": None}, 1),
    ],
)
def test_a_run_on_a_gpu_completes_with_its_transfers(worker, values, transfers):
    session = worker(video=False, **values).run()
    assert (session.outcome, session.error) == ("complete", None)
    stages = [stage for stage in session.stages if stage.role == "transfer"]
    assert len(stages) == transfers
    assert all(stage.moved_bytes > 0 for stage in stages)

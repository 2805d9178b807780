"""The worker: what its options change in a real run, and what is refused with its sentence."""

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
    """Return a function: options from a flat list -> a runner with a real, small model.

    What torch.compile itself does is tested with `prepare`; here it would take a minute.
    """

    def make(*, batch_size=3, **given):
        fit = {"fit_batch": batch_size is None, "batch_size": batch_size or 4}
        return prepare(clip, **fit, **given, compiler=lambda module: module)

    return make


@pytest.fixture
def predicted(worker, tmp_path):
    """Return a function: options -> what the model saw, and how sure it is."""

    def run(**given):
        worker(video=False, **given).run()
        return [(row["label"], row["confidence"]) for row in predictions(tmp_path / "run")]

    return run


def test_split_compiled_or_bound_a_model_sees_what_it_saw_and_in_16_bits_about_so(predicted):
    plain = predicted()
    for given in ({"split_point": "features.8"}, {"compile": True}, {"core_bind": "all"}):
        assert predicted(**given) == plain, given
    short = predicted(amp=True)
    assert short != plain
    assert [c for _, c in short] == pytest.approx([c for _, c in plain], rel=0.05)


def test_the_transfer_inside_a_split_model_is_a_stage_of_its_own(worker):
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


def used() -> tuple[frozenset[int], int]:
    return available_cores(), torch.get_num_threads()


def test_cores_are_bound_while_it_runs_and_given_back(worker):
    before, seen = used(), []
    session = worker(core_bind=ONE_CORE, video=False).run(lambda step: seen.append(used()))
    assert set(seen) == {(frozenset({int(ONE_CORE)}), 1)}
    assert used() == before
    assert session.provenance.machine.usable_cores == 1


def test_a_batch_size_that_is_chosen_is_recorded_with_its_reason(worker):
    session = worker(batch_size=None, video=False).run()
    chosen = session.setup.batch_size
    assert chosen in (1, 2, 4)
    assert session.provenance.configuration["batch_size"] == chosen
    assert session.notes[0].startswith(f"batch size {chosen} was chosen for its rate")
    assert "batch size" in [part.name for part in session.startup]


def test_a_model_is_compiled_before_the_run_and_never_in_it(prepare, clip):
    """Not for the layout of real batches, nor for the last one, which is shorter."""
    torch.compiler.reset()  # what other tests compiled is compiled again
    compiled = []

    def counting(graph, examples):
        compiled.append(graph)
        return graph.forward

    runner = prepare(
        clip,
        batch_size=3,
        compile=True,
        video=False,
        compiler=lambda module: torch.compile(module, backend=counting),
    )
    assert len(compiled) == 1
    assert runner.run().outcome == "complete"
    assert len(compiled) == 1


@needs_no_gpu
def test_preprocessing_on_a_gpu_that_is_not_there_is_refused(worker):
    with pytest.raises(BackendError, match=r"preprocessing on the GPU \(--prep-on-gpu\) was asked"):
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
def test_on_a_gpu_a_run_is_complete_and_carries_what_it_must(worker, values, transfers):
    session = worker(video=False, **values).run()
    assert (session.outcome, session.error) == ("complete", None)
    carried = [stage for stage in session.stages if stage.role == "transfer"]
    assert len(carried) == transfers
    assert all(stage.moved_bytes > 0 for stage in carried)

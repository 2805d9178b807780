"""The worker: its options in pairs, each combination a real run or a refusal with its sentence."""

from itertools import combinations, product
from pathlib import Path

import pytest
import torch

from cli.kit import python
from decode.gpus import needs_gpu, needs_no_gpu
from headrace.errors import BackendError, ConfigError
from headrace.runs.ready import notes_on
from headrace.runtime.affinity import available_cores
from headrace.testing.synth import SynthClip, write_clip
from runs.kit import predictions
from runs.pairs import pairwise

FRAMES = 7
ONE_CORE = str(min(available_cores()))
VALUES = {
    "batch_size": (3, 16, None),
    "prep_level": ("simple", "medium", "complex"),
    "core_bind": (None, "all", ONE_CORE),
    "compile": (False, True),
    "amp": (False, True),
    "split_point": (None, "squeezenet1_1:features.8"),
    "max_steps": (None, 2),
    "stride": (1, 2),
    "predictions": ("jsonl", "parquet"),
    "top_k": (1, 3),
    "video": (False, True),
}
"""Of a batch size, None means that it is chosen."""
REFUSED = "a model that is cut behind features.8 is not compiled as one; leave out --enable-compile"


@pytest.fixture(scope="module")
def clip(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("clip")
    return write_clip(folder / "clip", SynthClip(num_frames=FRAMES, size=(64, 96)))


@pytest.fixture
def worker(prepare, clip):
    """Return a function: options from a flat list -> a runner with a real, small model.

    What torch.compile itself does is tested with `prepare`; here it would take a minute.
    """

    def make(*, batch_size=3, **given):
        fit = {"fit_batch": batch_size is None, "batch_size": batch_size or 4}
        return prepare(clip, **fit, **given, compiler=lambda module: module)

    return make


def test_every_pair_of_values_is_in_a_combination_and_there_are_few():
    values = {"a": (1, 2, 3), "b": (True, False), "c": ("x", "y"), "d": (None, 0, 1, 2)}
    found = pairwise(values)
    for one, other in combinations(values, 2):
        pairs = {(each[one], each[other]) for each in found}
        assert pairs == set(product(values[one], values[other]))
    assert all(list(each) == list(values) for each in found)
    assert len(found) < 20


@pytest.mark.parametrize(
    "values", pairwise(VALUES), ids=lambda values: "-".join(map(str, values.values()))
)
def test_every_pair_of_options_runs_or_is_refused_with_its_reason(worker, tmp_path, values):
    if values["compile"] and values["split_point"]:
        with pytest.raises(ConfigError, match=REFUSED):
            worker(**values)
        assert not (tmp_path / "run").exists()
        return
    runner = worker(**values)
    session = runner.run()
    batch_size = runner.options.compute.batch_size
    assert (session.outcome, session.error) == ("complete", None)
    assert session.setup.batch_size == batch_size
    chosen = [] if values["batch_size"] else [f"batch size {batch_size} was chosen"]
    said = [*chosen, *notes_on(runner.options.compute)]
    assert len(session.notes) == len(said)
    assert all(map(str.startswith, session.notes, said))
    rows = predictions(tmp_path / "run", values["predictions"])
    indices = list(range(0, FRAMES, values["stride"]))
    most = batch_size * (values["max_steps"] or FRAMES)
    assert [row["index"] for row in rows] == indices[:most]
    assert {len(row.get("labels", [1])) for row in rows} == {values["top_k"]}
    assert (tmp_path / "run" / "annotated.mp4").exists() == values["video"]
    assert ("compile" in [part.name for part in session.startup]) == values["compile"]
    assert len(session.stages) == (6 if values["split_point"] else 4)


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


COUNTING = """
import sys
from pathlib import Path
import torch
from headrace.runs.options import *
from headrace.runs.ready import notes_on
from headrace.runs.run import Runner

made = 0

def counting(graph, examples):
    global made
    made += 1
    return graph.forward

options = RunOptions(
    input=InputOptions(sources=(sys.argv[1],)),
    compute=ComputeOptions(
        model_name="squeezenet1_1", weights="none", batch_size=3,
        execution=ExecutionOptions(compile=True),
    ),
    output=OutputOptions(out=Path(sys.argv[2]), video=False),
)
compiler = lambda module: torch.compile(module, backend=counting)
runner = Runner.prepare(options, compiler=compiler)
before = made
assert runner.run().outcome == "complete"
print(before, made - before)
"""


def test_a_model_is_compiled_before_the_run_and_never_in_it(clip, tmp_path):
    """Not for the layout of real batches, nor for the last one, which is shorter."""
    done = python(COUNTING, clip, tmp_path)
    assert done.stdout.split() == ["1", "0"], done.stderr


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"split_point": "resnet18:layer3"}, "of resnet18, and the model is squeezenet1_1"),
        ({"split_point": "features.88"}, "no layer 'features.88' to be cut behind; did you mean"),
        ({"core_bind": "0-9999"}, r"cores 0-9999 were asked for; this process may use 0"),
        ({"core_bind": "first"}, 'cores must read like "0-3,6" or "all", got \'first\''),
    ],
)
def test_what_is_not_there_is_refused_with_what_there_is(worker, values, message):
    with pytest.raises(ConfigError, match=message) as caught:
        worker(**values)
    assert "\n" not in str(caught.value)


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

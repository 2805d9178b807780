"""The worker: its options in pairs, each combination a real run or a refusal with its sentence."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest
import torch

from decode.gpus import needs_gpu, needs_no_gpu
from headrace.decode.index_store import IndexStore
from headrace.errors import BackendError, ConfigError
from headrace.runs.options import (
    ComputeOptions,
    ExecutionOptions,
    InputOptions,
    OutputOptions,
    RunOptions,
)
from headrace.runs.ready import notes_on
from headrace.runs.run import Runner
from headrace.runtime.affinity import available_cores
from headrace.testing.synth import SynthClip, write_clip
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
def prepare(clip, tmp_path):
    """Return a function: flat values -> a runner with a real, small model."""

    def make(**values: object) -> Runner:
        batch_size = values.pop("batch_size", 3)
        given = {name: values.pop(name) for name in ("max_steps", "stride") if name in values}
        output = {n: values.pop(n) for n in ("predictions", "top_k", "video") if n in values}
        level, device = values.pop("prep_level", "medium"), values.pop("device", "cpu")
        options = RunOptions(
            input=InputOptions(sources=(str(clip),), **given),
            compute=ComputeOptions(
                model_name="squeezenet1_1",
                weights="none",
                batch_size=batch_size or 4,
                prep_level=level,
                device=device,
                execution=ExecutionOptions(fit_batch=batch_size is None, **values),
            ),
            output=OutputOptions(out=tmp_path / "out", **output),
        )
        # What torch.compile itself does is tested with `prepare`; here it would take a minute.
        store = IndexStore(tmp_path / "store")
        return Runner.prepare(options, store=store, compiler=lambda module: module)

    return make


def rows(folder: Path, kind: str) -> list[dict]:
    path = folder / f"predictions.{kind}"
    if kind == "parquet":
        return pyarrow.parquet.read_table(path).to_pylist()
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    "values", pairwise(VALUES), ids=lambda values: "-".join(map(str, values.values()))
)
def test_every_pair_of_options_runs_or_is_refused_with_its_reason(prepare, tmp_path, values):
    if values["compile"] and values["split_point"]:
        with pytest.raises(ConfigError, match=REFUSED):
            prepare(**values)
        assert not (tmp_path / "out").exists()
        return
    runner = prepare(**values)
    session = runner.run()
    batch_size = runner.options.compute.batch_size
    assert (session.outcome, session.error) == ("complete", None)
    assert session.setup.batch_size == batch_size
    chosen = [] if values["batch_size"] else [f"batch size {batch_size} was chosen"]
    said = [*chosen, *notes_on(runner.options.compute)]
    assert len(session.notes) == len(said)
    assert all(map(str.startswith, session.notes, said))
    found = rows(tmp_path / "out", values["predictions"])
    indices = list(range(0, FRAMES, values["stride"]))
    most = batch_size * (values["max_steps"] or FRAMES)
    assert [row["index"] for row in found] == indices[:most]
    assert {len(row.get("labels", [1])) for row in found} == {values["top_k"]}
    assert (tmp_path / "out" / "annotated.mp4").exists() == values["video"]
    assert ("compile" in [part.name for part in session.startup]) == values["compile"]
    assert len(session.stages) == (6 if values["split_point"] else 4)


def predicted(prepare, folder: Path, **values: object) -> list[tuple[str, float]]:
    prepare(video=False, **values).run()
    return [(row["label"], row["confidence"]) for row in rows(folder / "out", "jsonl")]


def test_split_compiled_or_bound_a_model_sees_what_it_saw(prepare, tmp_path):
    plain = predicted(prepare, tmp_path)
    assert predicted(prepare, tmp_path, split_point="features.8") == plain
    assert predicted(prepare, tmp_path, compile=True) == plain
    assert predicted(prepare, tmp_path, core_bind="all") == plain


def test_in_16_bits_a_model_is_about_as_sure(prepare, tmp_path):
    plain, short = predicted(prepare, tmp_path), predicted(prepare, tmp_path, amp=True)
    assert short != plain
    assert [c for _, c in short] == pytest.approx([c for _, c in plain], rel=0.05)


def test_the_transfer_inside_a_split_model_is_a_stage_of_its_own(prepare):
    session = prepare(split_point="features.8", video=False).run()
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


def test_cores_are_bound_while_it_runs_and_given_back(prepare):
    before, threads = available_cores(), torch.get_num_threads()
    seen = []
    runner = prepare(core_bind=ONE_CORE, video=False)
    session = runner.run(lambda step: seen.append((available_cores(), torch.get_num_threads())))
    assert set(seen) == {(frozenset({int(ONE_CORE)}), 1)}
    assert (available_cores(), torch.get_num_threads()) == (before, threads)
    assert session.provenance.machine.usable_cores == 1


def test_a_batch_size_that_is_chosen_is_recorded_with_its_reason(prepare):
    runner = prepare(batch_size=None, video=False)
    session = runner.run()
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
    command = [sys.executable, "-c", COUNTING, str(clip), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
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
def test_what_is_not_there_is_refused_with_what_there_is(prepare, values, message):
    with pytest.raises(ConfigError, match=message) as caught:
        prepare(**values)
    assert "\n" not in str(caught.value)


@needs_no_gpu
def test_preprocessing_on_a_gpu_that_is_not_there_is_refused(prepare):
    with pytest.raises(BackendError, match=r"preprocessing on the GPU \(--prep-on-gpu\) was asked"):
        prepare(prep_on_gpu=True)


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
def test_on_a_gpu_a_run_is_complete_and_carries_what_it_must(prepare, values, transfers):
    session = prepare(video=False, **values).run()
    assert (session.outcome, session.error) == ("complete", None)
    carried = [stage for stage in session.stages if stage.role == "transfer"]
    assert len(carried) == transfers
    assert all(stage.moved_bytes > 0 for stage in carried)

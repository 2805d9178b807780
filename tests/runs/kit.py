"""Options from flat values, runs of a tiny model, and results of runs."""

import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_type_hints

import av
import pyarrow.parquet

from headrace.profiling.session import Session
from headrace.runs.file_run import Runner
from headrace.runs.run_inputs import RunInputs
from headrace.runs.run_options import RunOptions
from headrace.testing.fake_clock import FakeClock
from headrace.testing.synth import SynthClip, read_number
from headrace.video.stream_index import StreamIndex
from runs.tiny import tiny_classifier

TALL = SynthClip(size=(640, 64), num_frames=30, gop=10)
"""So tall that the label at the top leaves the frame number readable."""
SQUEEZENET = {"model_name": "squeezenet1_1", "weights": "none"}


def options(sources: object, out: Path, kind: type = RunOptions, **flat: object) -> Any:
    """Return the options of a run from flat values; `sources` is one or a list."""
    paths = sources if isinstance(sources, list | tuple) else [sources]
    values = {"sources": tuple(map(str, paths)), "out": out, **flat}
    built = _build(kind, values)
    assert not values
    return built


def _build(kind: type, values: dict[str, object]) -> Any:
    arguments = {}
    for name, hint in get_type_hints(kind).items():
        if name in values:
            arguments[name] = values.pop(name)
        elif is_dataclass(hint):
            arguments[name] = _build(hint, values)
    return kind(**arguments)


def tiny_runner(sources: object, out: Path, module: object = None, **values: object) -> Runner:
    """Return a run of a tiny model; `values` are fields of the runner, and flat options."""
    out.mkdir(parents=True, exist_ok=True)
    paths = sources if isinstance(sources, list) else [sources]
    names = {field.name for field in fields(Runner)} & values.keys()
    runner_fields = {"clock": FakeClock(), **{name: values.pop(name) for name in names}}
    return Runner(
        options=options(paths, out, **{"batch_size": 8, **values}),
        inputs=RunInputs(indexes=tuple(map(StreamIndex.scan, paths))),
        model=tiny_classifier(module),
        **runner_fields,
    )


class Collecting:
    """A sink that sends each result to a function."""

    outputs = ()

    def __init__(self, function: Callable[[Any], object]) -> None:
        self.write = function

    def close(self) -> None:
        """Close nothing."""


def predictions(folder: Path, kind: str = "jsonl") -> list[dict[str, Any]]:
    """Return the rows of the predictions of a run."""
    path = folder / f"predictions.{kind}"
    if kind == "parquet":
        return pyarrow.parquet.read_table(path).to_pylist()
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def annotated_frames(folder: Path, name: str = "annotated.mp4") -> list[av.VideoFrame]:
    """Return the decoded frames of an annotated video."""
    with av.open(str(folder / name)) as container:
        return list(container.decode(video=0))


def numbers(folder: Path) -> list[int]:
    """Return the frame numbers in the pixels of the annotated video."""
    frames = annotated_frames(folder)
    return [read_number(frame.to_ndarray(format="rgb24")) for frame in frames]


def check_checkpoints(runner: Any, run: Callable[..., Session]) -> list[Session]:
    """Check the records that a run passes to `on_record`; return them and the session."""
    records: list[Session] = []
    recorded = replace(runner, on_record=records.append)
    session = run(recorded, lambda step: recorded.clock.advance(1))
    assert (records[1].outcome, len(records[0].steps)) == ("interrupted", 1)
    assert 1 < len(records[1].steps) < len(session.steps)
    assert records[1].steps.frames[0] == session.steps.frames[0]
    assert records[1].stages[0].name == session.stages[0].name
    return [*records, session]

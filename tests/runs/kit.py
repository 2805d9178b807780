"""Options from flat values, runs whose model costs nothing, and what runs leave behind."""

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
"""The text along the top leaves the numbers in the picture readable."""
SQUEEZENET = {"model_name": "squeezenet1_1", "weights": "none"}


def options(sources: object, out: Path, kind: type = RunOptions, **given: object) -> Any:
    """Return options of a run from a flat list of them; `sources` is one or a list."""
    listed = sources if isinstance(sources, list | tuple) else [sources]
    values = {"sources": tuple(map(str, listed)), "out": out, **given}
    built = _filled(kind, values)
    assert not values
    return built


def _filled(kind: type, values: dict[str, object]) -> Any:
    named = {}
    for name, hint in get_type_hints(kind).items():
        if name in values:
            named[name] = values.pop(name)
        elif is_dataclass(hint):
            named[name] = _filled(hint, values)
    return kind(**named)


def tiny_runner(sources: object, out: Path, module: object = None, **given: object) -> Runner:
    """Return a run whose model costs nothing; `given` are its fields and options."""
    out.mkdir(parents=True, exist_ok=True)
    listed = sources if isinstance(sources, list) else [sources]
    names = {field.name for field in fields(Runner)} & given.keys()
    own = {"clock": FakeClock(), **{name: given.pop(name) for name in names}}
    return Runner(
        options=options(listed, out, **{"batch_size": 8, **given}),
        inputs=RunInputs(indexes=tuple(map(StreamIndex.scan, listed))),
        model=tiny_classifier(module),
        **own,
    )


class Collecting:
    """A sink that sends each result to a function."""

    outputs = ()

    def __init__(self, function: Callable[[Any], object]) -> None:
        self.write = function

    def close(self) -> None:
        """Nothing is open."""


def predictions(folder: Path, kind: str = "jsonl") -> list[dict[str, Any]]:
    """Return the rows of the predictions of a run."""
    path = folder / f"predictions.{kind}"
    if kind == "parquet":
        return pyarrow.parquet.read_table(path).to_pylist()
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def pictures(folder: Path, name: str = "annotated.mp4") -> list[av.VideoFrame]:
    """Return the frames of an annotated video: it plays."""
    with av.open(str(folder / name)) as container:
        return list(container.decode(video=0))


def numbers(folder: Path) -> list[int]:
    """Return the numbers in the pixels of the annotated video."""
    return [read_number(picture.to_ndarray(format="rgb24")) for picture in pictures(folder)]


def check_handed_out(runner: Any, run: Callable[..., Session]) -> list[Session]:
    """Check the records that a run hands out as it goes, for a process that is killed."""
    found: list[Session] = []
    watched = replace(runner, on_record=found.append)
    session = run(watched, lambda step: watched.clock.advance(1))
    assert (found[1].outcome, len(found[0].steps)) == ("interrupted", 1)
    assert 1 < len(found[1].steps) < len(session.steps)
    assert found[1].steps.frames[0] == session.steps.frames[0]
    assert found[1].stages[0].name == session.stages[0].name
    return [*found, session]

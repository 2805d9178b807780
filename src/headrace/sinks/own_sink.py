"""Sinks of the user's own, named `module:Class`: what they are, what they get, how they load."""

import difflib
import pkgutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from inspect import iscoroutinefunction
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError, StageError, in_words
from headrace.extraction.image_reader import ImageBatch
from headrace.models.results import Boxes, Labels
from headrace.sinks.batch_results import Arrival, ClassifiedBatch, DetectedBatch
from headrace.video.frames import FrameBatch

_METHODS: Final = ("open", "write", "close")
_SHOWN: Final = 3
"""Near names in a message, at most."""


@dataclass(frozen=True, kw_only=True)
class SinkContext:
    """The run that a sink takes the results of."""

    output_dir: Path
    """Folder of the results, made already; a sink may write files there."""
    sources: tuple[str, ...]
    """Paths of the videos in the order they are read, or names of the live sources, without
    passwords; empty where pictures are read."""
    model: str
    """Name of the model."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ResultBatch:
    """Results of up to a batch of N frames, in the order they were read."""

    sources: tuple[str, ...]
    """Path or name of the source of each frame, N of them."""
    index: NDArray[np.int64] | None
    """int64 [N]: place of each frame in its source, from 0; None for pictures."""
    pts_seconds: NDArray[np.float64] | None
    """float64 [N]: presentation time of each frame, in seconds; None for pictures."""
    labels: Labels | None
    """The likeliest classes of each frame; None where the model finds boxes."""
    boxes: Boxes | None
    """What was found in each frame, and where; None where the model names classes."""
    frames: NDArray[np.uint8] | None
    """uint8 [N, H, W, 3] in [0, 255], RGB, upright, valid until `write` returns; None unless the
    sink has `needs_frames = True`."""
    arrival: Arrival | None
    """When the frame came, in a live run, whose batches hold one frame; else None."""

    def __len__(self) -> int:
        """Return N, the number of frames."""
        return len(self.sources)


class Sink(Protocol):
    """Takes the results of a run, in order, from one thread: to a database, a queue, a file.

    Two attributes are optional. `needs_frames = True` asks for the pixels as well, which costs a
    copy where frames stay on a GPU. `outputs`, a tuple of names of files that the sink wrote in
    `SinkContext.output_dir`, is recorded with the run.

    Whatever a method raises ends a run of files, which is recorded with the cause; in a live run it
    ends this sink alone. What was written until then stays.
    """

    def open(self, context: SinkContext) -> None:
        """Get ready, before the first result. What this raises ends every run."""
        ...

    def write(self, results: ResultBatch) -> None:
        """Take one batch; who calls waits until this returns."""
        ...

    def close(self) -> None:
        """Finish, however the run ended. Called once, where `open` returned."""
        ...


class OwnSink:
    """Hands results to a sink of the user's own: a `SinkOf` both kinds of results."""

    def __init__(self, name: str, context: SinkContext) -> None:
        """Import the class; nothing is made or opened yet.

        Args:
            name: "module:Class".
            context: What it is opened with.

        Raises:
            ConfigError: see `load_sink`.
        """
        self.name = name
        """For messages and records."""
        self._kind = load_sink(name)
        self._context = context
        self._sink: Sink | None = None
        self.outputs: tuple[str, ...] = ()
        """The files that it says it wrote in the folder of the run; none before it is closed."""

    def open(self) -> None:
        """Make the sink, without arguments, and open it.

        Raises:
            StageError: it cannot be made or opened; `__cause__` is what it raised.
        """
        sink = self._call("__init__", self._kind)
        self._call("open", sink.open, self._context)
        self._sink = sink

    def write(self, seen: ClassifiedBatch | DetectedBatch) -> None:
        """Hand over one batch.

        Raises:
            StageError: the sink failed; `__cause__` is what it raised.
        """
        sink = self._sink
        assert sink is not None
        batch = seen.batch
        is_of_pictures = isinstance(batch, ImageBatch)
        results = ResultBatch(
            sources=_sources(batch, self._context.sources),
            index=None if is_of_pictures else batch.index,
            pts_seconds=None if is_of_pictures else batch.pts_seconds,
            labels=seen.labels if isinstance(seen, ClassifiedBatch) else None,
            boxes=seen.boxes if isinstance(seen, DetectedBatch) else None,
            frames=batch.frames if _needs_frames(self._kind) else None,
            arrival=getattr(seen, "arrival", None),
        )
        self._call("write", sink.write, results)

    def close(self) -> None:
        """Close the sink where it is open.

        Raises:
            StageError: it cannot be closed; `__cause__` is what it raised.
        """
        sink, self._sink = self._sink, None
        if sink is not None:
            try:
                self._call("close", sink.close)
            finally:
                self.outputs = self._call("outputs", _outputs_of, sink)

    def _call(self, name: str, method: Callable[..., Any], *given: object) -> Any:
        try:
            return method(*given)
        except Exception as error:  # Code of the user's own raises what it likes.
            raise StageError(
                f"the sink {self.name} failed in {name}: {in_words(error)}", stage="sink"
            ) from error


def _outputs_of(sink: object) -> tuple[str, ...]:
    names = getattr(sink, "outputs", ())
    return (names,) if isinstance(names, str) else tuple(map(str, names))


def open_own(sinks: Iterable[object]) -> None:
    """Open the sinks of the user's own; what headrace brings is open when it is made.

    Raises:
        StageError: one of them cannot be opened.
    """
    for sink in sinks:
        if isinstance(sink, OwnSink):
            sink.open()


def own_sinks(
    names: Iterable[str], output_dir: Path, sources: Sequence[str], model: str
) -> tuple[OwnSink, ...]:
    """Return the sinks of these names, none made or opened yet: see `SinkContext`.

    Raises:
        ConfigError: see `load_sink`.
    """
    context = SinkContext(output_dir=output_dir, sources=tuple(sources), model=model)
    return tuple(OwnSink(name, context) for name in names)


def any_needs_frames(names: Iterable[str]) -> bool:
    """Return whether one of the sinks asks for pixels; raises as `load_sink` does."""
    kinds = [load_sink(name) for name in names]
    return any(map(_needs_frames, kinds))


def load_sink(name: str) -> type[Sink]:
    """Return the class that is named `module:Class`.

    This imports the user's module, which runs the code in it.

    Raises:
        ConfigError: the module or class cannot be found or imported, or has not the methods of
            `Sink`.
    """
    module_name, _, class_name = name.partition(":")
    if not (module_name and class_name):
        raise ConfigError(f"a sink is named module:Class, got {name!r}")
    module = _imported(module_name)
    kind = getattr(module, class_name, None)
    if kind is None:
        public = [each for each in vars(module) if not each.startswith("_")]
        raise ConfigError(f"{module_name} has no class {class_name}{_near(class_name, public)}")
    missing = [method for method in _METHODS if not callable(getattr(kind, method, None))]
    if not isinstance(kind, type) or missing:
        found = f"no {', '.join(missing)}" if isinstance(kind, type) else type(kind).__name__
        raise ConfigError(
            f"a sink is a class with {', '.join(_METHODS)}, got {found} of {name}; "
            "see headrace.Sink"
        )
    waiting = [method for method in _METHODS if iscoroutinefunction(getattr(kind, method))]
    if waiting:
        raise ConfigError(
            f"the methods of a sink are plain functions, and {', '.join(waiting)} of {name} is "
            "async; let it run the coroutine itself, as by asyncio.run"
        )
    sink: type[Sink] = kind
    return sink


def _needs_frames(kind: type[Sink]) -> bool:
    return bool(getattr(kind, "needs_frames", False))


def _imported(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if not error.name or not f"{name}.".startswith(f"{error.name}."):
            raise _not_imported(name, error) from error
        parent, _, last = error.name.rpartition(".")
        path = list(import_module(parent).__path__) if parent else None
        near = _near(last, [module.name for module in pkgutil.iter_modules(path)])
        raise ConfigError(
            f"no module named {error.name}{near}; give module:Class, as Python finds it from here "
            "(PYTHONPATH=. for a file in this folder)"
        ) from error
    except Exception as error:  # Code of the user's own raises what it likes.
        raise _not_imported(name, error) from error


def _not_imported(name: str, error: Exception) -> ConfigError:
    return ConfigError(f"cannot import {name}: {in_words(error)}")


def _near(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=_SHOWN)
    return f"; did you mean {', '.join(close)}?" if close else ""


def _sources(batch: FrameBatch, sources: Sequence[str]) -> tuple[str, ...]:
    if isinstance(batch, ImageBatch):
        return tuple(str(picture.path) for picture in batch.pictures)
    return (sources[batch.video],) * len(batch)

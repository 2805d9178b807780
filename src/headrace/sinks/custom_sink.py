"""Custom sinks, named `module:Class`: their protocol, their results, and their loading."""

import pkgutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from inspect import iscoroutinefunction
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError, StageError, did_you_mean, in_words
from headrace.extraction.image_reader import ImageBatch
from headrace.models.results import Boxes, Labels
from headrace.sinks.batch_results import Arrival, BatchResults

_METHODS: Final = ("open", "write", "close")


@dataclass(frozen=True, kw_only=True)
class SinkContext:
    """Run of a sink."""

    output_dir: Path
    """Existing output folder; a sink may write files there."""
    sources: tuple[str, ...]
    """Paths of the videos in reading order, or names of the live sources without passwords; empty
    for images."""
    model: str
    """Name of the model."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ResultBatch:
    """Results of N frames in reading order, at most one batch."""

    sources: tuple[str, ...]
    """Path or name of the source of each frame; N entries."""
    index: NDArray[np.int64] | None
    """int64 [N]: index of each frame in its source, from 0; None for images."""
    pts_seconds: NDArray[np.float64] | None
    """float64 [N]: presentation time of each frame, in seconds; None for images."""
    labels: Labels | None
    """Likeliest classes of each frame; None for a detector."""
    boxes: Boxes | None
    """Boxes of each frame; None for a classifier."""
    frames: NDArray[np.uint8] | None
    """uint8 [N, H, W, 3] in [0, 255], RGB, upright, valid until `write` returns; None unless the
    sink has `needs_frames = True`."""
    arrival: Arrival | None
    """Arrival of the frame in a live run, whose batches have one frame; else None."""

    def __len__(self) -> int:
        """Return N, the number of frames."""
        return len(self.sources)


class Sink(Protocol):
    """Protocol of a custom sink: receives the results of a run, in order, in one thread.

    Two attributes are optional. `needs_frames = True` requests the pixels, which costs a copy for
    frames on a GPU. `outputs`, a tuple of names of files in `SinkContext.output_dir`, is recorded
    with the run.

    If a method raises an exception, a run of files ends and records the cause; in a live run, only
    this sink ends. Results already written stay.
    """

    def open(self, context: SinkContext) -> None:
        """Prepare for the first result. An exception ends every run."""
        ...

    def write(self, results: ResultBatch) -> None:
        """Write one batch; the run waits for the return."""
        ...

    def close(self) -> None:
        """Finish, however the run ended. Called once, if `open` returned."""
        ...


class CustomSink:
    """Adapter of a custom sink: a `ResultSink` of labels and boxes."""

    def __init__(self, name: str, context: SinkContext) -> None:
        """Import the class; create no instance yet.

        Args:
            name: "module:Class".
            context: Argument of `Sink.open`.

        Raises:
            ConfigError: see `load_sink`.
        """
        self.name = name
        """Name in messages and records."""
        self._kind = load_sink(name)
        self._context = context
        self._sink: Sink | None = None
        self.outputs: tuple[str, ...] = ()
        """Files that the sink reports, available after `close`."""

    def open(self) -> None:
        """Create the sink, without arguments, and open it.

        Raises:
            StageError: the sink raised; `__cause__` is its exception.
        """
        sink = self._call("__init__", self._kind)
        self._call("open", sink.open, self._context)
        self._sink = sink

    def write(self, results: BatchResults[Any]) -> None:
        """Write one batch.

        Raises:
            StageError: the sink raised; `__cause__` is its exception.
        """
        sink = self._sink
        assert sink is not None
        batch, output = results.batch, results.output
        is_images = isinstance(batch, ImageBatch)
        if isinstance(batch, ImageBatch):
            sources = tuple(str(image.path) for image in batch.pictures)
        else:
            sources = (self._context.sources[batch.video],) * len(batch)
        result_batch = ResultBatch(
            sources=sources,
            index=None if is_images else batch.index,
            pts_seconds=None if is_images else batch.pts_seconds,
            labels=output if isinstance(output, Labels) else None,
            boxes=output if isinstance(output, Boxes) else None,
            frames=batch.frames if _needs_frames(self._kind) else None,
            arrival=results.arrival,
        )
        self._call("write", sink.write, result_batch)

    def close(self) -> None:
        """Close the sink if it is open.

        Raises:
            StageError: the sink raised; `__cause__` is its exception.
        """
        sink, self._sink = self._sink, None
        if sink is not None:
            try:
                self._call("close", sink.close)
            finally:
                self.outputs = self._call("outputs", _outputs_of, sink)

    def _call(self, name: str, method: Callable[..., Any], *arguments: object) -> Any:
        try:
            return method(*arguments)
        except Exception as error:  # Custom code may raise any exception.
            raise StageError(
                f"the sink {self.name} failed in {name}{_place_of(error, self._kind)}: "
                f"{in_words(error)}",
                stage="sink",
            ) from error


def _place_of(error: Exception, kind: type[Sink]) -> str:
    """Return ` at mine.py:17`, the last line of the sink's file in a traceback; empty: none."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    lines = [entry.lineno for entry in extract_tb(error.__traceback__) if entry.filename == file]
    return f" at {Path(str(file)).name}:{lines[-1]}" if lines else ""


def _outputs_of(sink: object) -> tuple[str, ...]:
    names = getattr(sink, "outputs", ())
    return (names,) if isinstance(names, str) else tuple(map(str, names))


def open_custom_sinks(sinks: Iterable[object]) -> None:
    """Open the custom sinks; other sinks open on creation.

    Raises:
        StageError: a sink cannot be opened.
    """
    for sink in sinks:
        if isinstance(sink, CustomSink):
            sink.open()


def custom_sinks(
    names: Iterable[str], output_dir: Path, sources: Sequence[str], model: str
) -> tuple[CustomSink, ...]:
    """Return the adapters of custom sinks, not opened: see `SinkContext`.

    Raises:
        ConfigError: see `load_sink`.
    """
    context = SinkContext(output_dir=output_dir, sources=tuple(sources), model=model)
    return tuple(CustomSink(name, context) for name in names)


def any_sink_needs_frames(names: Iterable[str]) -> bool:
    """Return whether a sink requests pixels; raises as `load_sink`."""
    kinds = [load_sink(name) for name in names]
    return any(map(_needs_frames, kinds))


def load_sink(name: str) -> type[Sink]:
    """Return the class named `module:Class`.

    Importing the module runs its code.

    Raises:
        ConfigError: the module or class cannot be found or imported, or lacks methods of `Sink`.
    """
    module_name, _, class_name = name.partition(":")
    if not (module_name and class_name):
        raise ConfigError(f"a sink must be given as module:Class, got {name!r}")
    if module_name.endswith(".py"):
        raise ConfigError(
            f"a sink is named by its module, not its file: write "
            f"{Path(module_name).stem}:{class_name}, without .py, got {name!r}"
        )
    module = _import(module_name)
    kind = getattr(module, class_name, None)
    if kind is None:
        public = [attribute for attribute in vars(module) if not attribute.startswith("_")]
        raise ConfigError(f"{module_name} has no class {class_name}{_hint(class_name, public)}")
    missing = [method for method in _METHODS if not callable(getattr(kind, method, None))]
    if not isinstance(kind, type) or missing:
        problem = f"lacks {', '.join(missing)}" if isinstance(kind, type) else "is not a class"
        raise ConfigError(
            f"a sink is a class with {', '.join(_METHODS)}, but {name} {problem}; see headrace.Sink"
        )
    coroutines = [method for method in _METHODS if iscoroutinefunction(getattr(kind, method))]
    if coroutines:
        raise ConfigError(
            f"methods of a sink must not be async, but {', '.join(coroutines)} of {name} is; call "
            "asyncio.run inside it"
        )
    sink: type[Sink] = kind
    return sink


def _needs_frames(kind: type[Sink]) -> bool:
    return bool(getattr(kind, "needs_frames", False))


def _import(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if not error.name or not f"{name}.".startswith(f"{error.name}."):
            raise ConfigError(f"cannot import {name}: {in_words(error)}") from error
        parent, _, last = error.name.rpartition(".")
        path = list(import_module(parent).__path__) if parent else None
        hint = _hint(last, [module.name for module in pkgutil.iter_modules(path)])
        raise ConfigError(
            f"no module named {error.name}{hint}; give module:Class of an importable module "
            "(PYTHONPATH=. for a file in this folder)"
        ) from error
    except Exception as error:  # Custom code may raise any exception.
        raise ConfigError(f"cannot import {name}: {in_words(error)}") from error


def _hint(name: str, names: Sequence[str]) -> str:
    hint = did_you_mean(name, names)
    return f"; {hint}" if hint else ""

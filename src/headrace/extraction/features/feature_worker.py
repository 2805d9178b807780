"""Feature worker: computes chunks, writes part files, and fills the cache."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from headrace.cache.cache_url import open_cache
from headrace.cached_property import cached_property
from headrace.errors import HeadraceError
from headrace.extraction.chunk_worker import Worker, chunk_of, report_failure, run_worker
from headrace.extraction.features.feature_engine import FeatureEngine, Hooks
from headrace.extraction.features.feature_options import ALLOW_NAN
from headrace.extraction.features.feature_result import ChunkResult
from headrace.extraction.features.load_feature_model import load_feature_model
from headrace.extraction.features.model_signature import KeyMaker
from headrace.extraction.features.model_spec import (
    ModelSignature,
    WorkerResources,
    model_of_asked,
    numerics_of_asked,
)
from headrace.extraction.features.table_store import PartFiles
from headrace.extraction.journal import Journal
from headrace.planning.chunks import Chunk
from headrace.records import from_dict
from headrace.runtime.child_process import Json
from headrace.runtime.posix import file_lock
from headrace.runtime.worker_pool import ChunkReporter

PARTS: Final = ("decode", "prepare", "transfer", "model", "write")
"""Parts of the work on a chunk."""
_ARGUMENT: Final = "the workers' task"


class FeatureWorker(Worker):
    """Computes features of chunks, several at a time. The first chunk loads the model."""

    def __init__(
        self,
        argument: dict[str, Any],
        journal: Journal,
        *,
        engine_of: Callable[["FeatureWorker"], FeatureEngine],
    ) -> None:
        """Open the cache; load nothing yet.

        Args:
            argument: Argument of all workers: see `FeatureExtraction.pool_task`.
            journal: Journal of the output folder.
            engine_of: Returns the engine of a worker; called for the first chunk. Later rounds
                reuse the engine.
        """
        super().__init__(argument, journal)
        facts = from_dict(ModelSignature, argument["facts"], file=_ARGUMENT)
        self.keys = KeyMaker.of(self.request, facts, argument["decode"], raises=self.raises)
        """Keys of results in the cache: all inputs that determine features."""
        self.hooks = Hooks(
            on_begun=lambda chunk: self._reporters[chunk.name].report_started(),
            on_read=lambda chunk: self._reporters[chunk.name].report_decoded(),
            on_frames=lambda frames: self._heartbeat(),
            on_samples=lambda samples: self._send({"samples": samples}),
            on_note=lambda note: self._send({"note": note}),
            on_devices=lambda frames: self._send({"frames_by": dict(frames)}),
        )
        """Callbacks of the engine."""
        self._engine_of, self._parts = engine_of, PartFiles(journal)
        self._reporters: dict[str, ChunkReporter] = {}
        """Chunk in progress → its reporter."""
        self._uncached: str | None = None
        """Reason results are not cached: the model differs from the one in the keys."""
        self._cache = open_cache(journal.secret())

    @cached_property
    def _engine(self) -> FeatureEngine:
        return self._engine_of(self)

    def run(self, reporters: Iterator[ChunkReporter]) -> None:
        """Run the chunks of a round; an error of the whole run is reported for one chunk."""
        first = next(reporters, None)
        if first is None:
            return
        try:
            with closing(self._engine.run(self._chunks(chain([first], reporters)))) as results:
                for result in results:
                    self._finish(result)
        except HeadraceError as error:
            report_failure(first, error)
            self._reporters.clear()

    def cache_nothing(self, attributes: list[str]) -> None:
        """Cache no result, as `attributes` of the model differ from those of the cache keys."""
        self._uncached = (
            f"not cached: {', '.join(attributes)} of the model differs between processes; load it "
            "from a file, use a fixed seed, or give the model an attribute version"
        )

    def close(self) -> None:
        """Close the cache."""
        self._cache.close()

    def _chunks(self, reporters: Iterable[ChunkReporter]) -> Iterator[Chunk]:
        for reporter in reporters:
            self._reporters[reporter.chunk] = reporter
            yield chunk_of(reporter.payload)[0]

    def _finish(self, result: ChunkResult) -> None:
        reporter = self._reporters.pop(result.chunk_id)
        if result.error is not None:
            reporter.send({"unreadable": result.error})
        else:
            is_finite = bool(result.samples.is_finite.all())
            if not self.request.asked.get(ALLOW_NAN):
                result = result.without_nan()
            result = self._parts.write(result)
            if is_finite:
                self._cache_result(result, reporter)
            if len(result.samples):
                reporter.send({"step": _step(result, chunk_of(reporter.payload)[0].video)})
            used = np.unique(self.keys.sampling.frames(result.samples.index))
            cost: Json = {
                "frames_decoded": result.made.frames_decoded,
                "frames_delivered": len(used),
            }
            reporter.send({"chunk": {"decode": cost, "lost": len(result.lost)}})
        reporter.report_done()

    def _cache_result(self, result: ChunkResult, reporter: ChunkReporter) -> None:
        _, content = chunk_of(reporter.payload)
        if content is None:
            return
        if self._uncached is None:
            starts = sorted([*result.samples.index.tolist(), *(lost.index for lost in result.lost)])
            self._cache.put({self.keys.key_of(starts, content): result.arrays()})
        for warning in (*self._cache.warnings, *filter(None, [self._uncached])):
            reporter.send({"note": warning})  # the parent process records each once

    def _send(self, message: Json) -> None:
        """Send a message for the oldest chunk in progress."""
        for reporter in list(self._reporters.values())[:1]:
            reporter.send(message)

    def _heartbeat(self) -> None:
        for reporter in list(self._reporters.values())[:1]:
            reporter.heartbeat()


def _step(result: ChunkResult, video: int) -> dict[str, Json]:
    info, samples = result.made, result.samples
    work: dict[str, Json] = {name: getattr(info.times, f"{name}_ms") for name in PARTS}
    return {
        "video": video,
        "first_index": int(samples.index[0]),
        "frames": len(samples),
        "total_ms": (info.ended_seconds - info.started_seconds) * 1e3 + info.times.write_ms,
        "work_ms": work,
        "queue_ms": info.times.queue_ms,
    }


def do_loaded_features(argument: dict[str, Any], send: Callable[[Json], None]) -> None:
    """Run all remaining chunks; do nothing if other workers hold all GPUs."""
    with _device(argument) as device:
        if device is not None:
            engine_of = partial(_engine, device)
            run_worker(argument, send, partial(FeatureWorker, engine_of=engine_of))


def _engine(device: str, worker: FeatureWorker) -> FeatureEngine:
    asked, argument, keys = worker.request.asked, worker.argument, worker.keys
    numerics = replace(numerics_of_asked(asked), device=device)
    model = load_feature_model(model_of_asked(asked), keys.sampling, numerics, keys.facts)
    if model.state is not None and model.version is None:
        differing = model.state.differences(keys.facts.model["attributes"])
        if differing:
            worker.cache_nothing(differing)
    # A decoder on "cuda" is on the worker's own GPU.
    is_own = str(argument["decode"]).endswith("cuda") and device.startswith("cuda:")
    return FeatureEngine(
        model,
        keys.sampling,
        from_dict(WorkerResources, argument["effort"], file=_ARGUMENT),
        index_of=worker.index_of,
        decoding=replace(keys.decoding, device=device) if is_own else keys.decoding,
        spill=worker.spill,
        frame_shape=keys.shape,
        on_error=keys.on_error,
        shape=keys.facts.shape,
        worker=str(argument["worker"]),
        hooks=worker.hooks,
    )


@contextmanager
def _device(argument: Mapping[str, Any]) -> Iterator[str | None]:
    """Yield the device of this process: a GPU without another worker; None: no free GPU."""
    requested = str(argument["device"])
    # Without claims, all visible GPUs belong to this process: Ray shows an actor only its own.
    if requested != "cuda" or torch.cuda.device_count() == 0 or "claims" not in argument:
        yield requested
        return
    with ExitStack() as stack:
        for gpu in range(torch.cuda.device_count()):
            lock = Path(argument["claims"]) / f"gpu-{gpu}"
            if stack.enter_context(file_lock(lock)):
                yield f"cuda:{gpu}"
                return
        yield None

"""Feature worker: computes chunks, writes part files, and fills the cache."""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import torch

from headrace.cache.cache_url import open_cache
from headrace.cache.result_cache import Cache
from headrace.cache.spill_store import SpillStore
from headrace.cached_property import cached_property
from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.index_store import IndexStore
from headrace.decode.protocol import OnError
from headrace.errors import HeadraceError, MediaError
from headrace.extraction.chunk_worker import chunk_of
from headrace.extraction.decode_jobs import spill_of
from headrace.extraction.extraction_options import OutputSpec, shape_of_asked
from headrace.extraction.features.feature_engine import FeatureEngine, Hooks
from headrace.extraction.features.feature_options import ALLOW_NAN
from headrace.extraction.features.feature_result import ChunkResult
from headrace.extraction.features.load_feature_model import load_feature_model
from headrace.extraction.features.model_signature import KeyMaker, ModelSignature
from headrace.extraction.features.model_spec import (
    Sampling,
    WorkerResources,
    model_of_asked,
    numerics_of_asked,
)
from headrace.extraction.features.table_store import PartFiles
from headrace.extraction.journal import Journal
from headrace.extraction.videos import reopened
from headrace.planning.chunks import Chunk
from headrace.records import from_dict
from headrace.runtime.child_spec import Json
from headrace.runtime.posix import file_lock
from headrace.runtime.worker_protocol import ChunkReporter, iter_rounds
from headrace.video.stream_index import StreamIndex

_INDEXES: Final = 7
"""Indexes kept besides the latest one, because several chunks are in progress at a time."""
PARTS: Final = ("decode", "prepare", "transfer", "model", "write")
"""Parts of the work on a chunk."""
_ARGUMENT: Final = "what the workers are told"


class EngineProtocol(Protocol):
    """Computes features of chunks: see `FeatureEngine`."""

    def run(self, chunks: Iterable[Chunk]) -> Generator[ChunkResult, None, None]:
        """Yield the result of each chunk when it is complete."""


@dataclass(frozen=True, kw_only=True)
class EngineNeeds:
    """Arguments of an engine."""

    request: OutputSpec
    facts: ModelSignature
    effort: WorkerResources
    decode: str
    """Backend and device, as requested."""
    spill: SpillStore | None
    """Frames on a disk."""
    index_of: Callable[[int], StreamIndex]
    on_error: OnError
    worker: str
    hooks: Hooks


def do_features(
    argument: Mapping[str, Any],
    send: Callable[[Json], None],
    engine_of: Callable[[EngineNeeds], EngineProtocol],
) -> None:
    """Run all remaining chunks of features.

    Args:
        argument: Argument of all workers: see `FeatureExtraction.pool_task`.
        send: Sends a message to the parent process.
        engine_of: Returns the engine; called for the first chunk. Later rounds reuse the engine.
    """
    journal = Journal(Path(argument["folder"]))
    with journal.as_worker(), open_cache(journal.told()) as cache:
        work = _FeatureWork(argument, journal, cache, engine_of)
        for reporters in iter_rounds(argument, send):
            work.do(reporters)


class _FeatureWork:
    """Computes features of chunks, several at a time. The first chunk loads the model."""

    def __init__(
        self,
        argument: Mapping[str, Any],
        journal: Journal,
        cache: Cache,
        engine_of: Callable[[EngineNeeds], EngineProtocol],
    ) -> None:
        """Load nothing yet."""
        self._argument, self._request = argument, journal.request()
        self._parts, self._cache, self._engine_of = PartFiles(journal), cache, engine_of
        self._store = IndexStore(Path(argument["store"]))
        self._sampling = Sampling.of_asked(self._request.asked)
        self._facts = from_dict(ModelSignature, argument["facts"], file=_ARGUMENT)
        self._keys = KeyMaker(
            facts=self._facts,
            sampling=self._sampling,
            on_error=self._on_error,
            decoding=DecoderConfig.parse(self._decode),
            shape=shape_of_asked(self._request.asked),
        )
        self._indexes: dict[int, StreamIndex] = {}
        self._at: dict[str, ChunkReporter] = {}
        self._warned: set[str] = set()
        self._unkept: str | None = None
        """Reason results are not cached: the model differs from the one in the keys."""

    @property
    def _decode(self) -> str:
        return str(self._argument["decode"])

    @property
    def _on_error(self) -> OnError:
        if self._argument["raises"]:
            return "raise"
        return "conceal" if self._request.conceals else "skip"

    @cached_property
    def _engine(self) -> EngineProtocol:
        return self._engine_of(
            EngineNeeds(
                request=self._request,
                facts=self._facts,
                effort=from_dict(WorkerResources, self._argument["effort"], file=_ARGUMENT),
                decode=self._decode,
                spill=spill_of(self._argument, DecoderConfig.parse(self._decode)),
                index_of=self._index_of,
                on_error=self._on_error,
                worker=str(self._argument["worker"]),
                hooks=Hooks(
                    on_begun=lambda chunk: self._at[chunk.name].report_started(),
                    on_read=lambda chunk: self._at[chunk.name].report_decoded(),
                    on_frames=lambda frames: self._show_life(),
                    on_note=lambda note: self._send({"note": note}),
                    on_other_state=self._unkeep,
                    on_ways=lambda frames: self._send({"frames_by": dict(frames)}),
                ),
            )
        )

    def do(self, reporters: Iterator[ChunkReporter]) -> None:
        """Run the chunks of a round; an error of the whole run is reported for one chunk."""
        first = next(reporters, None)
        if first is None:
            return
        try:
            with closing(self._engine.run(self._specs(chain([first], reporters)))) as results:
                for result in results:
                    self._settle(result)
        except HeadraceError as error:
            source = error.source if isinstance(error, MediaError) else None
            first.send({"failed": {"why": str(error), "source": source}})
            self._at.clear()

    def _specs(self, reporters: Iterable[ChunkReporter]) -> Iterator[Chunk]:
        for reporter in reporters:
            self._at[reporter.chunk] = reporter
            yield chunk_of(reporter.payload)[0]

    def _settle(self, result: ChunkResult) -> None:
        reporter = self._at.pop(result.chunk_id)
        if result.error is not None:
            reporter.send({"unreadable": result.error})
        else:
            is_finite = bool(result.samples.is_finite.all())
            if not self._request.asked.get(ALLOW_NAN):
                result = result.without_nan()
            result = self._parts.write(result)
            if is_finite:
                self._keep(result, reporter)
            if len(result.samples):
                reporter.send({"step": _step(result, chunk_of(reporter.payload)[0].video)})
            reporter.send({"chunk": {"decode": self._decoding(result), "lost": len(result.lost)}})
        reporter.report_done()

    def _decoding(self, result: ChunkResult) -> dict[str, Json]:
        used = np.unique(self._sampling.frames(result.samples.index))
        return {"frames_decoded": result.made.frames_decoded, "frames_delivered": len(used)}

    def _keep(self, result: ChunkResult, reporter: ChunkReporter) -> None:
        """Put a result into the cache."""
        chunk, content = chunk_of(reporter.payload)
        if content is None:
            return
        if self._unkept is None:
            keys = self._keys.keys_of([chunk], self._index_of(chunk.video), content)
            self._cache.put({keys[chunk.name]: result.arrays()})
        for warning in (*self._cache.warnings, *filter(None, [self._unkept])):
            if warning not in self._warned:
                self._warned.add(warning)
                reporter.send({"note": warning})

    def _send(self, message: Json) -> None:
        """Send a message for the oldest chunk in progress."""
        for reporter in list(self._at.values())[:1]:
            reporter.send(message)

    def _show_life(self) -> None:
        for reporter in list(self._at.values())[:1]:
            reporter.heartbeat()

    def _unkeep(self, attributes: list[str]) -> None:
        self._unkept = (
            f"not kept in the cache: {', '.join(attributes)} of the model differs from process to "
            "process; have it follow from a file or a fixed seed, or give the model an attribute "
            "version"
        )

    def _index_of(self, video: int) -> StreamIndex:
        index = self._indexes.get(video)
        if index is None:
            index = reopened(self._request.videos[video], self._store)
            self._indexes = {**dict(list(self._indexes.items())[-_INDEXES:]), video: index}
        return index


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


def do_loaded_features(argument: Mapping[str, Any], send: Callable[[Json], None]) -> None:
    """Run all remaining chunks of features; do nothing if other workers have all GPUs."""
    with _device(argument) as device:
        if device is not None:
            do_features(argument, send, partial(_engine, device))


def _engine(device: str, needs: EngineNeeds) -> FeatureEngine:
    asked = needs.request.asked
    sampling = Sampling.of_asked(asked)
    numerics = replace(numerics_of_asked(asked), device=device)
    model = load_feature_model(model_of_asked(asked), sampling, numerics, needs.facts)
    if model.state is not None and model.version is None:
        differing = model.state.differences(needs.facts.model["attributes"])
        if differing:
            needs.hooks.on_other_state(differing)
    return FeatureEngine(
        model,
        sampling,
        needs.effort,
        index_of=needs.index_of,
        decoding=_decoding(needs.decode, device),
        spill=needs.spill,
        frame_shape=shape_of_asked(asked),
        on_error=needs.on_error,
        shape=needs.facts.shape,
        worker=needs.worker,
        hooks=needs.hooks,
    )


def _decoding(decode: str, device: str) -> DecoderConfig:
    """Return the decoder of a worker on a device: on the same GPU, unless another is named."""
    decoding = DecoderConfig.parse(decode)
    is_own = decode.endswith("cuda") and device.startswith("cuda:")
    return replace(decoding, device=device) if is_own else decoding


@contextmanager
def _device(argument: Mapping[str, Any]) -> Iterator[str | None]:
    """Yield the device of this process: a GPU without another worker; None: no free GPU."""
    requested = str(argument["device"])
    # Without claims, all visible GPUs belong to it: Ray shows an actor only its GPU.
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

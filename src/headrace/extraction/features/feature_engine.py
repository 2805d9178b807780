"""Engine of one process: decodes chunks, batches samples across videos, returns features."""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.cache.spill_store import SpillStore
from headrace.decode.decoder_config import ON_CPU, DecoderConfig
from headrace.decode.frame_outputs import Array
from headrace.decode.protocol import Decoder, OnError, check_on_error
from headrace.errors import BackendError, ConfigError, first_line
from headrace.extraction.chunk_worker import Decoders
from headrace.extraction.extraction_options import WHOLE_FRAMES
from headrace.extraction.features.chunk_assembly import (
    Assembly,
    Buckets,
    ChunkReader,
    ModelBatch,
    Piece,
    UnreadableChunk,
)
from headrace.extraction.features.feature_result import ChunkResult, ResultInfo
from headrace.extraction.features.load_feature_model import PROBED_SIZE, FeatureModel
from headrace.extraction.features.model_spec import SampleSpec, WorkerResources
from headrace.models.batch_size import choose_for
from headrace.models.compute import MAX_BATCH_SIZE
from headrace.models.device import (
    copy_for,
    fitting_memory,
    is_out_of_memory,
    operation_threads,
    release_memory,
    transfer,
)
from headrace.planning.chunks import Chunk
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.imap import imap
from headrace.video.frame_format import FrameFormat
from headrace.video.stream_index import StreamIndex

_BUDGET_SECONDS: Final = 10.0
"""Max seconds to measure batch sizes on the CPU."""


class Inference:
    """Runs a model; uses smaller batches after memory ran out. For one thread."""

    def __init__(self, model: FeatureModel, on_note: Callable[[str], None], clock: Clock) -> None:
        """Run nothing yet; `on_note` is called when batches become smaller."""
        self._model, self._on_note, self._clock = model, on_note, clock
        self.max_samples: int = MAX_BATCH_SIZE
        """Max samples per run of the model, lowered when memory runs out."""

    def batch_size(self, effort: WorkerResources, sampling: SampleSpec) -> int:
        """Return the samples per batch: as requested, or measured.

        Raises:
            BackendError: the model cannot run a single sample.
        """
        if effort.batch_size != "auto":
            self.max_samples = effort.batch_size
            return effort.batch_size
        sample = self._model.example(sampling.clip_frames, PROBED_SIZE)

        def run(batch_size: int) -> None:
            self._model.run(sample.expand(batch_size, *sample.shape[1:]).contiguous())

        choice = choose_for(
            run,
            self._model.model.compute.device,
            max_batch_size=MAX_BATCH_SIZE,
            budget_seconds=_BUDGET_SECONDS,
            clock=self._clock,
        )
        self._on_note(choice.reason)
        self.max_samples = choice.batch_size
        return choice.batch_size

    def run(self, batch: torch.Tensor) -> NDArray[Any]:
        """Return the features of a batch, [N, ...]; split into several runs if it does not fit.

        Raises:
            BackendError: the model fails.
            ConfigError: see `FeatureModel.run`.
            RuntimeError, MemoryError: a single sample does not fit: see `is_out_of_memory`.
        """
        features = []
        while len(batch):
            part = batch[: self.max_samples]
            try:
                features.append(self._model.run(part))
            except (RuntimeError, MemoryError) as error:
                self._halve(len(part), error)
            else:
                batch = batch[len(part) :]
                continue
            release_memory()  # after the handler, which holds the memory of the failed run
        return features[0] if len(features) == 1 else np.concatenate(features)

    def prepared(self, frames: torch.Tensor) -> torch.Tensor:
        """Return the model input of frames: uint8 [k, H, W, 3] → [k, 3, h, w].

        Raises:
            RuntimeError, MemoryError: a single frame does not fit: see `is_out_of_memory`.
        """
        try:
            prepared = self._model.prepare(frames)
            if prepared.is_cuda:  # wait, so that the time of preprocessing includes GPU work
                torch.cuda.current_stream(prepared.device).synchronize()
            return prepared
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error) or len(frames) == 1:
                raise
        release_memory()
        half = len(frames) // 2
        return torch.cat([self.prepared(frames[:half]), self.prepared(frames[half:])])

    def _halve(self, size: int, error: BaseException) -> None:
        if is_out_of_memory(error) and size == 1:
            raise error
        if not is_out_of_memory(error):
            raise BackendError(
                f"{self._model.model.name} cannot run on {self._model.numerics.device} with "
                f"batches of {size}: {first_line(error)}; use a smaller model or another --device"
            ) from error
        self.max_samples = size // 2
        self._on_note(
            f"batches of {size} do not fit into memory; continuing with {self.max_samples}"
        )


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """Callbacks of an engine, called in the thread that iterates it."""

    on_begun: Callable[[Chunk], None] = lambda chunk: None
    """Called when a chunk is taken, before its video is opened."""
    on_read: Callable[[Chunk], None] = lambda chunk: None
    """Called after the decoding of a chunk: it is not the cause of a later crash."""
    on_frames: Callable[[int], None] = lambda frames: None
    """Called after frames were decoded: the worker is not hung."""
    on_samples: Callable[[int], None] = lambda samples: None
    """Called after a batch of samples was run."""
    on_note: Callable[[str], None] = lambda note: None
    """Called with each decision to report to the user, once."""
    on_devices: Callable[[Mapping[str, int]], None] = lambda frames: None
    """Called with newly decoded frames by device: see `Decoders.frames`."""


NO_HOOKS = Hooks()
"""No callbacks."""


_CLIP_PIECE = 32
"""Max frames of clips per piece."""


class FeatureEngine:
    """Takes chunks one by one, and yields the results of complete chunks.

        model = load_feature_model(spec, sampling, numerics)
        engine = FeatureEngine(
            model, sampling, WorkerResources(), index_of=indexes.__getitem__
        )
        for result in engine.run(chunks): ...

    Batches are filled across chunks and videos, so results may come later than their chunks, and in
    another order. Memory: one batch per sample size, one piece of decoded frames per decoder, two
    waiting pieces, and the features of chunks in progress.
    """

    def __init__(
        self,
        model: FeatureModel,
        sampling: SampleSpec,
        effort: WorkerResources,
        *,
        index_of: Callable[[int], StreamIndex],
        on_error: OnError = "skip",
        decoding: DecoderConfig = ON_CPU,
        spill: SpillStore | None = None,
        frame_shape: FrameFormat = WHOLE_FRAMES,
        shape: tuple[int, ...] | None = None,
        worker: str = "",
        hooks: Hooks = NO_HOOKS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Open nothing yet.

        Args:
            model: Model of the features; no other caller may run it meanwhile.
            sampling: Definition of a sample.
            effort: Resources of this process.
            index_of: Video number → index; may raise MediaError. Called in the decoding threads.
            on_error: Policy for bad media: end the run, report it in the results, or conceal
                damaged frames by FFmpeg.
            decoding: Backend and device; frames are copied to the CPU.
            spill: Spill store.
            frame_shape: Output format of frames; a size of the model overrides its size.
            shape: Shape of one feature; None: the shape of the first.
            worker: Name of this process, for the results.
            hooks: Callbacks.
            clock: Clock for the timings.
        """
        check_on_error(on_error)
        self._model, self._sampling, self._effort = model, sampling, effort
        self._index_of, self._on_error, self._frame_shape = index_of, on_error, frame_shape
        self._shape, self._worker = shape, worker
        self._hooks, self._clock = hooks, clock
        self._decoders = Decoders(
            decoding,
            threads=max(1, effort.decoders),
            gpu=torch.device(model.model.compute.device).index or 0,
            spill=spill,
        )
        self._copy = copy_for(model.model.compute.device)
        self._inference = Inference(model, hooks.on_note, clock)
        self._buckets = Buckets(1)
        self._in_progress: dict[str, Assembly] = {}

    def run(self, chunks: Iterable[Chunk]) -> Generator[ChunkResult, None, None]:
        """Yield the result of each chunk, once, when it is complete.

        Chunks are taken as needed. To stop early, iterate inside `with closing(...)`, which closes
        threads and files.

        Raises:
            MediaError: bad media, with `on_error` "raise".
            ConfigError: the model fails, or its features differ in shape.
            BackendError: a single sample does not fit into memory.
        """
        self._in_progress = {}
        model = self._model.model
        with operation_threads(self._effort.threads), fitting_memory(model.name):
            self._buckets = Buckets(self._inference.batch_size(self._effort, self._sampling))
            with closing(self._pieces(chunks)) as pieces:
                for piece in pieces:
                    self._report_devices()
                    yield from self._take(piece)
            for batch in self._buckets.flush():
                yield from self._run(batch)

    def _report_devices(self) -> None:
        """Report the decoding devices while the chunk is in progress."""
        for reason in self._decoders.reasons():
            self._hooks.on_note(reason)
        frames_by = self._decoders.frames()
        if frames_by:
            self._hooks.on_devices(frames_by)

    def _pieces(self, chunks: Iterable[Chunk]) -> Generator[Piece | UnreadableChunk, None, None]:
        begun, decoders = map(self._report_begun, chunks), self._effort.decoders
        if not decoders:
            with self._reader() as read:
                for chunk in begun:
                    yield from read(chunk)
            return
        pieces = imap(
            self._reader, begun, workers=decoders, capacity=2, is_ordered=False, name="decode"
        )
        with closing(pieces):
            yield from pieces

    def _report_begun(self, chunk: Chunk) -> Chunk:
        self._hooks.on_begun(chunk)
        return chunk

    @contextmanager
    def _reader(self) -> Iterator[Callable[[Chunk], Iterator[Piece | UnreadableChunk]]]:
        """Yield the reading function of one thread."""
        reader = ChunkReader(
            self._open,
            self._sampling,
            on_error=self._on_error,
            max_frames=self._max_piece_frames,
            clock=self._clock,
        )
        with closing(reader):
            yield reader.read

    def _open(self, video: int) -> Decoder[Array]:
        """Return a decoder of frames of one size, even if the size of the stream changes."""
        index, requested = self._index_of(video), self._frame_shape
        size = self._model.size or requested.output_size(index.info.upright_size)
        return self._decoders.open(index, replace(requested, size=size))

    def _max_piece_frames(self, size: tuple[int, int]) -> int:
        """Return the max frames of a piece.

        A piece that this thread decodes fills the current batch, so that nothing is copied.
        """
        if self._sampling.clip is not None:
            return _CLIP_PIECE
        if self._effort.decoders:
            return self._buckets.batch_size
        return self._buckets.room((3, *self._model.seen(size)))

    def _take(self, piece: Piece | UnreadableChunk) -> Iterator[ChunkResult]:
        if isinstance(piece, tuple):
            chunk, error = piece
            self._hooks.on_read(chunk)
            now = self._clock.wall_seconds()
            yield ChunkResult.failed(
                chunk,
                str(error),
                shape=self._shape or (0,),
                dtype=self._model.numerics.dtype,
                made=ResultInfo(worker=self._worker, started_seconds=now, ended_seconds=now),
            )
            return
        name = piece.plan.chunk.name
        assembly = self._in_progress.get(name)
        if assembly is None:
            started = self._clock.wall_seconds() - piece.decode_ns / 1e9
            assembly = self._in_progress[name] = Assembly(piece.plan, started)
        self._hooks.on_frames(len(piece.index) + len(piece.lost))
        if piece.is_last:
            self._hooks.on_read(piece.plan.chunk)
        assembly.spent["decode"] += piece.decode_ns
        prepared = self._prepared(piece, assembly)
        for share, samples in assembly.take(piece, prepared, self._clock):
            for batch in self._buckets.add(share, samples):
                yield from self._run(batch)
        yield from self._completed([assembly])

    def _prepared(self, piece: Piece, assembly: Assembly) -> torch.Tensor:
        """Return the model input of the frames of a piece, on its device."""
        if not len(piece.index):
            return torch.empty((0, 3, 1, 1))
        began_ns = self._clock.now_ns()
        assembly.spent["queue"] += began_ns - piece.decoded_ns
        device = self._model.model.compute.device
        frames = transfer(piece.frames, device, copy=self._copy)
        moved_ns = self._clock.now_ns()
        assembly.spent["transfer"] += moved_ns - began_ns
        prepared = self._inference.prepared(frames)
        assembly.spent["prepare"] += self._clock.now_ns() - moved_ns
        return prepared

    def _run(self, batch: ModelBatch) -> Iterator[ChunkResult]:
        began_ns = self._clock.now_ns()
        features = self._inference.run(batch.tensor)
        self._buckets.batch_size = min(self._buckets.batch_size, self._inference.max_samples)
        if self._shape is None:
            self._shape = features.shape[1:]
        if features.shape[1:] != self._shape:
            raise ConfigError(
                f"features must have one shape, but the model returned {list(self._shape)} and "
                f"{list(features.shape[1:])}; choose a layer behind the pooling, or give the model "
                "a size"
            )
        elapsed_ns = self._clock.now_ns() - began_ns
        self._hooks.on_samples(len(features))
        offset = 0
        for share in batch.shares:
            stop = offset + len(share.rows)
            share.assembly.put(share.rows, features[offset:stop])
            share.assembly.spent["queue"] += began_ns - share.ready_ns
            share.assembly.spent["model"] += elapsed_ns * (stop - offset) / len(features)
            offset = stop
        yield from self._completed([share.assembly for share in batch.shares])

    def _completed(self, assemblies: list[Assembly]) -> Iterator[ChunkResult]:
        for assembly in assemblies:
            name = assembly.plan.chunk.name
            if name in self._in_progress and assembly.is_complete:
                del self._in_progress[name]
                yield assembly.result(
                    self._shape or (0,),
                    self._model.numerics.dtype,
                    self._worker,
                    self._clock.wall_seconds(),
                )

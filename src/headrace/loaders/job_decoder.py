"""JobDecoder: decodes GOP jobs to views of frames, and unpacks frames of batches."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, zip_longest
from typing import Any

import numpy as np

from headrace.decode.converter import ArrayConverter, Converter, MultiShapeOutput
from headrace.decode.decoder_config import ON_CPU, DecoderConfig
from headrace.decode.exact_planes import ExactPlanes, PixelUses, PlanesWriter
from headrace.decode.frame_outputs import Out
from headrace.decode.gpu.gpu_decoding import DeviceScheduler, device_of, tensor_converter
from headrace.decode.open_decoder import open_any_decoder
from headrace.decode.packing import Packer, Packing, exact_planes
from headrace.decode.protocol import DecodeCounters, DecodeJob, Decoder, run_job
from headrace.decode.proxy_decoder import ProxyCodecs
from headrace.decode.proxy_index import ProxyIndex
from headrace.decode.spilled_decoder import SpillWriter
from headrace.decode.yuv420 import Yuv420Unpacker
from headrace.errors import MediaError
from headrace.loaders.augment import FrameGeometry, FrameViews
from headrace.loaders.frame_memory import Decoded, FrameMemory, Spill, view_as_format
from headrace.planning.lookahead import GopJob
from headrace.runtime.clock import Clock
from headrace.runtime.synchronization import ResourcePool
from headrace.video.frame_format import FrameFormat
from headrace.video.stream_index import StreamIndex


@dataclass(frozen=True, kw_only=True)
class _View:
    """One view of a frame in a job."""

    id: int
    geometry: FrameGeometry | None
    is_later: bool
    """Whether it waits for a later batch than the job's."""


@dataclass(kw_only=True, eq=False)
class _JobFrames(Sequence[Any]):
    """Output of a decode job: memory of its frames, taken when they are first written, and results.

    As a sequence: position in the job → (format, memory) of each view.
    """

    views: dict[int, list[_View]]
    """Frame → its views, frames ascending; an empty list: the frame is only stored."""
    shape: FrameFormat
    """Format of frames without a geometry."""
    memory: FrameMemory
    packer: Packer | None
    """Packs stored frames, and frames of later batches if `packs_later`."""
    packs_later: bool
    """Whether frames of later batches wait packed."""
    writer: SpillWriter | None
    """Stores all frames on the disk; None: they are not stored."""
    exact: ExactPlanes | None
    """Packs frames as exact planes; None: not possible with these frames."""
    clock: Clock | None
    """Clock to time the planes of one frame; None: without a sample."""
    decoded: Decoded = field(default_factory=Decoded)
    _taken: dict[int, list[Any]] = field(default_factory=dict)
    """Position in the job → memory of each view."""
    _planes: PlanesWriter | None = None
    _failure: Exception | None = None

    def __post_init__(self) -> None:
        self._slots = {frame: slot for slot, frame in enumerate(self.views)}
        self._views = [*self.views.values()]
        self._shapes = [
            [view.geometry.shape if view.geometry else self.shape for view in views] or [self.shape]
            for views in self._views
        ]

    def __len__(self) -> int:
        return len(self.views)

    def __getitem__(self, slot: Any) -> Any:
        shapes = self._shapes[slot]
        if slot not in self._taken:
            try:
                self._taken[slot] = [self.memory.take() for _ in shapes]
            except Exception as error:
                self._failure = error  # the decoder would report it as an error of the file
                raise
        views = zip(shapes, self._taken[slot], strict=True)
        return [(shape, view_as_format(memory, shape)) for shape, memory in views]

    def output(
        self, decoder: Decoder[Any], converter: Callable[[FrameFormat], Converter[Any]]
    ) -> Out[Any]:
        """Return the output for the decoder: the memory of each frame, or of each of its views."""
        if not all(shapes == [decoder.shape] for shapes in self._shapes):
            return MultiShapeOutput(self, converter)
        if self.exact is None or not (self.packer or self.clock):
            return _FirstViews(self)
        to_rgb = converter(decoder.shape)
        self._planes = PlanesWriter(
            self.exact, to_rgb, _FirstViews(self), self._uses_of, clock=self.clock
        )
        return self._planes

    def _uses_of(self, slot: int) -> PixelUses:
        """Return how a frame with one view is used."""
        views = self._views[slot]
        is_later = self.packs_later and all(view.is_later for view in views)
        is_packed = is_later or self.writer is not None
        return PixelUses(is_packed=is_packed, is_rgb=bool(views) and not is_later)

    def keep(self, frame: int, is_concealed: bool) -> None:
        """Add a finished frame to the results, as pixels or packed, and store it."""
        slot, packed = self._slots[frame], b""
        buffers = self._taken.pop(slot)
        planes = None if self._planes is None else self._planes.planes.pop(slot, None)
        is_stored = self.writer is not None and not is_concealed
        for view, buffer in zip_longest(self.views[frame], buffers):
            if view is not None and view.geometry is not None:
                view.geometry.finish(buffer)
            is_later = view is not None and view.is_later and self.packs_later
            if self.packer is not None and (is_later or is_stored):
                packed = self.packer.pack(buffer if planes is None else planes)
            if view is None or is_later:
                self.memory.give(buffer)
            if view is None:
                continue
            if is_later:
                self.decoded.packed[view.id] = packed
            else:
                self.decoded.frames[view.id] = buffer
            if is_concealed:
                self.decoded.concealed.add(view.id)
        if self.writer is not None and is_stored:
            self.writer.add(frame, packed)

    def end(self, lost: Iterable[int], error: MediaError | None) -> Decoded:
        """Release the memory of lost frames, and return the results; raise a failed allocation."""
        if self._failure is not None:
            raise self._failure
        for buffer in chain(*self._taken.values()):
            self.memory.give(buffer)
        if self.writer is not None:
            self.writer.flush()
        if self._planes is not None:
            self.decoded.sample = self._planes.sample
        for view in chain(*(self.views[frame] for frame in lost)):
            assert error is not None
            self.decoded.failures[view.id] = error
        return self.decoded


class _FirstViews(Sequence[Any]):
    """Memory of frames with a single view, as a sequence."""

    def __init__(self, frames: _JobFrames) -> None:
        self._frames = frames

    def __len__(self) -> int:
        return len(self._frames)

    def __getitem__(self, slot: Any) -> Any:
        return self._frames[slot][0][1]


@dataclass(kw_only=True, eq=False)
class JobDecoder:
    """Decodes GOP jobs of a video set on any number of threads, which share idle files.

    An idle file takes about 500 kB without its codec, which would take 10 MB at 720p.
    """

    views: FrameViews
    """Views of the ids in jobs; no view is larger than the format of the memory."""
    memory: FrameMemory
    """Format and memory of the frames; the caller returns frames with `memory.give`."""
    max_open: int
    """Max files that stay open between jobs."""
    conceals: bool = False
    """Whether damaged frames are delivered as FFmpeg conceals them."""
    decoding: DecoderConfig = ON_CPU
    """Decoder and device; frames are decoded to the device of the memory."""
    scheduler: DeviceScheduler | None = None
    """Chooses the device of each job, with `DecoderConfig(device="auto")`."""
    spill: Spill | None = None
    """Store of frames on a disk, to which whole GOPs are added."""
    _workers: list["JobWorker"] = field(default_factory=list)

    def __post_init__(self) -> None:
        assert self.memory.shape.size is not None
        self.size = self.memory.shape.size
        self.videos = self.views.videos
        self.idle: ResourcePool[int, Decoder[Any]] = ResourcePool(self.max_open)

    @property
    def counters(self) -> DecodeCounters:
        """Decode counters, over all threads."""
        return sum((worker.counters for worker in tuple(self._workers)), DecodeCounters())

    def close(self) -> None:
        """Close idle files, and free unused memory. Jobs may be decoded again."""
        self.idle.close()
        self.memory.close()

    def describe(self, job: GopJob) -> str:
        """Return a job's frames and file, for a message."""
        frames = np.unique(self.views.frames(np.array(job.frames, np.int64)))
        videos, indices = self.videos.population.locate(frames)
        source = self.videos.indexes[int(videos[0])].source
        return f"{len(frames)} frames of {source} (from frame {int(indices[0])})"

    def num_to_decode(self, job: GopJob) -> int:
        """Return the number of frames from a job's keyframe to its last frame."""
        last = int(self.views.frames(np.array(job.frames, np.int64)).max())
        return last + 1 - int(self.videos.decoded_population.gop_start[job.gop])

    def worker(self) -> "JobWorker":
        """Return a new worker for one thread; it has its own counters, without a lock."""
        worker = JobWorker(self)
        self._workers.append(worker)
        return worker

    def converter(self, index: StreamIndex, shape: FrameFormat) -> Converter[Any]:
        """Return a converter of a video's frames to a format, for one thread."""
        if self.decoding.keeps_on_device:
            return tensor_converter(index, shape, device_of(self.decoding))
        return ArrayConverter(shape, index.info.orientation, str(index.source))


class JobWorker:
    """Decodes, packs and unpacks frames in one thread."""

    def __init__(self, shared: JobDecoder) -> None:
        self.shared = shared
        """Decoder shared by all threads."""
        self.counters = DecodeCounters()
        """Decode counters of this worker."""
        self._codecs = ProxyCodecs()
        self._packers: dict[Packing, Packer] = {}
        is_on_device = shared.decoding.keeps_on_device
        self._exact = None if is_on_device else exact_planes(shared.memory.shape)
        self._yuv420 = Yuv420Unpacker() if shared.memory.shape.layout == "yuv420" else None

    def packer(self, packing: Packing) -> Packer:
        """Return this thread's packer for the format of the memory."""
        if packing not in self._packers:
            self._packers[packing] = Packer(packing, self.shared.memory.shape)
        return self._packers[packing]

    def unpack(self, packing: Packing, packed: bytes, row: Any) -> None:
        """Unpack a frame into its row of a batch, as RGB.

        Raises:
            BackendError: the packed frame is not a packet of the codec.
        """
        if self._yuv420 is None:
            self.packer(packing).unpack(packed, row)
            return
        planes = np.empty(self.shared.memory.shape.array_shape(self.shared.size), np.uint8)
        self.packer(packing).unpack(packed, planes)
        self._yuv420.unpack(planes, row)

    def write(self, frame: Any, row: Any) -> None:
        """Copy a waiting frame into its row of a batch, as RGB."""
        if self._yuv420 is None:
            row[...] = frame
        else:
            self._yuv420.unpack(frame, row)

    def decode(
        self, job: GopJob, packing: Packing | None = None, sample: Clock | None = None
    ) -> Decoded:
        """Decode a job.

        Args:
            job: Frames of one GOP.
            packing: Codec of frames that later batches need; None: they wait as pixels.
            sample: Clock to time the planes of one frame: see `Decoded.sample`.
        """
        shared = self.shared
        ids = np.array(job.frames, np.int64)
        videos, indices = shared.videos.population.locate(shared.views.frames(ids))
        video, views = int(videos[0]), defaultdict[int, list[_View]](list)
        for view_id, index in zip(job.frames, indices.tolist(), strict=True):
            geometry = shared.views.geometry(video, view_id // shared.views.num_frames)
            is_later = view_id not in job.due
            views[index].append(_View(id=view_id, geometry=geometry, is_later=is_later))
        first = views[int(indices[0])][0]
        shape = shared.memory.shape if first.geometry is None else first.geometry.shape
        writer, chosen = None, packing
        if job.is_whole and shared.spill is not None:
            writer, chosen = shared.spill.writer(video), shared.spill.packing
            for index in shared.spill.unstored(video, job.gop):
                views[index]  # adds the frame, without a view
        frames = _JobFrames(
            views=dict(sorted(views.items())),
            shape=shape,
            memory=shared.memory,
            packer=None if chosen is None else self.packer(chosen),
            packs_later=packing is not None,
            writer=writer,
            exact=None if any(view.geometry for view in chain(*views.values())) else self._exact,
            clock=sample,
        )
        return self._run(video, shape, [*sorted(views)], frames)

    def _run(
        self, video: int, shape: FrameFormat, wanted: list[int], frames: _JobFrames
    ) -> Decoded:
        shared = self.shared
        index = shared.videos.indexes[video]
        is_proxy = isinstance(index, ProxyIndex)  # cheap to open, so it does not stay open
        idle = None if is_proxy else shared.idle.acquire(video)
        decoder: Decoder[Any] = idle or open_any_decoder(
            index, shape, shared.decoding, codecs=self._codecs, scheduler=shared.scheduler
        )
        result = run_job(
            decoder,
            DecodeJob(tuple(wanted), goes_on=False, conceals=shared.conceals),
            frames.output(decoder, partial(shared.converter, decoder.index)),
            lambda frame: frames.keep(frame, frame in decoder.concealed),
        )
        self.counters.count(result.cost)
        decoded = frames.end(result.lost, result.error)
        if result.error is not None or is_proxy:
            decoder.close()
        else:
            decoder.rest()
            shared.idle.release(video, decoder)
        return decoded

"""JobDecoder: GOP jobs in, views of frames out, each in memory of its own until its batch."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.decode.converter import ArrayConverter, Converter, MultiShapeOutput
from headrace.decode.decoder_config import ON_CPU, DecoderConfig
from headrace.decode.frame_outputs import Out
from headrace.decode.gpu.gpu_decoding import DeviceScheduler, device_of, tensor_converter
from headrace.decode.job_result import run_job
from headrace.decode.open_decoder import open_any_decoder
from headrace.decode.protocol import DecodeCounters, DecodeJob, Decoder
from headrace.decode.proxy_decoder import ProxyCodecs
from headrace.decode.proxy_index import ProxyIndex
from headrace.errors import ConfigError, MediaError
from headrace.loaders.augment import FrameGeometry
from headrace.loaders.epochs import RankBatch
from headrace.loaders.frame_memory import FrameMemory
from headrace.loaders.video_set import VideoSet
from headrace.planning.lookahead import GopJob
from headrace.runtime.synchronization import ResourcePool
from headrace.video.frame_format import FrameFormat
from headrace.video.stream_index import StreamIndex

_LARGEST_ID = 2**63 - 1


@dataclass(frozen=True, kw_only=True, eq=False)
class FrameViews:
    """Views of the frames of a video set, by id: frame id + view number × number of frames.

    Here each frame has one view, in the format of all frames; a subclass numbers views by video and
    by the sample that shows them. Threads share it.
    """

    videos: VideoSet

    @property
    def is_by_sample(self) -> bool:
        """Whether each sample has views of its own, so that few samples share one."""
        return False

    def numbers(self, epoch: int, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the view number of each sample, int64 [N], >= 0: equal numbers, equal views."""
        return np.zeros(len(slots), np.int64)

    def framing(self, video: int, number: int) -> FrameGeometry | None:
        """Return the view of a video's frames in samples of a view number; None: the format."""
        return None

    def ids(self, step: RankBatch, frames: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the ids of the views of `frames`, int64 [N] or [N, T], in a step's samples.

        Raises:
            ConfigError: int64 cannot number all views.
        """
        if not frames.size:
            return frames
        numbers = self.numbers(step.epoch, step.slots)
        if int(numbers.max()) >= _LARGEST_ID // self.num_frames:
            raise ConfigError(
                f"epoch {step.epoch} of {self.num_frames} frames has more pictures than can be "
                "numbered; begin with a lower epoch"
            )
        return frames + (numbers * self.num_frames).reshape(-1, *[1] * (frames.ndim - 1))

    def frames(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the frame ids of views."""
        return ids % self.num_frames

    def gop_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the id of the GOP that each view is decoded from."""
        return self.videos.decoded_population.gop_of(self.frames(ids))

    @property
    def num_frames(self) -> int:
        """Number of frames of the videos."""
        return self.videos.population.num_frames


@dataclass(frozen=True, kw_only=True)
class Decoded:
    """Result of a job: each of its view ids is in `frames` or in `failures`."""

    frames: dict[int, Any] = field(default_factory=dict)
    """View id → pixels, in the layout of the memory's format."""
    failures: dict[int, MediaError] = field(default_factory=dict)
    """View id → the error in place of its pixels."""
    concealed: set[int] = field(default_factory=set)
    """Ids of `frames` that are damaged, and shown as FFmpeg shows them."""


class JobDecoder:
    """Decodes GOP jobs of a video set, on any number of threads.

    Threads share the files that stay open between jobs; codecs do not stay. An idle file takes some
    500 kB, its codec would take 10 MB at 720p.
    """

    def __init__(
        self,
        videos: VideoSet,
        memory: FrameMemory,
        max_open: int,
        *,
        conceals: bool = False,
        decoding: DecoderConfig = ON_CPU,
        scheduler: DeviceScheduler | None = None,
        views: FrameViews | None = None,
    ) -> None:
        """Open nothing yet.

        Args:
            videos: Videos that ids count frames of.
            memory: Format and memory of the frames; release what is no longer needed.
            max_open: Files that stay open between jobs.
            conceals: Whether damaged frames are delivered as FFmpeg shows them.
            decoding: Decoder and device; it leaves frames where the memory is.
            scheduler: Device of each job, with `DecoderConfig(device="auto")`.
            views: Views of the frames, all of the format's size; None: one of each.
        """
        assert memory.shape.size is not None
        self.memory = memory
        """Memory of frames; the caller gives it back."""
        self._conceals = conceals
        self.size = memory.shape.size
        self.views = views or FrameViews(videos=videos)
        """Meaning of the ids in jobs."""
        self._videos = videos
        self._decoding = decoding
        self._scheduler = scheduler
        self._idle: ResourcePool[int, Decoder[Any]] = ResourcePool(max_open)
        self._thread_counters: list[DecodeCounters] = []

    @property
    def counters(self) -> DecodeCounters:
        """Decode counters, over all threads."""
        return sum(tuple(self._thread_counters), DecodeCounters())

    def close(self) -> None:
        """Close idle files, and free unused memory. Jobs may be decoded again."""
        self._idle.close()
        self.memory.close()

    def describe(self, job: object) -> str:
        """Return a job's frames and file, for a message."""
        if not isinstance(job, GopJob):
            return "a batch"
        frames = np.unique(self.views.frames(np.array(job.frames, np.int64)))
        videos, indices = self._videos.population.locate(frames)
        source = self._videos.indexes[int(videos[0])].source
        return f"{len(frames)} frames of {source} (from frame {int(indices[0])})"

    def worker(self) -> Callable[[GopJob], Decoded]:
        """Return a function that decodes jobs, for one thread: it counts without a lock."""
        counters, codecs = DecodeCounters(), ProxyCodecs()
        self._thread_counters.append(counters)

        def decode(job: GopJob) -> Decoded:
            decoded, cost = self._decode(job, codecs)
            counters.count(cost)
            return decoded

        return decode

    def _decode(self, job: GopJob, codecs: ProxyCodecs) -> tuple[Decoded, DecodeCounters]:
        frames = self.views.frames(np.array(job.frames, np.int64))
        videos, frame_indices = self._videos.population.locate(frames)
        video = int(videos[0])
        indices: list[int] = frame_indices.tolist()
        num_frames = self.views.num_frames
        framings = [self.views.framing(video, view // num_frames) for view in job.frames]
        buffers = [self.memory.take() for _ in job.frames]
        stream_index = self._videos.indexes[video]
        is_proxy = isinstance(stream_index, ProxyIndex)  # opens at once, and never stays open
        idle = None if is_proxy else self._idle.acquire(video)
        shape = self.memory.shape if framings[0] is None else framings[0].shape
        decoder: Decoder[Any] = idle or open_any_decoder(
            stream_index, shape, self._decoding, codecs=codecs, scheduler=self._scheduler
        )
        wanted = DecodeJob(tuple(sorted({*indices})), goes_on=False, conceals=self._conceals)
        result = run_job(decoder, wanted, self._outputs(decoder, indices, framings, buffers))
        decoded: Decoded = Decoded()
        requests = zip(job.frames, indices, framings, buffers, strict=True)
        for view_id, index, framing, buffer in requests:
            if index in result.decoded:
                if framing is not None:
                    framing.finish(buffer)
                decoded.frames[view_id] = buffer
                if index in result.concealed:
                    decoded.concealed.add(view_id)
            elif result.error is not None:
                decoded.failures[view_id] = result.error
                self.memory.give(buffer)
        if decoded.failures or is_proxy:
            decoder.close()
        else:
            decoder.rest()
            self._idle.release(video, decoder)
        return decoded, result.cost

    def _outputs(
        self,
        decoder: Decoder[Any],
        indices: list[int],
        framings: list[FrameGeometry | None],
        buffers: list[Any],
    ) -> Out[Any]:
        """Return the outputs of a job's frames: one buffer each, or one for each view."""
        targets: defaultdict[int, list[tuple[FrameFormat, Any]]] = defaultdict(list)
        for index, framing, buffer in zip(indices, framings, buffers, strict=True):
            if framing is None:
                return buffers
            targets[index].append((framing.shape, buffer))
        in_order = [targets[index] for index in sorted(targets)]
        if all(len(views) == 1 and views[0][0] == decoder.shape for views in in_order):
            return [buffer for [(_, buffer)] in in_order]
        return MultiShapeOutput(in_order, partial(self._converter, decoder.index))

    def _converter(self, index: StreamIndex, shape: FrameFormat) -> Converter[Any]:
        """Return a converter of a video's frames to another format, for one thread."""
        if self._decoding.keeps_on_device:
            return tensor_converter(index, shape, device_of(self._decoding))
        return ArrayConverter(shape, index.info.orientation, str(index.source))

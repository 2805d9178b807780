"""GPU decoding: the only module of this folder that other code imports.

A job runs on the configured GPU, or with `AutoDecoder` on the GPU or the CPU, whichever finishes it
sooner; frames are equal. It loads no PyTorch: modules that need it are imported on use.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Generic

from headrace.decode.capabilities import Capabilities
from headrace.decode.converter import Converter
from headrace.decode.decode_session import StreamCodecs
from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.frame_outputs import Out, Pixels
from headrace.decode.gpu import nvdec
from headrace.decode.gpu import pynvvideocodec_decoder as by_pynvvideocodec
from headrace.decode.gpu.device_scheduler import CPU, ScheduledJob
from headrace.decode.gpu.device_scheduler import DeviceCounters as DeviceCounters
from headrace.decode.gpu.device_scheduler import DeviceScheduler as DeviceScheduler
from headrace.decode.gpu.device_scheduler import DeviceTotals as DeviceTotals
from headrace.decode.gpu.device_scheduler import device_of as device_of
from headrace.decode.gpu.gpu_frames import IDLE_CODECS as IDLE_CODECS
from headrace.decode.gpu.pynvvideocodec_decoder import check_installed
from headrace.decode.protocol import DecodeCounters, DecodeJob, Decoder
from headrace.decode.proxy_index import ProxyIndex
from headrace.decode.yuv420 import chroma_is_left
from headrace.errors import BackendError, MediaError
from headrace.runtime.fork_safety import check_cuda_after_fork
from headrace.video.frame_format import FrameFormat
from headrace.video.pyav_version import check_full
from headrace.video.stream_index import StreamIndex

if TYPE_CHECKING:
    import torch


def capabilities_of(decoding: DecoderConfig) -> Capabilities:
    """Return the capabilities of a configuration of PyAV, NVDEC or PyNvVideoCodec.

    Raises:
        BackendError: the backend is not installed, or not usable here; or PyAV is too old for it.
    """
    if decoding.keeps_on_device:
        check_full("keeps_on_device", "leave keeps_on_device out")
    elif decoding.device != "cpu":
        check_full(f"decoding by {decoding.name}", decoding.fix)
    if decoding.backend == "pynvvideocodec":
        check_installed()
        return by_pynvvideocodec.CAPABILITIES
    if decoding.is_auto:  # the CPU decodes the rest
        return Capabilities(can_keep_on_device=True)
    return Capabilities() if decoding.gpu is None else nvdec.CAPABILITIES


def stream_codecs(
    decoding: DecoderConfig, index: StreamIndex, counters: DecodeCounters
) -> StreamCodecs:
    """Return the codecs of a stream, on the CPU or a GPU; uses no GPU yet.

    Args:
        decoding: Backend and device.
        index: The index of a stream within `capabilities_of(decoding)`.
        counters: Counters to add bytes copied from a GPU to.
    """
    if decoding.gpu is None:
        return StreamCodecs(index)
    by_library = decoding.backend == "pynvvideocodec"
    on_gpu = by_pynvvideocodec.PyNvVideoCodecs if by_library else nvdec.Nvdec
    return on_gpu(decoding, index, counters)


def device_context(decoding: DecoderConfig, request: str) -> AbstractContextManager[None]:
    """Return a context in which another library decodes on the device; empty on the CPU.

    Raises:
        BackendError: this process was forked from one that uses CUDA; starts with `request`.
    """
    if decoding.gpu is None:
        return nullcontext()
    check_cuda_after_fork(request)
    return nvdec.torch_cuda_context(decoding.gpu)


def tensor_converter(
    index: StreamIndex, shape: FrameFormat, device: str
) -> "Converter[torch.Tensor]":
    """Return the converter of a stream's frames to tensors on a device. Loads PyTorch.

    Raises:
        BackendError: only the CPU's converter supports this format.
    """
    from headrace.decode.gpu.tensor_converter import TensorConverter

    info, is_left = index.info, chroma_is_left(index.info.codec)
    return TensorConverter(
        shape, info.orientation, str(index.source), device, chroma_is_left=is_left
    )


def check_keeps_on_device(index: StreamIndex, shape: FrameFormat, decoding: DecoderConfig) -> None:
    """Check that frames of a video can be tensors on the decoding device. Loads PyTorch.

    Raises:
        BackendError: the device cannot decode it, or cannot convert it to RGB.
    """
    from headrace.decode.gpu.tensor_converter import check_shape, check_stored

    device = device_of(decoding)
    request = f"frames of {index.source} cannot be tensors on {device}"
    if not decoding.can_keep:
        raise BackendError(f"{request}: {decoding.backend} returns arrays; leave the backend out")
    if isinstance(index, ProxyIndex):
        raise BackendError(f"{request}: proxies are decoded to arrays; leave the proxies out")
    capabilities_of(decoding).check(decoding, index, shape)
    check_stored(index.info.pixel_format, str(index.source))
    check_shape(shape, str(index.source), device)


_GpuFailure = BackendError | int
"""A GPU failure on a job: its error, or the first frame that it skipped. The CPU's result shows
whether the file is damaged there."""


class AutoDecoder(Generic[Pixels]):
    """A decoder of one stream with a decoder per device: a `Decoder`. Not thread-safe.

    The first job is scheduled, and later jobs stay on its device, where they may continue. After
    `rest` the next job is scheduled again. If the GPU fails, the CPU decodes the job from its
    start; each frame is delivered once, and the file stays on the CPU.
    """

    def __init__(
        self,
        index: StreamIndex,
        shape: FrameFormat | None,
        scheduler: DeviceScheduler | None,
        open_on: Callable[[str], Decoder[Pixels]],
    ) -> None:
        """Open nothing yet.

        Args:
            index: The index of the stream.
            shape: Format of the decoded frames.
            scheduler: Scheduler of the jobs; None: a new one, which chooses a device once.
            open_on: Returns the decoder of a device, `cpu` or `cuda:N`; raises BackendError if the
                device cannot decode the stream.
        """
        self.index = index
        """The index of the stream."""
        self.shape = shape or FrameFormat()
        """Format of the decoded frames."""
        self.scheduler = scheduler or DeviceScheduler(explores=False)
        """The scheduler, with the totals of its jobs."""
        self._open_on: Callable[[str], Decoder[Pixels]] = open_on
        self.counters = DecodeCounters()
        """Cost so far, on all devices."""
        self._decoders: dict[str, Decoder[Pixels]] = {CPU: open_on(CPU)}
        self.concealed: frozenset[int] = frozenset()
        """Indices of damaged frames of the last job that were delivered anyway."""
        self._job: ScheduledJob | None = None

    def run(self, job: DecodeJob, out: Out[Pixels] | None = None) -> Iterator[tuple[int, Pixels]]:
        """Yield (index, frame) for every wanted frame: see `Decoder.run`.

        If a GPU fails within a job, frames it wrote to `out` are written again.
        """
        self.concealed = frozenset()
        if self._job is None:
            self._job = self._schedule(job)
        delivered: set[int] = set()
        failure: _GpuFailure | None = None
        if self._job.device != CPU:
            failure = yield from self._on_gpu(self._job, job, out, delivered)
            if failure is None:
                return
            self.rest()
            if isinstance(failure, BackendError):
                self.scheduler.mark_failed(self._source_name, failure)
            self._job = self._schedule(job, by_cpu=True)
        yield from self._on_cpu(self._job, job, out, delivered, failure)

    def rest(self) -> None:
        """Release the codecs' memory between jobs; the decoder can run again."""
        self._finish_job()
        for decoder in self._decoders.values():
            decoder.rest()

    def close(self) -> None:
        """Release the file and the codecs; the decoder cannot be used again."""
        self._finish_job()
        for decoder in self._decoders.values():
            decoder.close()

    @property
    def _source_name(self) -> str:
        return str(self.index.source)

    def _schedule(self, job: DecodeJob, *, by_cpu: bool = False) -> ScheduledJob:
        """Schedule a job; one that may be continued counts as the rest of the file."""
        index = self.index
        first, _ = index.gop_range(index.gop_of(job.wanted[0]))
        stop = len(index) if job.goes_on else job.wanted[-1] + 1
        devices = (CPU,) if by_cpu else self._usable_devices()
        return self.scheduler.schedule(index.info.codec, (stop - first) * self._megapixels, devices)

    def _usable_devices(self) -> tuple[str, ...]:
        """Return the devices that can decode the file."""
        gpu = self.scheduler.gpu
        if gpu is None or not self.scheduler.may_use_gpu(self._source_name):
            return (CPU,)
        if gpu not in self._decoders:
            try:
                self._decoders[gpu] = self._open_on(gpu)
            except BackendError as error:
                self.scheduler.mark_unsupported(self._source_name, error)
                return (CPU,)
        return CPU, gpu

    @property
    def _megapixels(self) -> float:
        """Million pixels of a stored frame."""
        return self.index.info.height * self.index.info.width / 1e6

    def _on_gpu(
        self, scheduled: ScheduledJob, job: DecodeJob, out: Out[Pixels] | None, delivered: set[int]
    ) -> Generator[tuple[int, Pixels], None, _GpuFailure | None]:
        """Yield the GPU's frames up to the first it skips; add them to `delivered`."""
        is_damaged, remaining = self.index.frame_status.is_damaged, deque(job.wanted)
        with closing(self._run_on(scheduled, job, out, delivered)) as frames:
            try:
                for frame_index, pixels in frames:
                    while remaining and remaining[0] <= frame_index:
                        passed_index = remaining.popleft()
                        if passed_index < frame_index and not is_damaged(passed_index):
                            return passed_index
                    delivered.add(frame_index)
                    yield frame_index, pixels
            except BackendError as error:
                return error
        return None

    def _on_cpu(
        self,
        scheduled: ScheduledJob,
        job: DecodeJob,
        out: Out[Pixels] | None,
        delivered: set[int],
        failure: _GpuFailure | None,
    ) -> Iterator[tuple[int, Pixels]]:
        """Yield the remaining frames; mark the GPU as failed if only it lacks a frame."""
        with closing(self._run_on(scheduled, job, out, delivered)) as frames:
            for frame_index, pixels in frames:
                if frame_index == failure and frame_index not in self._decoders[CPU].concealed:
                    error = f"the GPU returned no frame {frame_index}, which the CPU decodes"
                    self.scheduler.mark_failed(self._source_name, error)
                if frame_index not in delivered:
                    delivered.add(frame_index)
                    yield frame_index, pixels

    def _run_on(
        self, scheduled: ScheduledJob, job: DecodeJob, out: Out[Pixels] | None, delivered: set[int]
    ) -> Generator[tuple[int, Pixels], None, None]:
        """Yield the frames of a device's decoder, and record their cost."""
        decoder, clock = self._decoders[scheduled.device], self.scheduler.clock
        before, spent_ns = replace(decoder.counters), 0
        delivered_before, is_complete = len(delivered), False
        try:
            with self.scheduler.slot(scheduled):
                frames = decoder.run(job, out)
                while True:
                    start_ns = clock.now_ns()
                    try:
                        item = next(frames, None)
                    finally:
                        spent_ns += clock.now_ns() - start_ns
                    if item is None:
                        break
                    yield item
                is_complete = True
        except MediaError:
            is_complete = True  # as complete as the file allows
            raise
        finally:
            cost = decoder.counters - before
            self.counters.count(cost)
            self.concealed = decoder.concealed
            self.scheduler.record(
                scheduled,
                frames=len(delivered) - delivered_before,
                megapixels=cost.frames_decoded * self._megapixels,
                spent_ns=spent_ns,
                is_complete=is_complete,
            )

    def _finish_job(self) -> None:
        if self._job is not None:
            self.scheduler.finish(self._job)
            self._job = None

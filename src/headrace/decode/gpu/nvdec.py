"""NVDEC: FFmpeg's decoders on an NVIDIA GPU, in PyTorch's CUDA context. See `gpu_frames`."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import av
from av.codec.hwaccel import HWAccel, hwdevices_available
from av.video.codeccontext import VideoCodecContext
from av.video.stream import VideoStream

from headrace.decode.capabilities import Capabilities
from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.gpu.gpu_frames import IDLE_CODECS, GpuFrames
from headrace.errors import BackendError
from headrace.video import nal
from headrace.video.codec import (
    REOPENABLE_CODECS,
    Codec,
    FfmpegCodec,
    VideoPacket,
    facts_of,
    new_codec,
)
from headrace.video.container import describe
from headrace.video.stream_index import StreamIndex

CAPABILITIES = Capabilities(
    # FFmpeg decodes AV1 by libdav1d; its own decoder does not start on NVDEC through PyAV 18.1.
    codecs=tuple(sorted(REOPENABLE_CODECS - {"av1"})),
    # Frames are copied as NV12 or P010, with equal values.
    pixel_formats=("yuv420p", "yuvj420p", "yuv420p10le"),
    # A field cannot be compared with the CPU's frame.
    decodes_interlaced=False,
    # FFmpeg rounds odd sizes up.
    decodes_odd_sizes=False,
    can_keep_on_device=True,
)
"""Upper bound: the codecs and the largest size depend on the GPU."""

_FLUSHABLE = frozenset(["h264", "hevc"])
"""Codecs whose state a flush clears completely, so that another stream can follow."""
SURFACES = 20
"""Maximum number of frames in a codec: 16 references and FFmpeg's extra surfaces."""

_DRIVER_LIBRARY = "nvcuvid.dll" if sys.platform == "win32" else "libnvcuvid.so.1"


class Nvdec(GpuFrames):
    """FFmpeg's codecs of one stream on a GPU. Not thread-safe."""

    _pool_key: tuple[object, ...]
    """All parameters of its codecs."""

    def _acquire(self, stream: VideoStream, first: VideoPacket | None) -> FfmpegCodec:
        self._pool_key = self._decoding, facts_of(stream), self._parameter_sets_of(stream, first)
        idle = IDLE_CODECS.acquire(self._pool_key, VideoCodecContext)
        return FfmpegCodec(self._new_codec(stream) if idle is None else idle)

    def _release(self, codec: Codec, *, is_working: bool) -> None:
        assert isinstance(codec, FfmpegCodec)
        if is_working and codec.context.is_open and self._is_reusable(codec.context):
            num_bytes = SURFACES * frame_bytes(self._index)
            IDLE_CODECS.release(self._pool_key, codec.context, num_bytes)

    def _is_reusable(self, codec: VideoCodecContext) -> bool:
        """Return whether a flushed codec equals a new one: it must hold no other parameter sets."""
        sets = _with_short_start_codes(self._index.parameter_sets.tobytes())
        has_other_sets = sets not in (b"", _with_short_start_codes(codec.extradata or b""))
        return self._index.info.codec in _FLUSHABLE and not (
            has_other_sets or self._index.needs_one_codec
        )

    def _parameter_sets_of(
        self, stream: VideoStream, first: VideoPacket | None
    ) -> tuple[object, ...]:
        """Return the parameter sets of the first packet, which outlast a flush."""
        codec, extradata = self._index.info.codec, stream.codec_context.extradata
        if first is None or codec not in _FLUSHABLE:
            return ()
        prefix = nal.length_size(codec, extradata)
        return tuple(nal.parameter_sets(codec, memoryview(first), prefix))

    def _new_codec(self, stream: VideoStream) -> VideoCodecContext:
        fix = self._decoding.fix
        if "cuda" not in hwdevices_available():
            raise BackendError(
                f"{self._request}: PyAV's FFmpeg is built without CUDA; install PyAV as a wheel, "
                f"or {fix}"
            )
        with cuda_started(self._decoding, self._request):
            # No software fallback: FFmpeg then outputs no frame at all.
            gpu = HWAccel(
                "cuda",
                self._decoding.gpu,
                allow_software_fallback=False,
                # PyAV would set primary_ctx for frames that stay; FFmpeg accepts only one option.
                options={"current_ctx": "1", "primary_ctx": "0"},
                is_hw_owned=self._decoding.keeps_on_device,
            )
            codec = new_codec(stream, gpu)
        if not codec.is_hwaccel:
            raise BackendError(
                f"{self._request}: FFmpeg has no {codec.name} decoder on NVIDIA GPUs; {fix}"
            )
        return codec


@contextmanager
def cuda_started(decoding: DecoderConfig, request: str) -> Iterator[None]:
    """Make PyTorch's CUDA context of the decoding GPU current in this thread.

    Raises:
        BackendError: the GPU is missing, or its driver lacks the decoder library. Starts with
            `request`.
    """
    assert decoding.gpu is not None
    try:
        with torch_cuda_context(decoding.gpu):
            try:
                ctypes.CDLL(_DRIVER_LIBRARY)
            except OSError as error:
                raise BackendError(
                    f"{request}: its driver has no decoder ({_DRIVER_LIBRARY} is not found); give "
                    f"a container NVIDIA_DRIVER_CAPABILITIES=compute,video, or {decoding.fix}"
                ) from error
            yield
    except BackendError:
        raise
    except (av.error.FFmpegError, RuntimeError, AssertionError) as error:
        raise BackendError(
            f"{request}: CUDA cannot start: {_cuda_error_reason(error)}; or {decoding.fix}"
        ) from error


@contextmanager
def torch_cuda_context(gpu: int) -> Iterator[None]:
    """Make PyTorch's CUDA context of a GPU current in this thread, for FFmpeg to decode in.

    FFmpeg itself does not join PyTorch's context (PyAV-Org/PyAV#2339), and a context per file takes
    some 400 MB of the GPU (meta-pytorch/torchcodec#263).
    """
    import torch

    with torch.cuda.device(gpu):
        torch.zeros(1, device="cuda")
        yield


def frame_bytes(index: StreamIndex) -> int:
    """Return the maximum bytes of a 4:2:0 frame: up to 10 bits per value, in two bytes."""
    return index.info.height * index.info.width * 3 // 2 * 2


def _cuda_error_reason(error: Exception) -> str:
    """Return why CUDA did not start, with advice."""
    import torch

    from headrace.runtime.cuda_diagnostics import explain_missing_gpu

    count = torch.cuda.device_count()
    if not count:
        return explain_missing_gpu()
    message = describe(error) if isinstance(error, av.error.FFmpegError) else str(error)
    first_line = message.partition("\n")[0]
    return f"{first_line}; give a number from 0 to {count - 1}"


def _with_short_start_codes(sets: bytes) -> bytes:
    """Return parameter sets with 3-byte start codes."""
    return sets.replace(b"\0\0\0\1", b"\0\0\1")

"""NVDEC: FFmpeg's decoders on an NVIDIA GPU, and how CUDA is started there. See `gpu_frames`."""

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
from headrace.decode.codec_pool import RESTING
from headrace.decode.decoder_config import DecoderConfig
from headrace.errors import BackendError
from headrace.runtime.fork_safety import check_cuda_after_fork
from headrace.video import nal
from headrace.video.codec import (
    CODECS_MADE_ANEW,
    Codec,
    FfmpegCodec,
    VideoPacket,
    facts_of,
    new_codec,
)
from headrace.video.ffmpeg_errors import describe
from headrace.video.stream_index import StreamIndex

CAPABILITIES = Capabilities(
    # FFmpeg decodes AV1 by libdav1d; its own decoder does not start on NVDEC through PyAV 18.1.
    codecs=tuple(sorted(CODECS_MADE_ANEW - {"av1"})),
    # Frames come down as NV12 or P010, which hold the same.
    pixel_formats=("yuv420p", "yuvj420p", "yuv420p10le"),
    # Of two fields one is no picture to hold against the CPU's.
    has_interlaced=False,
    # FFmpeg rounds them up: its pictures are larger than the stream's.
    has_odd_sides=False,
    can_keep_on_device=True,
)
"""What GPUs are asked for; which of it they decode, and up to which size, depends on the GPU."""

_GO_ON = frozenset(["h264", "hevc"])
"""Codecs that forget a stream when they are flushed, so that they go on with another."""
SURFACES = 20
"""Pictures that a codec holds at most: the 16 that one may refer to, and those FFmpeg adds."""

_DECODER = "nvcuvid.dll" if sys.platform == "win32" else "libnvcuvid.so.1"


class Nvdec:
    """FFmpeg's codecs of one stream on a GPU: `GpuCodecs`. Not thread-safe."""

    _look: tuple[object, ...]
    """All that its codecs are told of the stream."""

    def __init__(self, decoding: DecoderConfig, index: StreamIndex) -> None:
        """Touch no GPU yet.

        Args:
            decoding: On which GPU, as torch counts those that CUDA_VISIBLE_DEVICES leaves; and
                whether frames stay there.
            index: The frames there are, of what GPUs are asked for: see `CAPABILITIES`.
        """
        self._decoding = decoding
        self._index = index
        self._asked = f"{decoding.in_words} was asked for to decode {index.source}"

    def codec(self, stream: VideoStream, first: VideoPacket | None) -> FfmpegCodec:
        """Return a codec of the stream, on the GPU: see `GpuCodecs.codec`."""
        check_cuda_after_fork(self._asked)
        self._look = self._decoding, facts_of(stream), self._sets_of(stream, first)
        resting = RESTING.take(self._look, VideoCodecContext)
        return FfmpegCodec(self._new_codec(stream) if resting is None else resting)

    def let_rest(self, codec: Codec, *, is_sound: bool) -> None:
        """Take back a codec that this one made: see `GpuCodecs.let_rest`."""
        assert isinstance(codec, FfmpegCodec)
        if is_sound and codec.context.is_open and self._goes_on(codec.context):
            num_bytes = SURFACES * bytes_of_picture(self._index)
            RESTING.put(self._look, codec.context, num_bytes)

    def _goes_on(self, codec: VideoCodecContext) -> bool:
        """Return whether a codec is the same at the end of the stream as one that is new."""
        told = _in_short(self._index.told.tobytes())
        is_told_more = told not in (b"", _in_short(codec.extradata or b""))
        return self._index.info.codec in _GO_ON and not (is_told_more or self._index.is_told_once)

    def _sets_of(self, stream: VideoStream, first: VideoPacket | None) -> tuple[object, ...]:
        """Return the parameter sets of the first packet, which outlast a flush."""
        codec, extradata = self._index.info.codec, stream.codec_context.extradata
        if first is None or codec not in _GO_ON:
            return ()
        prefix = nal.length_size(codec, extradata)
        return tuple(nal.parameter_sets(codec, memoryview(first), prefix))

    def _new_codec(self, stream: VideoStream) -> VideoCodecContext:
        cure = self._decoding.cure
        if "cuda" not in hwdevices_available():
            raise BackendError(
                f"{self._asked}, and PyAV's FFmpeg is built without CUDA; install PyAV as a wheel, "
                f"or {cure}"
            )
        with cuda_started(self._decoding, self._asked):
            # Never in software instead: FFmpeg then gives no frame at all.
            gpu = HWAccel(
                "cuda",
                self._decoding.gpu,
                allow_software_fallback=False,
                # The latter PyAV would set for frames that stay; FFmpeg takes one of the two.
                options={"current_ctx": "1", "primary_ctx": "0"},
                is_hw_owned=self._decoding.keeps_on_device,
            )
            codec = new_codec(stream, gpu)
        if not codec.is_hwaccel:
            raise BackendError(
                f"{self._asked}; for {codec.name} FFmpeg has no decoder on NVIDIA GPUs; {cure}"
            )
        return codec


@contextmanager
def cuda_started(decoding: DecoderConfig, asked: str) -> Iterator[None]:
    """Make torch's CUDA context of a GPU that decodes the one of this thread.

    Raises:
        BackendError: there is no such GPU; or its driver has no decoder, which is a library of its
            own. Begins with `asked`.
    """
    assert decoding.gpu is not None
    try:
        with context_of_torch(decoding.gpu):
            _check_decoder(decoding, asked)
            yield
    except BackendError:
        raise
    except (av.error.FFmpegError, RuntimeError, AssertionError) as error:
        raise BackendError(
            f"{asked}, and CUDA cannot start there: {_reason(error)}; or {decoding.cure}"
        ) from error


@contextmanager
def context_of_torch(gpu: int) -> Iterator[None]:
    """Make torch's CUDA context of a GPU the one of this thread, for FFmpeg to decode in.

    FFmpeg itself does not join a context that torch began (PyAV-Org/PyAV#2339), and one of its own
    for each file takes some 400 MB of the GPU (meta-pytorch/torchcodec#263).
    """
    import torch

    with torch.cuda.device(gpu):
        torch.zeros(1, device="cuda")
        yield


def bytes_of_picture(index: StreamIndex) -> int:
    """Return what a picture of 4:2:0 takes at most, of up to 10 bits in two bytes."""
    return index.info.height * index.info.width * 3 // 2 * 2


def _reason(error: Exception) -> str:
    """Return why CUDA did not start, and what to do."""
    import torch

    from headrace.runtime.cuda_diagnostics import explain_missing_gpu

    count = torch.cuda.device_count()
    if not count:
        return explain_missing_gpu()
    said = describe(error) if isinstance(error, av.error.FFmpegError) else str(error)
    first_line = said.partition("\n")[0]
    return f"{first_line}; give a number from 0 to {count - 1}"


def _check_decoder(decoding: DecoderConfig, asked: str) -> None:
    try:
        ctypes.CDLL(_DECODER)
    except OSError as error:
        raise BackendError(
            f"{asked}, and its driver has no decoder ({_DECODER} is not found); give a container "
            f"NVIDIA_DRIVER_CAPABILITIES=compute,video, or {decoding.cure}"
        ) from error


def _in_short(sets: bytes) -> bytes:
    """Return parameter sets with the short form of what stands before each."""
    return sets.replace(b"\0\0\0\1", b"\0\0\1")

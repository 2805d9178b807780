"""PyNvVideoCodec where there is no GPU: what we read of it, played by FFmpeg on the CPU.

It is our reading of version 2.2.4, of its signatures, docstrings and source. No GPU has confirmed
it: whoever has one learns from `pytest -k gpu` whether the library does as it is played here.
"""

import ctypes
import sys
from contextlib import contextmanager, nullcontext
from types import ModuleType, SimpleNamespace

import av
import numpy as np
import pytest
import torch
from av.video.reformatter import VideoReformatter

from headrace.decode.gpu import gpu_frames, nvdec
from headrace.decode.gpu import pynvvideocodec_decoder as by_pynvvideocodec
from headrace.decode.gpu.codec_pool import CodecPool
from headrace.video.content_digest import rows_of


class PyNvVCException(Exception):  # noqa: N818
    """The library's own, which is no RuntimeError."""


class PyNvVCExceptionUnsupported(Exception):  # noqa: N818
    """What the GPU does not decode; no kind of the other."""


class PacketData:
    """A packet: the address of its bytes, their number, and a time that its frame gets too."""

    def __init__(self) -> None:
        self.bsl_data = self.bsl = self.pts = self.decode_flag = 0


class DecodedFrame:
    """A picture in the decoder's memory."""

    def __init__(self, picture: np.ndarray, pts: int) -> None:
        self._picture, self._pts = picture, pts

    def getPTS(self) -> int:  # noqa: N802
        """Return the time of the packet."""
        return self._pts

    def __dlpack__(self, stream: object = 0) -> object:
        """Export it, where it lies."""
        return self._picture.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._picture.__dlpack_device__()


class PyNvDecoder:
    """Takes one picture with start codes at a time, and gives it when the next one comes."""

    def __init__(self, codec: str) -> None:
        self._codec_name = codec
        self._codec = self._new()
        self._late: list[av.VideoFrame] = []
        self._memory: list[np.ndarray] = []

    def Decode(self, packet: PacketData) -> list[DecodedFrame]:  # noqa: N802
        """Return what came out; it lies where the next call writes."""
        came = self._late
        if packet.bsl:
            given = av.Packet(ctypes.string_at(packet.bsl_data, packet.bsl))
            assert bytes(given)[:3] in (b"\0\0\0", b"\0\0\1"), "no start code"
            given.opaque = (packet.pts,)
            try:
                self._late = self._codec.decode(given)
            except av.error.FFmpegError:
                self._late = []
        else:
            came = came + self._codec.decode(None)
            self._late, self._codec = [], self._new()
        return [self._frame(place, frame) for place, frame in enumerate(came)]

    def _new(self) -> av.CodecContext:
        codec = av.CodecContext.create(self._codec_name, "r")
        codec.thread_count, codec.copy_opaque = 1, True
        return codec

    def _frame(self, place: int, frame: av.VideoFrame) -> DecodedFrame:
        bits = frame.format.components[0].bits
        stored = VideoReformatter().reformat(frame, format="nv12" if bits == 8 else "p010le")
        kind = np.uint8 if bits == 8 else np.uint16
        width = stored.width * kind().itemsize
        rows = np.concatenate([rows_of(plane, width) for plane in stored.planes]).view(kind)
        if place == len(self._memory):
            self._memory.append(np.empty_like(rows))
        self._memory[place][:] = rows
        return DecodedFrame(self._memory[place], frame.opaque[0])


class PlayedStream:
    """Where there is no CUDA: all is done at once."""

    handle = 7

    def __init__(self, gpu: int) -> None:
        """Nothing to start."""

    @contextmanager
    def current(self):
        """Nothing to wait for."""
        yield

    def copy(self, picture, *, stays):
        """Return it in memory of its own."""
        return picture.clone()

    def wait(self) -> None:
        """Nothing to wait for."""


def library(decoder: type[PyNvDecoder] = PyNvDecoder) -> tuple[ModuleType, list[dict]]:
    """Return the library, and how each decoder of it is made from now."""
    made: list[dict] = []

    def create(**how) -> PyNvDecoder:
        made.append(how)
        return decoder(how["codec"])

    module = ModuleType("PyNvVideoCodec")
    module.__dict__.update(
        CreateDecoder=create,
        PacketData=PacketData,
        PyNvVCException=PyNvVCException,
        PyNvVCExceptionUnsupported=PyNvVCExceptionUnsupported,
        VideoPacketFlag=SimpleNamespace(ENDOFSTREAM=1),
        cudaVideoCodec=SimpleNamespace(H264="h264", HEVC="hevc"),
    )
    return module, made


def plays(monkeypatch: pytest.MonkeyPatch, decoder: type[PyNvDecoder] = PyNvDecoder) -> list[dict]:
    """Have the library, a GPU and its driver; return how each decoder is made from now."""
    module, made = library(decoder)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(by_pynvvideocodec, "DecoderStream", PlayedStream)
    resting = CodecPool()
    for each in (by_pynvvideocodec, gpu_frames):
        monkeypatch.setattr(each, "IDLE_CODECS", resting)
    monkeypatch.setattr(nvdec, "torch_cuda_context", nullcontext)
    monkeypatch.setattr(nvdec, "_DRIVER_LIBRARY", None)  # any library that is there
    return made

"""Fake PyNvVideoCodec without a GPU, by FFmpeg on the CPU.

It follows our reading of version 2.2.4: its signatures, docstrings and source. No GPU has confirmed
it: on a GPU, `pytest -k gpu` shows whether the library behaves like this fake.
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
from headrace.decode.gpu.gpu_frames import CodecPool
from headrace.video.content_digest import rows_of


class PyNvVCException(Exception):  # noqa: N818
    """The library's own exception, which is not a RuntimeError."""


class PyNvVCExceptionUnsupported(Exception):  # noqa: N818
    """The library's exception for unsupported video; not a subclass of the other."""


class PacketData:
    """A packet: address and number of its bytes, and its time, which its frame gets."""

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
        """Export the picture without a copy."""
        return self._picture.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._picture.__dlpack_device__()


class PyNvDecoder:
    """Decodes one picture with start codes at a time; returns it with the next packet."""

    def __init__(self, codec: str) -> None:
        self._codec_name = codec
        self._codec = self._new()
        self._late: list[av.VideoFrame] = []
        self._memory: list[np.ndarray] = []

    def Decode(self, packet: PacketData) -> list[DecodedFrame]:  # noqa: N802
        """Return the output frames, which the next call overwrites."""
        output = self._late
        if packet.bsl:
            given = av.Packet(ctypes.string_at(packet.bsl_data, packet.bsl))
            assert bytes(given)[:3] in (b"\0\0\0", b"\0\0\1"), "no start code"
            given.opaque = (packet.pts,)
            try:
                self._late = self._codec.decode(given)
            except av.error.FFmpegError:
                self._late = []
        else:
            output = output + self._codec.decode(None)
            self._late, self._codec = [], self._new()
        return [self._frame(slot, frame) for slot, frame in enumerate(output)]

    def _new(self) -> av.CodecContext:
        codec = av.CodecContext.create(self._codec_name, "r")
        codec.thread_count, codec.copy_opaque = 1, True
        return codec

    def _frame(self, slot: int, frame: av.VideoFrame) -> DecodedFrame:
        bits = frame.format.components[0].bits
        stored = VideoReformatter().reformat(frame, format="nv12" if bits == 8 else "p010le")
        kind = np.uint8 if bits == 8 else np.uint16
        width = stored.width * kind().itemsize
        rows = np.concatenate([rows_of(plane, width) for plane in stored.planes]).view(kind)
        if slot == len(self._memory):
            self._memory.append(np.empty_like(rows))
        self._memory[slot][:] = rows
        return DecodedFrame(self._memory[slot], frame.opaque[0])


class PlayedStream:
    """Fake CUDA stream: all work is done at once."""

    handle = 7

    def __init__(self, gpu: int) -> None:
        """Nothing to start."""

    @contextmanager
    def current(self):
        """Nothing to wait for."""
        yield

    def copy(self, picture, *, stays):
        """Return a copy."""
        return picture.clone()

    def wait(self) -> None:
        """Nothing to wait for."""


def library(decoder: type[PyNvDecoder] = PyNvDecoder) -> tuple[ModuleType, list[dict]]:
    """Return the fake library, and the list of arguments of its decoders."""
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
    """Fake the library, a GPU and its driver; return the list of arguments of decoders."""
    module, made = library(decoder)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(by_pynvvideocodec, "DecoderStream", PlayedStream)
    resting = CodecPool()
    for each in (by_pynvvideocodec, gpu_frames):
        monkeypatch.setattr(each, "IDLE_CODECS", resting)
    monkeypatch.setattr(nvdec, "torch_cuda_context", nullcontext)
    monkeypatch.setattr(nvdec, "_DRIVER_LIBRARY", None)  # any existing library
    return made

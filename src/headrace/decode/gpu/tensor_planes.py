"""Planes of a decoded frame as tensors, on the CPU or on an NVIDIA GPU, without a copy."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import torch
from av.video.frame import VideoFrame
from torch.utils.dlpack import from_dlpack

from headrace.errors import BackendError

_BITS: Final = {"nv12": 8, "yuv420p": 8, "yuvj420p": 8, "p010le": 10, "yuv420p10le": 10}
"""FFmpeg's name of a supported 4:2:0 pixel format -> bits per value."""
_SHIFTED: Final = {"p010le": 64}
"""Pixel format -> divisor of its values; P010 stores ten bits at the top of sixteen."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Planes:
    """One frame in YUV 4:2:0 with its stored values: uint8, or float32 for 10 bits."""

    y: torch.Tensor
    """[H, W]: luma."""
    uv: torch.Tensor
    """[2, ceil(H / 2), ceil(W / 2)]: chroma."""
    bits: int
    """Bits per value: 8 or 10."""


def check_stored(stored: str, source: str) -> None:
    """Check that frames of a stored pixel format can become RGB on a device.

    Raises:
        BackendError: they cannot.
    """
    if stored not in _BITS:
        raise BackendError(
            f"frames of {source} are stored as {stored}; on a device only {', '.join(_BITS)} can "
            "become RGB: leave keeps_on_device out"
        )


@contextmanager
def planes_of(frame: VideoFrame, device: torch.device, source: str) -> Iterator[Planes]:
    """Yield the planes of a frame on a device; work on them is submitted inside.

    DLPack shares them without a copy; padding of rows becomes a stride. Work inside runs on this
    thread's CUDA stream. PyAV does not synchronize streams. FFmpeg decodes on the GPU's default
    stream, so this thread's stream waits for it, and it waits for this thread's work before FFmpeg
    reuses the memory. (`record_stream` has no effect on memory that is not PyTorch's.)

    Raises:
        BackendError: frames are stored in another format.
    """
    stored = (frame.sw_format or frame.format).name
    check_stored(stored, source)
    is_on_gpu = frame.sw_format is not None
    working = torch.cuda.current_stream(device) if is_on_gpu else None
    decoding = torch.cuda.default_stream(device) if is_on_gpu else None
    if working is not None and decoding is not None and working != decoding:
        working.wait_stream(decoding)
    try:
        yield _planes(frame, stored, device, source)
    finally:
        if working is not None and decoding is not None and working != decoding:
            decoding.wait_stream(working)


def _planes(frame: VideoFrame, stored: str, device: torch.device, source: str) -> Planes:
    # By capsule: torch.from_dlpack would pass a stream, which PyAV refuses.
    y, *chroma = (from_dlpack(plane.__dlpack__()) for plane in frame.planes)
    half = ((frame.height + 1) // 2, (frame.width + 1) // 2)
    if chroma[0].shape[:2] != half:
        raise BackendError(
            f"frames of {source} are {frame.height}x{frame.width} (height x width) in {stored}; "
            "PyAV omits the last row or column of chroma of an odd side: leave keeps_on_device out"
        )
    bits = _BITS[stored]
    # PyTorch has few operations for uint16.
    kind = torch.uint8 if bits == 8 else torch.float32
    first, *others = (plane.to(device, kind) for plane in (y, *chroma))
    uv = torch.stack(others) if len(others) > 1 else others[0].movedim(-1, 0)
    if (scale := _SHIFTED.get(stored)) is not None:
        first, uv = first / scale, uv / scale
    return Planes(y=first, uv=uv, bits=bits)

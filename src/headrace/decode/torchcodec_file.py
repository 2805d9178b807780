"""One file as torchcodec opens it: the picture of a frame of our index, or an error that says why.

torchcodec numbers frames by what it is told. Left alone (seek mode "exact") it counts packets,
those that are never shown too: 54 of a VP8 file that shows 48. So it is given our index
(`custom_frame_mappings`), and the time of what comes back is held against it.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np

from headrace.decode.capabilities import Capabilities
from headrace.decode.decoding import Decoding
from headrace.decode.nvdec import context_of_torch
from headrace.decode.pixels import Array
from headrace.errors import BackendError, first_line
from headrace.extras import command_for, require
from headrace.runtime.forks import check_cuda_after_fork
from headrace.video.container import open_container
from headrace.video.frame_mappings import to_frame_mappings
from headrace.video.stream_index import StreamIndex

CAPABILITIES = Capabilities(
    # Where frames were found again after a seek; of MPEG's streams others come, with right times.
    containers=("mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm", "avi", "flv", "ogg", "ivf"),
    goes_by_packets=True,
    # It turns a picture, and does not mirror it.
    has_mirrored=False,
    pixel_types=("uint8",),
)
"""What torchcodec is asked for, on the CPU and on GPUs; which codecs, its FFmpeg decides."""

_FROM_BELOW = (RuntimeError, ValueError, IndexError, OSError, NotImplementedError)
"""What torchcodec raises."""


def check_installed() -> None:
    """Do nothing if torchcodec can be used here; imports it.

    Raises:
        BackendError: it is not installed, does not fit this PyTorch, or finds no FFmpeg.
    """
    with require("torchcodec", "the backend torchcodec", "leave backend out"):
        try:
            import torchcodec
            import torchcodec.decoders
        except (OSError, RuntimeError, AttributeError) as error:
            raise BackendError(
                "the backend torchcodec that is installed does not fit this PyTorch "
                f"({_line(error)}); {command_for('torchcodec')}, or leave backend out"
            ) from error
    if torchcodec.ffmpeg_major_version is None:
        import torch

        raise BackendError(
            "the backend torchcodec cannot load FFmpeg's shared libraries, which do not come with "
            "it (version 4 to 9; on Debian: apt install ffmpeg), or it is for another PyTorch than "
            f"{torch.__version__}; install what is missing, or leave backend out"
        )


class TorchcodecFile:
    """A file that torchcodec holds open, with its codec. For one thread."""

    def __init__(self, index: StreamIndex, decoding: Decoding) -> None:
        """Open it.

        Cost: 2 to 15 ms, and 5 microseconds for each frame of the index.

        Raises:
            BackendError: it cannot be opened that way; or it is to be on a GPU, and this process
                was forked from one that uses CUDA.
            OpenError: it is gone.
        """
        check_installed()
        from torchcodec.decoders import VideoDecoder

        self._index = index
        self._asked = f"torchcodec was asked for to decode {index.source} on {decoding.device}"
        self._is_on_gpu = decoding.gpu is not None
        if self._is_on_gpu:
            check_cuda_after_fork(self._asked)
        container, stream = open_container(index.source)
        number = stream.index
        container.close()
        try:
            with nullcontext() if decoding.gpu is None else context_of_torch(decoding.gpu):
                self._decoder: Any = VideoDecoder(
                    index.source.for_ffmpeg(),
                    stream_index=number,
                    dimension_order="NHWC",
                    num_ffmpeg_threads=1,
                    device=decoding.device,
                    custom_frame_mappings=to_frame_mappings(index),
                )
        except (*_FROM_BELOW, AssertionError) as error:
            found = "and CUDA cannot start there" if self._is_on_gpu else "and cannot"
            cure = "leave device out, or backend" if self._is_on_gpu else "leave backend out"
            raise BackendError(f"{self._asked}, {found}: {_line(error)}; {cure}") from error
        self._needs_check = self._is_on_gpu

    def picture(self, number: int) -> Array:
        """Return frame `number` of the index, uint8 [H, W, 3], RGB, turned, in memory of its own.

        Raises:
            BackendError: torchcodec gives none, or another frame; or decodes on the CPU instead.
        """
        index = self._index
        try:
            frame = self._decoder.get_frame_at(number)
        except _FROM_BELOW as error:
            raise BackendError(
                f"{self._asked}, and gives no frame {number}, which PyAV decodes: {_line(error)}; "
                "leave backend out"
            ) from error
        ticks = round(frame.pts_seconds / index.info.time_base)
        if ticks != int(index.pts[number]):
            raise BackendError(
                f"{self._asked}; for frame {number}, which is shown at "
                f"{index.seconds(number):.6f} s, it gives what is shown at "
                f"{frame.pts_seconds:.6f} s; leave backend out, and PyAV decodes it"
            )
        if self._needs_check:
            self._needs_check = False
            if self._decoder.cpu_fallback:
                raise BackendError(
                    f"{self._asked}, and decodes on the CPU instead "
                    f"({self._decoder.cpu_fallback}); leave device or backend out"
                )
        pixels: Array = np.asarray(frame.data.cpu() if self._is_on_gpu else frame.data)
        return pixels


def _line(error: BaseException) -> str:
    return first_line(error)[:200]

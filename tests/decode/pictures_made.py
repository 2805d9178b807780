"""Frames created without a codec: noise or waves, with given color tags."""

import numpy as np
from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange, VideoReformatter

SEMIPLANAR = {"yuv420p": "nv12", "yuvj420p": "nv12", "yuv420p10le": "p010le"}
"""Pixel format of CPU decoders -> of GPUs, with equal values."""


def made_frame(size, pixel_format="yuv420p", matrix=1, *, is_full=False, is_noise=False):
    """Return a frame in planar YUV of a (height, width)."""
    frame = VideoFrame(size[1], size[0], pixel_format)
    dtype, scale = (np.uint16, 4) if "10" in pixel_format else (np.uint8, 1)
    low, high = (0, 255) if is_full else (16, 235)
    draws = np.random.default_rng(7)
    for place, plane in enumerate(frame.planes):
        shape = plane.height, plane.line_size // np.dtype(dtype).itemsize
        y, x = np.indices(shape)
        wave = np.sin(y / (7 + place) + place) * np.cos(x / (9 + 2 * place))
        noise = draws.uniform(-1, 1, shape)
        values = (low + high) / 2 + (high - low) / 2 * (noise if is_noise else wave)
        plane.update((values * scale).astype(dtype).tobytes())
    frame.colorspace = matrix
    frame.color_range = ColorRange.JPEG if is_full else ColorRange.MPEG
    return frame


def semiplanar(frame: VideoFrame) -> VideoFrame:
    """Return a planar frame as stored on GPUs: the same values, with interleaved chroma."""
    stored = VideoReformatter().reformat(frame, format=SEMIPLANAR[frame.format.name])
    # reformat sets another code of an equal matrix.
    stored.colorspace, stored.color_range = frame.colorspace, frame.color_range
    return stored

"""Capabilities of a backend on a kind of device, checked before anything is opened."""

from dataclasses import dataclass
from typing import Final, get_args

import numpy as np

from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.frame_outputs import Array
from headrace.decode.proxy_index import ProxyIndex
from headrace.errors import BackendError
from headrace.video.frame_format import FrameFormat, PixelType
from headrace.video.image_sequence import ImageSequence
from headrace.video.random_access import RandomAccess
from headrace.video.stream_index import StreamIndex

MAX_MEAN_DIFFERENCE: Final = 2.0
"""Levels of 255, mean over all values of a frame, up to which frames count as equal."""
FAR_DIFFERENCE: Final = 16
"""Levels of 255 from which a value counts as far off."""
MAX_FAR_SHARE: Final = 0.03
"""Share of values that may be far off: chroma edges of 10-bit video measured 0.014."""


@dataclass(frozen=True, kw_only=True)
class PixelDifference:
    """Difference between two frames, in levels of 255."""

    mean: float
    max: int
    far_share: float
    """Share of values that differ by more than `FAR_DIFFERENCE`."""

    @classmethod
    def between(cls, pixels: Array, expected: Array) -> "PixelDifference | None":
        """Return the difference of two uint8 arrays; None if their shapes differ."""
        if pixels.shape != expected.shape:
            return None
        difference = np.abs(pixels.astype(np.int16) - expected)
        return cls(
            mean=float(difference.mean()),
            max=int(difference.max()),
            far_share=float((difference > FAR_DIFFERENCE).mean()),
        )

    @property
    def is_equal(self) -> bool:
        """Whether the frames are equal within the tolerance."""
        return self.mean <= MAX_MEAN_DIFFERENCE and self.far_share <= MAX_FAR_SHARE


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """Streams that a backend decodes; None: no limit, or a limit that only decoding shows."""

    codecs: tuple[str, ...] | None = None
    """Codecs, by FFmpeg's names."""
    pixel_formats: tuple[str, ...] | None = None
    """Pixel formats of decoded frames, by FFmpeg's names."""
    max_size: tuple[int, int] | None = None
    """Largest stored (height, width)."""
    decodes_interlaced: bool = True
    """Whether frames of two fields are decoded."""
    decodes_odd_sizes: bool = True
    """Whether frames of odd height or width are decoded."""
    containers: tuple[str, ...] | None = None
    """Container formats, by FFmpeg's names."""
    uses_packets_only: bool = False
    """Whether the backend finds frames by packet data alone: packet times must then define the
    frames, and each keyframe must be a random access point."""
    decodes_mirrored: bool = True
    """Whether mirrored video is decoded; rotation always is."""
    pixel_types: tuple[PixelType, ...] = get_args(PixelType)
    """Dtypes of delivered pixels."""
    can_keep_on_device: bool = False
    """Whether decoded frames can stay on the GPU; on the CPU they always do."""

    def check(
        self, decoding: DecoderConfig, index: StreamIndex, shape: FrameFormat | None = None
    ) -> None:
        """Check that the backend decodes a video, with this configuration and into this format.

        Raises:
            BackendError: it does not; the message has the alternatives.
        """
        if isinstance(index, ProxyIndex):
            if decoding.gpu is not None or decoding.backend != "pyav":
                raise BackendError(
                    f"{decoding.description} cannot decode the proxy of {index.source}; "
                    f"proxies are decoded on the CPU, by PyAV: {decoding.fix}"
                )
            return
        request = f"{decoding.description} cannot decode {index.source}"
        self._check_container(request, decoding.fix, index, shape)
        if decoding.stays_on_gpu and not self.can_keep_on_device:
            raise BackendError(
                f"{request} and keep its frames there: the backend {decoding.backend} returns "
                "arrays; leave keeps_on_device out"
            )
        info = index.info
        is_odd = bool(info.height % 2 or info.width % 2) and not self.decodes_odd_sizes
        is_too_large = self.max_size is not None and (
            info.height > self.max_size[0] or info.width > self.max_size[1]
        )
        if (
            not _is_in(info.codec, self.codecs)
            or not _is_in(info.pixel_format, self.pixel_formats)
            or is_too_large
            or is_odd
            or (info.is_interlaced and not self.decodes_interlaced)
        ):
            size = f", {info.height}x{info.width}" if is_too_large or is_odd else ""
            fields = ", interlaced" if info.is_interlaced else ""
            raise BackendError(
                f"{request}, which is {info.codec} in {info.pixel_format}{size}{fields}; "
                f"it decodes {self._describe()}; {decoding.fix}, or re-encode the file"
            )

    def _check_container(
        self, request: str, fix: str, index: StreamIndex, shape: FrameFormat | None
    ) -> None:
        """Raise BackendError if the backend cannot find the frames, or not in this format."""
        reason = None
        if isinstance(index.source, ImageSequence) and not _is_in(index.info.codec, self.codecs):
            raise BackendError(
                f"{request}, which is an image sequence ({index.info.codec}), not video: image "
                f"sequences are decoded on the CPU, by PyAV; {fix}"
            )
        if not _is_in(index.info.container, self.containers):
            reason = f"seeking is not exact in the container {index.info.container}"
        elif self.uses_packets_only:
            reason = _packets_insufficient_reason(index)
        if reason is None and index.info.orientation.is_mirrored and not self.decodes_mirrored:
            reason = "its display matrix mirrors it, which the backend does not apply"
        if reason is None and shape is not None and shape.dtype not in self.pixel_types:
            reason = f"dtype must be {' or '.join(self.pixel_types)}, got {shape.dtype}"
        if reason is not None:
            raise BackendError(f"{request}: {reason}; {fix}, and PyAV decodes it")

    def _describe(self) -> str:
        formats, codecs = self.pixel_formats, self.codecs
        parts = ["any pixel format" if formats is None else ", ".join(formats)]
        parts[0] += " in " + ("any codec" if codecs is None else ", ".join(codecs))
        if self.max_size is not None:
            parts.append("of at most {}x{} (height x width)".format(*self.max_size))
        if not self.decodes_odd_sizes:
            parts.append("of even height and width")
        if not self.decodes_interlaced:
            parts.append("not interlaced")
        return ", ".join(parts)


def _packets_insufficient_reason(index: StreamIndex) -> str | None:
    """Return why packets alone do not define the right frames; None if they do."""
    if index.counted_by != "packets":
        return "its packets do not define its frames"
    if index.problems:
        return index.problems[0]
    if index.gop_random_access.min() < RandomAccess.SIGNALED:
        return "not every keyframe is a verified random access point"
    if len(index.parameter_sets) or index.needs_one_codec:
        return "its parameter sets change within the stream"
    return None


def _is_in(name: str, names: tuple[str, ...] | None) -> bool:
    return names is None or name in names

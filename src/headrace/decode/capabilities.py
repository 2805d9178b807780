"""What a backend can decode on a kind of device: a value, asked before anything is opened."""

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

MEAN_APART: Final = 2.0
"""Levels of 255, over all numbers of a picture."""
FAR_APART: Final = 16
"""Levels of 255 from which a number is far off."""
FAR_SHARE: Final = 0.03
"""Share of all numbers that may be far off: edges of colour in 10-bit video came to 0.014."""


@dataclass(frozen=True, kw_only=True)
class PixelDifference:
    """How far two pictures are from each other, in levels of 255."""

    mean: float
    most: int
    far_share: float
    """Share of the numbers that are more than `FAR_APART` off."""

    @classmethod
    def between(cls, found: Array, expected: Array) -> "PixelDifference | None":
        """Return how far uint8 arrays are from each other; None where they differ in shape."""
        if found.shape != expected.shape:
            return None
        apart = np.abs(found.astype(np.int16) - expected)
        return cls(
            mean=float(apart.mean()),
            most=int(apart.max()),
            far_share=float((apart > FAR_APART).mean()),
        )

    @property
    def is_same(self) -> bool:
        """Whether they are the same picture: 0, where both are by the same arithmetic."""
        return self.mean <= MEAN_APART and self.far_share <= FAR_SHARE


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What it decodes; None where that is all there is, or is known only when it is tried."""

    codecs: tuple[str, ...] | None = None
    """Names of codecs, as FFmpeg calls them."""
    pixel_formats: tuple[str, ...] | None = None
    """Names of what it may decode into, as FFmpeg calls them."""
    largest: tuple[int, int] | None = None
    """(height, width) that a stored frame may have at most."""
    has_interlaced: bool = True
    """Whether it decodes frames of two fields."""
    has_odd_sides: bool = True
    """Whether it decodes frames whose height or width is odd."""
    containers: tuple[str, ...] | None = None
    """Names of container formats, as FFmpeg calls them."""
    goes_by_packets: bool = False
    """Whether it finds frames by what the container says of packets, and by nothing else: their
    times must tell which frames there are, and each keyframe must be enough to begin at."""
    has_mirrored: bool = True
    """Whether it decodes video that a player mirrors; all turn it."""
    pixel_types: tuple[PixelType, ...] = get_args(PixelType)
    """Types of the numbers that it gives."""
    can_keep_on_device: bool = False
    """Whether frames may stay on a device that decoded them; on the CPU they always do."""

    def check(
        self, decoding: DecoderConfig, index: StreamIndex, shape: FrameFormat | None = None
    ) -> None:
        """Do nothing if a video can be decoded that way, into that shape.

        Raises:
            BackendError: it cannot be; says what can.
        """
        if isinstance(index, ProxyIndex):
            if decoding.gpu is not None or decoding.backend != "pyav":
                raise BackendError(
                    f"{decoding.in_words} was asked for to decode the proxy of {index.source}; "
                    f"proxies are decoded on the CPU, by PyAV: {decoding.cure}"
                )
            return
        asked = f"{decoding.in_words} was asked for to decode {index.source}"
        self._check_way(asked, decoding.cure, index, shape)
        if decoding.stays_on_gpu and not self.can_keep_on_device:
            raise BackendError(
                f"{asked} and to keep its frames there, which the backend {decoding.backend} "
                "cannot; leave keeps_on_device out, and frames come as arrays"
            )
        info = index.info
        is_odd = bool(info.height % 2 or info.width % 2) and not self.has_odd_sides
        is_too_large = self.largest is not None and (
            info.height > self.largest[0] or info.width > self.largest[1]
        )
        if (
            not _is_in(info.codec, self.codecs)
            or not _is_in(info.pixel_format, self.pixel_formats)
            or is_too_large
            or is_odd
            or (info.is_interlaced and not self.has_interlaced)
        ):
            size = f", {info.height}x{info.width}" if is_too_large or is_odd else ""
            fields = ", interlaced" if info.is_interlaced else ""
            raise BackendError(
                f"{asked}, which is {info.codec} in {info.pixel_format}{size}{fields}; it is asked "
                f"for {self._words()}; {decoding.cure}, or encode the file anew"
            )

    def _check_way(
        self, asked: str, cure: str, index: StreamIndex, shape: FrameFormat | None
    ) -> None:
        """Refuse a file whose frames are not found that way, or not shown as asked for."""
        why = None
        if isinstance(index.source, ImageSequence) and not _is_in(index.info.codec, self.codecs):
            raise BackendError(
                f"{asked}, which is pictures in order ({index.info.codec}), not video: they are "
                f"decoded on the CPU, by PyAV; {cure}"
            )
        if not _is_in(index.info.container, self.containers):
            why = f"frames are not found again in the container {index.info.container}"
        elif self.goes_by_packets:
            why = _needs_more_than_packets(index)
        if why is None and index.info.orientation.is_mirrored and not self.has_mirrored:
            why = "it is to be mirrored, which it would not be"
        if why is None and shape is not None and shape.dtype not in self.pixel_types:
            why = f"{shape.dtype} was asked for, and it gives {', '.join(self.pixel_types)}"
        if why is not None:
            raise BackendError(f"{asked}: {why}; {cure}, and PyAV decodes it")

    def _words(self) -> str:
        formats, codecs = self.pixel_formats, self.codecs
        words = ["any pixel format" if formats is None else ", ".join(formats)]
        words[0] += " in " + ("any codec" if codecs is None else ", ".join(codecs))
        if self.largest is not None:
            words.append("of at most {}x{} (height x width)".format(*self.largest))
        if not self.has_odd_sides:
            words.append("of even sides")
        if not self.has_interlaced:
            words.append("not interlaced")
        return ", ".join(words)


def _needs_more_than_packets(index: StreamIndex) -> str | None:
    """Return why packets alone do not lead to the right frames; None where they do."""
    if index.counted_by != "packets":
        return "its packets do not tell which frames there are"
    if index.problems:
        return index.problems[0]
    if index.gop_trust.min() < RandomAccess.ANNOUNCED:
        return "a keyframe of it is not certain to be a place to begin at"
    if len(index.told) or index.is_told_once:
        return "it changes on the way how it is to be decoded"
    return None


def _is_in(name: str, names: tuple[str, ...] | None) -> bool:
    return names is None or name in names

"""The index of a video that is read from its proxy."""

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headrace.decode.packet_table import ProxyPackets, read_proxy_entry
from headrace.errors import CacheError, ConfigError, OpenError
from headrace.video.container import MAX_PIXELS
from headrace.video.fitting import Fit, Fitting
from headrace.video.proxy_source import AGAIN, ProxySource
from headrace.video.shape import Orientation
from headrace.video.stream_index import StreamIndex
from headrace.video.verdicts import Verdicts

CODECS = ("h264", "hevc", "av1", "mjpeg")
"""That proxies have."""
_ROUNDED = 2
"""Pixels that a side may be off, since sides are even."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ProxyIndex(StreamIndex):
    """Frames, times and GOPs of the original, and the pictures of the proxy.

    Sampling sees the original; `info` says codec and size of what is decoded, and decoding is
    planned by the proxy's own GOPs.
    """

    proxy: ProxySource
    """The same as `source`."""
    table: ProxyPackets
    """Where the packets of the proxy are, one for each frame."""
    size_before: tuple[int, int]
    """(height, width) of upright frames of the original."""

    @classmethod
    def of(cls, source: ProxySource) -> "ProxyIndex":
        """Read the index of a video from beside its proxy; 1 ms.

        Raises:
            OpenError: it is not there, or cannot be read, or is not that of such a proxy.
        """
        try:
            found, table = read_proxy_entry(source.entry, source)
        except CacheError as error:
            raise OpenError(
                f"cannot open the proxy of {source}: {error}", source=str(source)
            ) from error
        wrong = _wrong(found, table, source)
        if wrong:
            raise OpenError(
                f"cannot open the proxy of {source}: {source.entry} is not that of a proxy, "
                f"{wrong}; {AGAIN}",
                source=str(source),
            )
        info = replace(
            found.info,
            codec=table.codec,
            profile="",
            pixel_format="yuvj420p" if table.codec == "mjpeg" else "yuv420p",
            height=table.size[0],
            width=table.size[1],
            orientation=Orientation(),
            reorders=False,
            is_interlaced=False,
            container="mp4",
        )
        kept = {each.name: getattr(found, each.name) for each in fields(found)}
        kept |= {"info": info, "verdicts": Verdicts(len(found)), "kept_in": None}
        before = found.info.upright_size
        return cls(**kept, proxy=source, table=table, size_before=before)

    @property
    def original_size(self) -> tuple[int, int]:
        """(height, width) of upright frames of the original."""
        return self.size_before

    @property
    def decoded_gop_lengths(self) -> NDArray[np.int64]:
        """int64 [GOPs of the proxy]: frames of each."""
        return np.diff(self.keyframes, append=len(self))

    @cached_property
    def keyframes(self) -> NDArray[np.int64]:
        """int64 [GOPs of the proxy], ascending, first 0: where decoding may begin."""
        return np.flatnonzero(self.table.is_keyframe)

    @cached_property
    def lost(self) -> frozenset[int]:
        """Indices of frames that are damaged in the original."""
        return frozenset(self.table.lost.tolist())

    def check_fit(self, fit: Fit | Fitting) -> None:
        """Do nothing if the aspect ratio is that of the original, or is not to be kept.

        Raises:
            ConfigError: the proxy was stretched, and `fit` is to keep the aspect ratio.
        """
        (tall, wide), (height, width) = self.size_before, self.table.size
        off = min(abs(width - height * wide / tall), abs(height - width * tall / wide))
        if fit == "stretch" or isinstance(fit, Fitting) or off < _ROUNDED:
            return
        raise ConfigError(
            f"fit={fit!r} keeps the aspect ratio, which the proxy of {self.source} has lost: it is "
            f"{height}x{width}, of {tall}x{wide} (height x width); leave fit out, or make proxies "
            f"that keep it: headrace proxy --size {min(height, width)}"
        )


def _wrong(index: StreamIndex, table: ProxyPackets, source: ProxySource) -> str:
    """Return what cannot be of a table, in words; empty if nothing."""
    if index.fingerprint != source.known:
        return "but of another version of the video"
    if table.codec not in CODECS:
        return f"its codec is {table.codec!r}"
    height, width = table.size
    if height < 1 or width < 1 or height * width > MAX_PIXELS:
        return f"its frames are {height}x{width}"
    if len(index) != len(table.offsets):
        return f"it has {len(table.offsets)} packets for {len(index)} frames"
    if not table.is_keyframe[0]:
        return "its first frame is no keyframe"
    lost = table.lost
    if len(lost) and not (lost.min() >= 0 and lost.max() < len(index)):
        return "it names frames that there are not"
    room = source.proxy_bytes - table.sizes
    is_inside = (table.sizes > 0) & (table.offsets >= 0) & (table.offsets <= room)
    return "" if is_inside.all() else "it has packets outside the file"

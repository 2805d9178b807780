"""Codecs for proxies: made once for all that tell a decoder the same, as opening each would cost
more than its frame."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

import av
from av.video.codeccontext import VideoCodecContext

from headrace.decode.convert import FrameConverter
from headrace.decode.packet_table import ProxyPackets
from headrace.video.codec import PlainCodec, prepare
from headrace.video.container import MAX_PIXELS
from headrace.video.shape import FrameShape, Orientation

_DECODERS: Final = {"av1": "libdav1d"}
"""Where FFmpeg's decoder of the codec's own name needs hardware."""
_MOST: Final = 8
"""Looks of which a codec is kept: a set of proxies has one for each size and colour."""


@dataclass(eq=False)
class ProxyCodec:
    """What decodes proxies of one look, and where it stands."""

    codec: PlainCodec
    converter: FrameConverter
    at: tuple[object, int] | None = None
    """Who decoded last, and the frame whose packet is due next; None: it must be flushed."""


class ProxyCodecs:
    """Keeps a codec for each look of proxies: codec, size, colour and what it must be told.

    For one thread. In a process that was forked it must not be used.
    """

    def __init__(self) -> None:
        """None yet."""
        self._kept: OrderedDict[object, ProxyCodec] = OrderedDict()

    def of(self, table: ProxyPackets, shape: FrameShape) -> ProxyCodec:
        """Return the codec for a proxy; valid until that of another is asked for."""
        key = (table.codec, table.size, table.colour, table.extradata, shape)
        found = self._kept.get(key)
        if found is None:
            converter = FrameConverter(shape, Orientation(), "")
            found = self._kept[key] = ProxyCodec(PlainCodec(_new(table)), converter)
            while len(self._kept) > _MOST:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return found

    def clear(self) -> None:
        """Release them."""
        self._kept.clear()


def _new(table: ProxyPackets) -> VideoCodecContext:
    context = av.CodecContext.create(_DECODERS.get(table.codec, table.codec), "r")
    assert isinstance(context, VideoCodecContext)
    if table.extradata:
        context.extradata = table.extradata
    context.height, context.width = table.size
    context.colorspace, context.color_range = table.colour
    prepare(context)
    context.options = {**context.options, "max_pixels": str(MAX_PIXELS)}
    return context

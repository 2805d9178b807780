"""Proxy decoder: reads packets by the proxy's packet table, without a demuxer."""

from __future__ import annotations

import os
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from typing import BinaryIO, Final, cast

import av
import numpy as np
from av.packet import Packet
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame

from headrace.decode.converter import ArrayConverter
from headrace.decode.frame_outputs import Array
from headrace.decode.protocol import DecodeJob
from headrace.decode.proxy_index import ProxyIndex, ProxyPackets
from headrace.decode.stream_decoder import POLICIES, Conversion, StreamDecoder, undecodable
from headrace.errors import DecodeError, OpenError, file_errors
from headrace.video.codec import FfmpegCodec, VideoPacket, prepare
from headrace.video.frame_format import FrameFormat, Orientation
from headrace.video.source import AGAIN

_DECODERS: Final = {"av1": "libdav1d"}
"""Codec -> FFmpeg decoder, if the decoder of the codec's name needs hardware."""
_MAX_CODECS: Final = 8
"""Maximum number of codecs in a pool; a set of proxies needs one per size and color."""


@dataclass(eq=False)
class ProxyCodec:
    """Codec of proxies with equal parameters, and its position."""

    codec: FfmpegCodec
    converter: ArrayConverter
    position: tuple[object, int] | None = None
    """The decoder that used it last, and the frame of its next packet; None: flush first."""


class ProxyCodecs:
    """Pool of codecs by codec name, size, color and extradata.

    For one thread. Must not be used after a fork.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._codecs_by_key: OrderedDict[object, ProxyCodec] = OrderedDict()

    def of(self, table: ProxyPackets, shape: FrameFormat) -> ProxyCodec:
        """Return the codec for a proxy; valid until another proxy's is returned."""
        key = (table.codec, table.size, table.color, table.extradata, shape)
        codec = self._codecs_by_key.get(key)
        if codec is None:
            converter = ArrayConverter(shape, Orientation(), "")
            codec = self._codecs_by_key[key] = ProxyCodec(
                FfmpegCodec(_new_context(table)), converter
            )
            while len(self._codecs_by_key) > _MAX_CODECS:
                self._codecs_by_key.popitem(last=False)
        self._codecs_by_key.move_to_end(key)
        return codec

    def clear(self) -> None:
        """Free all codecs."""
        self._codecs_by_key.clear()


def _new_context(table: ProxyPackets) -> VideoCodecContext:
    context = av.CodecContext.create(_DECODERS.get(table.codec, table.codec), "r")
    assert isinstance(context, VideoCodecContext)
    if table.extradata:
        context.extradata = table.extradata
    context.height, context.width = table.size
    context.colorspace, context.color_range = table.color
    return prepare(context)


class ProxyDecoder(StreamDecoder[Array]):
    """Decodes jobs of one proxy. Not thread-safe: one per thread.

    Each GOP of the proxy is decoded up to its last wanted frame; the file is open only during a
    job. Frames are equal, bit for bit, to a reference decode of the proxy. Frames that are damaged
    in the original are missing, or concealed as they are there.
    """

    index: ProxyIndex
    _codec: ProxyCodec
    """The codec of the last job."""

    def __init__(
        self, index: ProxyIndex, shape: FrameFormat | None = None, codecs: ProxyCodecs | None = None
    ) -> None:
        """Open nothing yet; `codecs` is this thread's pool, by default the decoder's own.

        Raises:
            ConfigError: the format keeps an aspect ratio that the proxy does not have.
        """
        super().__init__(index, shape)
        index.check_fit(self.shape.fit)
        self._codecs = codecs or ProxyCodecs()
        self._is_owner = codecs is None

    def rest(self) -> None:
        """Release the codec, unless others share it."""
        if self._is_owner:
            self._codecs.clear()

    def close(self) -> None:
        """Release the codec, unless others share it; no file is open between jobs."""
        self.rest()

    def _begin(self, job: DecodeJob) -> None:
        self._codec = self._codecs.of(self.index.table, self.shape)
        self._converter = self._codec.converter
        self._codec.converter.source = str(self.index.source)

    def _decode(
        self, job: DecodeJob, conversion: Conversion[Array], lost: list[int]
    ) -> Iterator[tuple[int, Array]]:
        lost += self.index.lost.intersection(job.wanted)
        wanted = [frame for frame in job.wanted if job.conceals or frame not in self.index.lost]
        late: list[tuple[int, Array]] = []
        with self._open(job.wanted[0]) as file:
            for frame_index, frame in self._decode_wanted(file, self._codec, wanted, lost):
                frame.pts = int(self.index.pts[frame_index])
                if (pixels := conversion.pixels(frame_index, frame)) is None:
                    continue
                if frame_index in self.index.lost:
                    self._concealed.add(frame_index)
                    late.append((frame_index, pixels))
                else:
                    yield frame_index, pixels
        yield from late

    def _error_of(self, job: DecodeJob, missing: Sequence[int]) -> DecodeError:
        reason = f"its proxy {self.index.proxy.proxy} is damaged; {AGAIN}"
        if not job.conceals and self.index.lost.issuperset(missing):
            reason = f"the file was damaged there when its proxy was made; {POLICIES}"
        return undecodable(self.index, missing, reason)

    def _decode_wanted(
        self, file: BinaryIO, codec: ProxyCodec, wanted: Sequence[int], damaged: list[int]
    ) -> Iterator[tuple[int, VideoFrame]]:
        """Yield the wanted frames in order; add missing ones to `damaged`."""
        keyframes = self.index.keyframes
        gops = keyframes[np.searchsorted(keyframes, wanted, "right") - 1].tolist()
        for gop, positions in groupby(range(len(wanted)), gops.__getitem__):
            due = [wanted[position] for position in positions]
            for frame_index, frame in self._decode_gop(file, codec, gop, due[-1]):
                while due and due[0] < frame_index:
                    damaged.append(due.pop(0))
                if due and due[0] == frame_index:
                    yield due.pop(0), frame
            damaged.extend(due)

    def _decode_gop(
        self, file: BinaryIO, codec: ProxyCodec, gop: int, last: int
    ) -> Iterator[tuple[int, VideoFrame]]:
        """Yield the frames of a GOP from the current position to `last`, or to the first damage."""
        begin = gop
        owner, following = codec.position or (None, -1)
        if owner is self and gop < following <= last:
            begin = following
        elif owner is not self or following != gop:
            codec.codec.context.flush_buffers()
            self.counters.seeks += 1
        codec.position = None
        decoded = begin - 1
        for packet_index, packet in chain(self._packets(file, begin, last), [(last, None)]):
            if packet is None and decoded == last:
                codec.position = self, last + 1
                return
            for shown in codec.codec.decode(packet_index, packet).shown:
                self.counters.frames_decoded += 1
                frame = shown.frame
                has_size = (frame.height, frame.width) == self.index.table.size
                if shown.packet_index != decoded + 1 or frame.is_corrupt or not has_size:
                    return
                decoded = shown.packet_index
                yield decoded, frame

    def _packets(self, file: BinaryIO, first: int, last: int) -> Iterator[tuple[int, VideoPacket]]:
        """Yield (frame index, packet) of [first, last], up to the first changed packet."""
        table, counters = self.index.table, self.counters
        span = slice(first, last + 1)
        offsets, sizes = table.offsets[span], table.sizes[span]
        begin, stop = int(offsets[0]), int(offsets[-1] + sizes[-1])
        is_contiguous = bool((offsets[1:] == offsets[:-1] + sizes[:-1]).all())
        file.seek(begin)
        block = file.read(stop - begin) if is_contiguous else b""
        rows = zip(offsets.tolist(), sizes.tolist(), table.checksums[span].tolist(), strict=True)
        for frame_index, (offset, size, checksum) in enumerate(rows, first):
            if is_contiguous:
                data = block[offset - begin : offset - begin + size]
            else:
                file.seek(offset)
                data = file.read(size)
            if len(data) != size or zlib.crc32(data) != checksum:
                return
            counters.packets_read += 1
            counters.bytes_read += size
            yield frame_index, cast(VideoPacket, Packet(data))

    def _open(self, wanted: int) -> BinaryIO:
        """Open the proxy for a job.

        Raises:
            OpenError: it is missing, or has changed.
        """
        index = self.index
        source, path = index.proxy, index.proxy.proxy
        request = f"frame {wanted} of {source} was requested (at {index.seconds(wanted):.3f} s)"
        pts = int(index.pts[wanted])
        with file_errors(
            f"cannot open the proxy {path}",
            f"{request}; {AGAIN}",
            kind=partial(OpenError, source=str(source), pts=pts),
        ):
            file = path.open("rb", buffering=0)
        self.counters.opens += 1
        size = os.fstat(file.fileno()).st_size
        if size != source.proxy_bytes:
            file.close()
            raise OpenError(
                f"the proxy {path} has changed since it was made: it had {source.proxy_bytes} "
                f"bytes, now {size}; {request}; {AGAIN}",
                source=str(source),
                pts=pts,
            )
        return cast(BinaryIO, file)

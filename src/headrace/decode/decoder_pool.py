"""A few open decoders, so that a video that is asked for again need not be opened again."""

import os
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

from headrace.decode.decoder_config import ON_CPU, DecoderConfig
from headrace.decode.device_scheduler import DeviceCounters, DeviceScheduler
from headrace.decode.open_decoder import open_either
from headrace.decode.protocol import DecodeCounters, Decoder
from headrace.decode.proxy_decoder import ProxyCodecs
from headrace.units import check_integers
from headrace.video.frame_format import FrameFormat
from headrace.video.stream_index import StreamIndex

_Asked = tuple[StreamIndex, FrameFormat]
_OPTIONS = ("_shape", "_max_open", "_keeps_codecs", "_decoding")


class DecoderPool:
    """Keeps at most `max_open` files open; the one unused for longest is closed first.

    Only the decoder in use holds a codec, some 10 MB at 720p; the others wait at a few 100 kB,
    unless codecs are kept, as streams that are read in turn need them.

    For one thread. In a process that was forked from its own it starts empty: a decoder there would
    share its place in the file with the parent's, and miss the threads that only the parent has.
    Sent to another process, it arrives empty.
    """

    def __init__(
        self,
        shape: FrameFormat,
        max_open: int = 4,
        *,
        keeps_codecs: bool = False,
        decoding: DecoderConfig = ON_CPU,
    ) -> None:
        """Open nothing yet.

        Args:
            shape: What frames are made into.
            max_open: Files.
            keeps_codecs: Whether decoders that wait keep what they have decoded.
            decoding: What decodes, where, and of which kind its pixels are.

        Raises:
            ConfigError: `max_open` is below 1.
        """
        check_integers(1, max_open=max_open)
        self._shape = shape
        self._max_open = max_open
        self._keeps_codecs = keeps_codecs
        self._decoding = decoding
        self._start_empty()

    @property
    def counters(self) -> DecodeCounters:
        """What decoding cost in this process, over all decoders there ever were."""
        self._leave_inherited()
        return sum((each.counters for each in tuple(self._open.values())), self._closed)

    @property
    def decoded_by(self) -> DeviceCounters | None:
        """What the CPU and the GPU did in this process; None unless decoding is `auto`."""
        self._leave_inherited()
        return None if self._chooser is None else self._chooser.decoded_by

    def decoder(
        self, index: StreamIndex, reader: Hashable = None, shape: FrameFormat | None = None
    ) -> Decoder[Any]:
        """Return the decoder of a video; valid until the next call, when its codec may rest.

        Whoever reads streams in several places names each `reader`: it has a decoder of its own,
        of the video that it read last.

        Args:
            index: The video.
            reader: Who reads it.
            shape: What frames are made into; None: what the pool was made with.
        """
        self._leave_inherited()
        key = id(index) if reader is None else reader
        asked = index, shape or self._shape
        if key in self._open and not _is_same(asked, self._asked[key]):
            self._close(key)
        last = next(reversed(self._open), key)
        if last != key and not self._keeps_codecs:
            self._open[last].rest()
        if key not in self._open:
            while len(self._open) >= self._max_open:
                self._close(next(iter(self._open)))
            self._open[key] = open_either(
                *asked, self._decoding, codecs=self._codecs, chooser=self._chooser
            )
            self._asked[key] = asked
        self._open.move_to_end(key)
        return self._open[key]

    def holds(self, reader: Hashable) -> bool:
        """Return whether a decoder of `reader` is open in this process."""
        self._leave_inherited()
        return reader in self._open

    def drop(self, index: StreamIndex, reader: Hashable = None) -> None:
        """Close the decoder of a video, or of a reader, if it is open."""
        self._leave_inherited()
        key = id(index) if reader is None else reader
        if key in self._open:
            self._close(key)

    def close(self) -> None:
        """Close all decoders; those that another process opened are left to it."""
        self._leave_inherited()
        for key in tuple(self._open):
            self._close(key)
        self._codecs.clear()

    def _close(self, key: Hashable) -> None:
        decoder = self._open.pop(key)
        del self._asked[key]
        decoder.close()
        self._closed += decoder.counters

    def _leave_inherited(self) -> None:
        """Start empty in a process that was forked from the one that opened the decoders."""
        if self._pid != os.getpid():
            # Kept: freeing one may wait for threads of FFmpeg that were not forked.
            self._start_empty((*self._inherited, *self._open.values(), self._codecs))

    def _start_empty(self, inherited: tuple[object, ...] = ()) -> None:
        self._pid = os.getpid()
        self._open: OrderedDict[Hashable, Decoder[Any]] = OrderedDict()
        self._asked: dict[Hashable, _Asked] = {}
        self._closed = DecodeCounters()
        self._codecs = ProxyCodecs()
        self._chooser = DeviceScheduler(tries=False) if self._decoding.is_auto else None
        self._inherited = inherited

    def __enter__(self) -> "DecoderPool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _OPTIONS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start_empty()


def _is_same(one: _Asked, other: _Asked) -> bool:
    return one[0] is other[0] and one[1] == other[1]

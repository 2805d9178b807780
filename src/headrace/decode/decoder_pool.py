"""LRU pool of open decoders, for repeated reads of videos."""

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from headrace.cache.spill_store import SpillStore
from headrace.decode.decoder_config import ON_CPU, DecoderConfig
from headrace.decode.frame_outputs import Array
from headrace.decode.gpu.gpu_decoding import DeviceCounters, DeviceScheduler
from headrace.decode.open_decoder import open_any_decoder
from headrace.decode.protocol import DecodeCounters, Decoder
from headrace.decode.proxy_decoder import ProxyCodecs
from headrace.units import check_integers
from headrace.video.frame_format import FrameFormat
from headrace.video.stream_index import StreamIndex

VideoT = TypeVar("VideoT")
"""Number or index of a video."""
_OPTIONS = ("_shape", "_max_open", "_keeps_codecs", "_decoding", "_spill")


class DecoderPool:
    """Keeps at most `max_open` files open, and closes the least recently used first.

    Only the decoder in use holds a codec, some 10 MB at 720p; idle decoders take a few 100 kB,
    unless codecs are kept, as interleaved streams need.

    For one thread. After a fork the child starts with an empty pool: inherited decoders share file
    positions with the parent, and lack its threads. Pickled, it arrives empty.
    """

    def __init__(
        self,
        shape: FrameFormat,
        max_open: int = 4,
        *,
        keeps_codecs: bool = False,
        decoding: DecoderConfig = ON_CPU,
        spill: SpillStore | None = None,
    ) -> None:
        """Open nothing yet.

        Args:
            shape: Format of the decoded frames.
            max_open: Maximum number of open files.
            keeps_codecs: Whether idle decoders keep their codec.
            decoding: Backend and device.
            spill: Store of decoded frames on disk; None: none.

        Raises:
            ConfigError: `max_open` is below 1.
        """
        check_integers(1, max_open=max_open)
        self._shape = shape
        self._max_open = max_open
        self._keeps_codecs = keeps_codecs
        self._decoding = decoding
        self._spill = spill
        self._start_empty()

    @property
    def counters(self) -> DecodeCounters:
        """Decoding cost in this process, over all decoders so far."""
        self._leave_inherited()
        return sum((decoder.counters for decoder in tuple(self._open.values())), self._closed)

    @property
    def decoded_by(self) -> DeviceCounters | None:
        """Totals of the CPU and the GPU in this process; None unless decoding is `auto`."""
        self._leave_inherited()
        return None if self._scheduler is None else self._scheduler.decoded_by

    def decoder(
        self, index: StreamIndex, reader: Hashable = None, shape: FrameFormat | None = None
    ) -> Decoder[Any]:
        """Return the decoder of a video; valid until the next call, which may release its codec.

        Args:
            index: The video.
            reader: Key of a decoder that is replaced when its reader changes the video; None: one
                decoder per video.
            shape: Format of the decoded frames; None: the pool's.
        """
        self._leave_inherited()
        key, shape = id(index) if reader is None else reader, shape or self._shape
        decoder = self._open.get(key)
        if decoder is not None and (decoder.index is not index or decoder.shape != shape):
            self._close(key)
        last = next(reversed(self._open), key)
        if last != key and not self._keeps_codecs:
            self._open[last].rest()
        if key not in self._open:
            while len(self._open) >= self._max_open:
                self._close(next(iter(self._open)))
            self._open[key] = open_any_decoder(
                index,
                shape,
                self._decoding,
                codecs=self._codecs,
                scheduler=self._scheduler,
                spill=self._spill,
            )
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
        """Close all decoders; decoders of a parent process are left to it."""
        self._leave_inherited()
        for key in tuple(self._open):
            self._close(key)
        self._codecs.clear()

    def _close(self, key: Hashable) -> None:
        decoder = self._open.pop(key)
        decoder.close()
        self._closed += decoder.counters

    def _leave_inherited(self) -> None:
        """Start empty in a process that was forked from the one that opened the decoders."""
        if self._pid != os.getpid():
            # Kept alive: freeing one may wait for FFmpeg threads that were not forked.
            self._start_empty((*self._inherited, *self._open.values(), self._codecs))

    def _start_empty(self, inherited: tuple[object, ...] = ()) -> None:
        self._pid = os.getpid()
        self._open: OrderedDict[Hashable, Decoder[Any]] = OrderedDict()
        self._closed = DecodeCounters()
        self._codecs = ProxyCodecs()
        self._scheduler = DeviceScheduler(explores=False) if self._decoding.is_auto else None
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


class LatestDecoder(Generic[VideoT]):
    """Keeps the decoder of the latest video open, which is often the next one's. For one thread."""

    def __init__(self, open_video: Callable[[VideoT], Decoder[Array]]) -> None:
        """Open nothing yet; `open_video` returns the decoder of a video."""
        self._open = open_video
        self._video: VideoT | None = None
        self._decoder: Decoder[Array] | None = None

    def of(self, video: VideoT) -> Decoder[Array]:
        """Return the decoder of a video; it is closed when another video is requested."""
        if self._decoder is None or self._video != video:
            self.close()
            self._decoder, self._video = self._open(video), video
        return self._decoder

    def close(self) -> None:
        """Close the decoder."""
        if self._decoder is not None:
            self._decoder.close()
            self._decoder = None

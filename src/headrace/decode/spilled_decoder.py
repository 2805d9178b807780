"""Frames on a local disk: keys of a video's frames, and a decoder that reads and stores frames."""

import os
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np

from headrace.cache.spill_store import SpillStore
from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.frame_outputs import Array, FrameWriter, Out, StackedOutput
from headrace.decode.packing import LIBRARIES, PACKINGS, Packer, Packing
from headrace.decode.protocol import DecodeJob, Decoder, combined_error
from headrace.decode.proxy_index import ProxyIndex
from headrace.errors import BackendError, ConfigError, DecodeError, OpenError, SpillWarning
from headrace.units import parse_bytes
from headrace.video.frame_format import FrameFormat
from headrace.video.image_sequence import ImageSequence
from headrace.video.stream_index import StreamIndex

_MAX_WRITE_FRAMES: Final = 32
"""Frames per write, at most."""
_MAX_WRITE_BYTES: Final = 4 << 20
"""Packed bytes from which frames are written."""
_VERSION: Final = 2
"""Version of the keys; raised when the pixels of an equal key change."""
_NEW_BUDGET: Final = "50GB"
"""Budget of a new folder."""
_Memory: TypeAlias = Array | Sequence[Array] | StackedOutput[Array]


def warn_of_spill(message: str) -> None:
    """Issue a SpillWarning; from any thread."""
    warnings.warn(message, SpillWarning, stacklevel=2)


def open_spill(
    folder: str | os.PathLike[str] | None,
    decoding: DecoderConfig,
    *,
    budget: int | str | None = None,
    is_augmented: bool = False,
    on_warning: Callable[[str], None] = warn_of_spill,
) -> SpillStore | None:
    """Return the store of decoded frames in a folder; None without a folder.

    Args:
        folder: A spill store, or a missing or empty folder.
        decoding: Backend and device of the frames.
        budget: Maximum bytes on the disk; None: the folder's last budget, or 50 GB for a new one.
        is_augmented: Whether frames are changed at random for each sample.
        on_warning: Called with each warning of the store.

    Raises:
        ConfigError: frames are augmented or stay on a device, or the folder cannot be used.
    """
    if folder is None:
        return None
    if is_augmented:
        raise ConfigError(
            "spill stores each frame once, but augment changes it for each sample; leave out one "
            "of the two"
        )
    if decoding.keeps_on_device:
        raise ConfigError(
            "frames that stay on a device are not stored on a disk; leave out spill, or "
            "keeps_on_device"
        )
    return SpillStore.open(
        folder,
        budget=None if budget is None else parse_bytes(budget),
        new_budget=parse_bytes(_NEW_BUDGET),
        on_warning=on_warning,
    )


def packing_of(shape: FrameFormat) -> Packing:
    """Return the codec of stored frames of a format: the one with the smallest packets."""
    return next(packing for packing in PACKINGS if packing.pixel_format(shape))


def is_storable(index: StreamIndex) -> bool:
    """Return whether frames of a video are stored.

    Images of a sequence may change singly, and bytes in memory without a new modification time.
    Proxies are decoded fast enough.
    """
    is_proxy = isinstance(index, ProxyIndex)
    return not is_proxy and not isinstance(index.source, ImageSequence) and index.source.has_path


def spill_key(index: StreamIndex, shape: FrameFormat, decoding: DecoderConfig) -> str:
    """Return the key of a video's frames in a format; empty if they are not stored.

    Cost: reads 192 KiB.
    """
    if not is_storable(index):
        return ""
    try:
        content = index.source.content_id()
    except OpenError:
        return ""  # gone: the decoder raises the error
    frames = f"{len(index)} frames, {zlib.crc32(index.pts.tobytes())}"
    file = f"{content}, {index.fingerprint.mtime_ns}, stream {index.source.stream}, {frames}"
    device = "" if decoding.backend == "pyav" else f" on {decoding.device}"
    decoder = f"{decoding.backend}{device}, {LIBRARIES}"
    return f"{_VERSION}: {file}, {shape}, {packing_of(shape).codec}, {decoder}"


class SpillWriter:
    """Writes frames of one video to the store in batches."""

    def __init__(self, store: SpillStore, stream: str) -> None:
        """Write nothing yet; `stream` is the key of the frames."""
        self._store = store
        self._stream = stream
        self._frames: dict[int, bytes] = {}
        self._num_bytes = 0

    def add(self, frame: int, packed: bytes) -> None:
        """Add a final frame, by its index in the video."""
        self._frames[frame] = packed
        self._num_bytes += len(packed)
        if len(self._frames) == _MAX_WRITE_FRAMES or self._num_bytes >= _MAX_WRITE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the added frames."""
        if self._frames:
            self._store.write(self._stream, self._frames)
            self._frames, self._num_bytes = {}, 0


def spilled(decoder: Decoder[Array], store: SpillStore, decoding: DecoderConfig) -> Decoder[Array]:
    """Return a decoder that reads stored frames, and stores those that `decoder` delivers.

    Returns `decoder` itself if frames of the video are not stored. Close only the returned decoder.
    """
    stream = spill_key(decoder.index, decoder.shape, decoding)
    return SpilledDecoder(decoder, store, stream) if stream else decoder


class SpilledDecoder:
    """Reads the stored frames of a job, decodes the others, and stores them: a `Decoder`.

    Frames and errors equal the decoder's. Only wanted frames are stored, and no concealed ones. For
    one thread.
    """

    def __init__(self, decoder: Decoder[Array], store: SpillStore, stream: str) -> None:
        """Read nothing yet; `stream` is the key of the frames in the store."""
        size = decoder.shape.output_size(decoder.index.info.upright_size)
        shape = replace(decoder.shape, size=size)
        self.index, self.shape = decoder.index, decoder.shape
        self.counters = decoder.counters
        """Cost so far; frames from the disk count as delivered, not as decoded."""
        self._decoder = decoder
        self._store, self._stream = store, stream
        self._writer = SpillWriter(store, stream)
        self._packer = Packer(packing_of(shape), shape)
        self._dtype, self._array_shape = np.dtype(shape.dtype), shape.array_shape(size)
        self._concealed: set[int] = set()

    @property
    def concealed(self) -> frozenset[int]:
        """Indices of damaged frames of the last job that were delivered anyway."""
        return frozenset(self._concealed)

    def run(self, job: DecodeJob, out: Out[Array] | None = None) -> Iterator[tuple[int, Array]]:
        """Yield (index, frame) for every wanted frame: see `Decoder.run`."""
        assert not isinstance(out, FrameWriter), "a stored frame cannot be converted again"
        self.index.check_unchanged(job.wanted[0])
        self._concealed.clear()
        lost: list[tuple[DecodeError, list[int]]] = []
        begin = 0
        try:
            for slot, frame in enumerate(job.wanted):
                packed = self._store.read(self._stream, frame)
                if packed is None:
                    continue
                yield from self._decode(job, begin, slot, out, lost)
                begin = slot
                if (pixels := self._unpacked(packed, slot, out)) is not None:
                    self.counters.frames_delivered += 1
                    yield frame, pixels
                    begin += 1
            yield from self._decode(job, begin, len(job.wanted), out, lost)
        finally:
            self._writer.flush()
        if lost:
            raise combined_error(lost)

    def rest(self) -> None:
        """Release the codec's memory between jobs."""
        self._decoder.rest()

    def close(self) -> None:
        """Release the file and the codec."""
        self._decoder.close()

    def _decode(
        self,
        job: DecodeJob,
        begin: int,
        end: int,
        out: _Memory | None,
        lost: list[tuple[DecodeError, list[int]]],
    ) -> Iterator[tuple[int, Array]]:
        """Decode and store the frames of slots [begin, end) of a job; add bad ones to `lost`."""
        wanted = job.wanted[begin:end]
        if not wanted:
            return
        if end < len(job.wanted):
            job = replace(job, goes_on=True, following=None)
        missing = set(wanted)
        try:
            with _from_slot(out, begin) as rest:
                for frame, pixels in self._decoder.run(replace(job, wanted=wanted), rest):
                    missing.discard(frame)
                    if frame in self._decoder.concealed:
                        self._concealed.add(frame)
                    elif pixels.shape == self._array_shape and self._store.takes_frames:
                        self._writer.add(frame, self._packer.pack(np.ascontiguousarray(pixels)))
                    yield frame, pixels
        except DecodeError as error:
            lost.append((error, sorted(missing)))

    def _unpacked(self, packed: bytes, slot: int, out: _Memory | None) -> Array | None:
        """Return a stored frame in its memory; None if it does not fit or cannot be unpacked."""
        if isinstance(out, StackedOutput):
            pixels = out.memory_of(slot, self._array_shape, self._new)
        else:
            pixels = self._new(self._array_shape) if out is None else out[slot]
        if pixels.shape != self._array_shape or pixels.dtype != self._dtype:
            return None  # the decoder raises the error
        try:
            self._packer.unpack(packed, pixels)
        except BackendError:
            return None
        return pixels

    def _new(self, shape: tuple[int, ...]) -> Array:
        return np.empty(shape, self._dtype)


@contextmanager
def _from_slot(out: _Memory | None, begin: int) -> Iterator[_Memory | None]:
    """Yield the output of a job's frames from slot `begin` on."""
    if isinstance(out, StackedOutput):
        out.first += begin
        try:
            yield out
        finally:
            out.first -= begin
    else:
        yield None if out is None else out[begin:]

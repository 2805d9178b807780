"""Opening videos for decoding: the index, then a decoder, or a pool of open decoders."""

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace.cache.spill_store import SpillStore
from headrace.decode import torchcodec_decoder
from headrace.decode.capabilities import Capabilities
from headrace.decode.decoder_config import BACKENDS, ON_CPU, Backend, DecoderConfig
from headrace.decode.frame_outputs import Array
from headrace.decode.gpu import gpu_decoding
from headrace.decode.gpu.gpu_decoding import DeviceCounters, DeviceScheduler, device_of
from headrace.decode.index_store import IndexStore
from headrace.decode.protocol import DecodeCounters, Decoder
from headrace.decode.proxy_decoder import ProxyCodecs, ProxyDecoder
from headrace.decode.proxy_index import ProxyIndex
from headrace.decode.pyav import PyavDecoder
from headrace.decode.spilled_decoder import spilled
from headrace.errors import BackendError
from headrace.units import check_integers
from headrace.video.frame_format import FrameFormat
from headrace.video.source import ProxySource, Source
from headrace.video.stream_index import StreamIndex

if TYPE_CHECKING:
    import torch


def open_index(
    source: Source | str | os.PathLike[str], index_store: IndexStore | None = None
) -> StreamIndex:
    """Return the index of `source`; a known file is not scanned again.

    Raises:
        OpenError: it cannot be opened as video.
        ScanError: no frame can be found in it.
    """
    source = Source.of(source)
    if isinstance(source, ProxySource):
        return ProxyIndex.of(source)
    return (index_store or IndexStore()).load(source)


def capabilities_of(decoding: DecoderConfig) -> Capabilities:
    """Return the capabilities of a configuration.

    Raises:
        BackendError: the backend is not installed, or not usable here.
    """
    if decoding.backend == "torchcodec":
        torchcodec_decoder.check_installed()
        return torchcodec_decoder.CAPABILITIES
    return gpu_decoding.capabilities_of(decoding)


def usable_backends() -> dict[Backend, str | None]:
    """Return backend -> reason it cannot be used here, or None. Imports the backends."""
    reasons: dict[Backend, str | None] = {}
    for backend in BACKENDS:
        device = "cuda:0" if backend == "pynvvideocodec" else "cpu"
        try:
            capabilities_of(DecoderConfig(backend=backend, device=device))
            reasons[backend] = None
        except BackendError as error:
            reasons[backend] = str(error)
    return reasons


def open_decoder(
    source: StreamIndex | Source | str | os.PathLike[str],
    shape: FrameFormat | None = None,
    decoding: DecoderConfig | None = None,
    *,
    gpu: int | None = None,
    index_store: IndexStore | None = None,
    codecs: ProxyCodecs | None = None,
    scheduler: DeviceScheduler | None = None,
) -> Decoder[Array]:
    """Return a decoder of `source`, for one thread; the caller closes it.

    The first job opens the file.

    Args:
        source: The video, or its index.
        shape: Format of the decoded frames; None keeps size and aspect.
        decoding: Backend and device; None: PyAV, on the CPU.
        gpu: Index of the NVIDIA GPU: the same as `decoding=DecoderConfig.on_gpu(gpu)`.
        index_store: Store of the index; None: the user's cache folder.
        codecs: Codec pool of this thread's proxy decoders; None: a new pool.
        scheduler: Scheduler that all `auto` decoders of one reader share; None: a new one, which
            chooses a device once.

    Raises:
        BackendError: the configuration cannot decode the video, the backend is not installed, or
            frames would stay on a GPU.
        ConfigError: both `decoding` and `gpu` are given, or an argument has the wrong type.
        OpenError: it cannot be opened as video.
        ScanError: no frame can be found in it.
    """
    decoding, shape = DecoderConfig.resolve(decoding, gpu), FrameFormat.resolve(shape)
    decoding.check_comes_down()
    index = source if isinstance(source, StreamIndex) else open_index(source, index_store)
    to_arrays = replace(decoding, keeps_on_device=False)
    return open_any_decoder(index, shape, to_arrays, codecs=codecs, scheduler=scheduler)


def open_device_decoder(
    source: StreamIndex | Source | str | os.PathLike[str],
    shape: FrameFormat | None = None,
    decoding: DecoderConfig | None = None,
    *,
    index_store: IndexStore | None = None,
    scheduler: DeviceScheduler | None = None,
) -> "Decoder[torch.Tensor]":
    """Return a decoder whose frames are tensors on the decoding GPU; for one thread.

    Frames are uint8 [H, W, 3] in [0, 255], RGB, upright, each in its own memory, ready for later
    work on the running thread's CUDA stream. Not yet run on a GPU. With device `cpu`, the same
    tensors are computed on the CPU, for comparison. With `auto`, all tensors are on the GPU, if
    there is one: frames that the CPU decodes are converted there.

    Args:
        source: The video, or its index.
        shape: Format of the decoded frames, RGB of 8 bits; None keeps size and aspect.
        decoding: None means `DecoderConfig(device="cuda:0", keeps_on_device=True)`.
        index_store: Store of the index; None: the user's cache folder.
        scheduler: As in `open_decoder`.

    Raises:
        BackendError: the configuration cannot decode the video into this format, or copies frames
            to the CPU, as `open_decoder` does.
        OpenError: it cannot be opened as video.
        ScanError: no frame can be found in it.
    """
    decoding = DecoderConfig.resolve(
        decoding or DecoderConfig(device="cuda:0", keeps_on_device=True)
    )
    if not decoding.keeps_on_device:
        raise BackendError(
            f"open_device_decoder keeps frames on {decoding.device}; give keeps_on_device=True, "
            "or use open_decoder"
        )
    shape = FrameFormat.resolve(shape)
    index = source if isinstance(source, StreamIndex) else open_index(source, index_store)
    return open_any_decoder(index, shape, decoding, scheduler=scheduler)


def open_any_decoder(
    index: StreamIndex,
    shape: FrameFormat | None,
    decoding: DecoderConfig,
    *,
    codecs: ProxyCodecs | None = None,
    scheduler: DeviceScheduler | None = None,
    spill: SpillStore | None = None,
) -> Decoder[Any]:
    """Return a decoder of arrays, or of tensors with `decoding.keeps_on_device`.

    Arguments and errors: see `open_decoder` and `open_device_decoder`. Arrays are read from
    `spill`, and stored there.
    """
    shape = FrameFormat.resolve(shape)
    if decoding.keeps_on_device:
        gpu_decoding.check_keeps_on_device(index, shape, decoding)
    kept_on = device_of(decoding) if decoding.keeps_on_device else None

    def open_on(device: str) -> Decoder[Any]:
        config = replace(decoding, device=device)
        capabilities_of(config).check(config, index, shape)
        if isinstance(index, ProxyIndex):
            return ProxyDecoder(index, shape, codecs)
        if config.backend == "torchcodec":
            return torchcodec_decoder.TorchcodecDecoder(index, shape, config)
        if kept_on is None:
            return PyavDecoder(index, shape, config)
        converter = gpu_decoding.tensor_converter(index, shape, kept_on)
        return PyavDecoder(index, shape, config, converter)

    if not decoding.is_auto:
        decoder = open_on(kept_on or decoding.device)
    else:
        capabilities_of(decoding).check(decoding, index, shape)
        decoder = gpu_decoding.AutoDecoder(index, shape, scheduler, open_on)
    return decoder if spill is None else spilled(decoder, spill, decoding)


def check_can_decode(
    indexes: Iterable[StreamIndex], shape: FrameFormat | None, decoding: DecoderConfig
) -> None:
    """Check that all videos can be decoded with this configuration and format; opens nothing.

    Raises:
        BackendError: a video cannot be decoded; the message names it and the fix.
    """
    shape = FrameFormat.resolve(shape)
    capabilities = capabilities_of(decoding)
    for index in indexes:
        if decoding.keeps_on_device:
            gpu_decoding.check_keeps_on_device(index, shape, decoding)
        else:
            capabilities.check(decoding, index, shape)


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

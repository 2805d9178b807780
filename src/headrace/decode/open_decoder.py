"""Opening videos for decoding: the index, then a decoder of the configured backend."""

import os
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.cache.spill_store import SpillStore
from headrace.decode import torchcodec_decoder
from headrace.decode.capabilities import Capabilities
from headrace.decode.decoder_config import BACKENDS, Backend, DecoderConfig
from headrace.decode.frame_outputs import Array
from headrace.decode.gpu import gpu_decoding
from headrace.decode.gpu.gpu_decoding import DeviceScheduler, device_of
from headrace.decode.index_store import IndexStore
from headrace.decode.protocol import Decoder
from headrace.decode.proxy_decoder import ProxyCodecs, ProxyDecoder
from headrace.decode.proxy_index import ProxyIndex
from headrace.decode.pyav import PyavDecoder
from headrace.decode.spilled_decoder import spilled
from headrace.errors import BackendError
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

"""Opening a video for decoding: its index, then a decoder of the chosen backend."""

import os
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.decode import nvdec
from headrace.decode import pynvvideocodec_decoder as by_pynvvideocodec
from headrace.decode import torchcodec_decoder as torchcodec_file
from headrace.decode.auto_decoder import AutoDecoder
from headrace.decode.capabilities import Capabilities
from headrace.decode.decoder_config import BACKENDS, Backend, DecoderConfig
from headrace.decode.device_scheduler import DeviceScheduler, device_of
from headrace.decode.frame_outputs import Array
from headrace.decode.index_store import IndexStore
from headrace.decode.protocol import Decoder
from headrace.decode.proxy_decoder import ProxyCodecs, ProxyDecoder
from headrace.decode.proxy_index import ProxyIndex
from headrace.decode.pyav import PyavDecoder
from headrace.decode.pynvvideocodec_library import check_installed
from headrace.decode.torchcodec_decoder import TorchcodecDecoder
from headrace.errors import BackendError
from headrace.video.frame_format import FrameFormat
from headrace.video.source import ProxySource, Source
from headrace.video.stream_index import StreamIndex

if TYPE_CHECKING:
    import torch


def open_index(
    source: Source | str | os.PathLike[str], index_store: IndexStore | None = None
) -> StreamIndex:
    """Return the index of `source`; a file seen before is not scanned again.

    Raises:
        OpenError: it cannot be opened as video.
        ScanError: no frame can be found in it.
    """
    source = Source.of(source)
    if isinstance(source, ProxySource):
        return ProxyIndex.of(source)
    return (index_store or IndexStore()).load(source)


def capabilities_of(decoding: DecoderConfig) -> Capabilities:
    """Return what can be decoded that way; PyAV on the CPU: all that FFmpeg has a decoder for.

    Raises:
        BackendError: the backend is not installed, or not usable here.
    """
    if decoding.backend == "torchcodec":
        torchcodec_file.check_installed()
        return torchcodec_file.CAPABILITIES
    if decoding.backend == "pynvvideocodec":
        check_installed()
        return by_pynvvideocodec.CAPABILITIES
    if decoding.is_auto:  # what the GPU does not decode, the CPU does
        return Capabilities(can_keep_on_device=True)
    return Capabilities() if decoding.gpu is None else nvdec.CAPABILITIES


def usable_backends() -> dict[Backend, str | None]:
    """Return each backend, and why it cannot be used here: None where it can. Imports them."""
    found: dict[Backend, str | None] = {}
    for backend in BACKENDS:
        try:
            is_for_gpus = backend == "pynvvideocodec"
            capabilities_of(
                DecoderConfig(backend=backend, device="cuda:0" if is_for_gpus else "cpu")
            )
            found[backend] = None
        except BackendError as error:
            found[backend] = str(error)
    return found


def open_decoder(
    source: StreamIndex | Source | str | os.PathLike[str],
    shape: FrameFormat | None = None,
    decoding: DecoderConfig | None = None,
    *,
    gpu: int | None = None,
    index_store: IndexStore | None = None,
    codecs: ProxyCodecs | None = None,
    chooser: DeviceScheduler | None = None,
) -> Decoder[Array]:
    """Return a decoder of `source`, for one thread; the caller closes it.

    The file itself is opened by the first job.

    Args:
        source: The video, or its index.
        shape: What frames are made into; None keeps them as they are.
        decoding: What decodes, and where; None: PyAV, on the CPU.
        gpu: Short for `DecoderConfig.on_gpu(gpu)`: the number of the NVIDIA GPU that decodes.
        index_store: Where indexes are kept; None means the user's cache folder.
        codecs: Shared by the decoders of proxies in this thread; None: it has its own.
        chooser: Shared by all that decode by `auto` for one reader; None: it has its own, for which
            a decoder is chosen once.

    Raises:
        BackendError: such video cannot be decoded that way, or the backend is not installed; or
            frames were to stay on a GPU.
        ConfigError: both `decoding` and `gpu` are given, or something that is none, or no shape.
        OpenError: it cannot be opened as video.
        ScanError: no frame can be found in it.
    """
    decoding, shape = DecoderConfig.chosen(decoding, gpu), FrameFormat.chosen(shape)
    decoding.check_comes_down()
    index = source if isinstance(source, StreamIndex) else open_index(source, index_store)
    capabilities_of(decoding).check(decoding, index, shape)
    if decoding.is_auto:
        return AutoDecoder(
            index,
            shape,
            chooser or DeviceScheduler(tries=False),
            lambda way: open_decoder(index, shape, DecoderConfig(device=way), codecs=codecs),
        )
    if isinstance(index, ProxyIndex):
        return ProxyDecoder(index, shape, codecs)
    if decoding.backend == "torchcodec":
        return TorchcodecDecoder(index, shape, decoding)
    return PyavDecoder(index, shape, decoding)


def open_device_decoder(
    source: StreamIndex | Source | str | os.PathLike[str],
    shape: FrameFormat | None = None,
    decoding: DecoderConfig | None = None,
    *,
    index_store: IndexStore | None = None,
    chooser: DeviceScheduler | None = None,
) -> "Decoder[torch.Tensor]":
    """Return a decoder whose frames are tensors on the GPU that decodes them; for one thread.

    Frames are uint8 [H, W, 3] in [0, 255], RGB, upright, each in memory of its own, and ready for
    what the thread that runs the decoder asks of its CUDA stream next. No GPU has run this yet.
    On the CPU the same tensors are made, for comparison. By `auto` they are on the GPU, if there is
    one: what the CPU decodes is made into tensors there.

    Args:
        source: The video, or its index.
        shape: What frames are made into, RGB of 8 bits; None keeps them as they are.
        decoding: As in `DecoderConfig(device="cuda:0", keeps_on_device=True)`, which is also what
            None means.
        index_store: Where indexes are kept; None means the user's cache folder.
        chooser: As in `open_decoder`.

    Raises:
        BackendError: such video cannot be decoded that way, or made into that shape; or frames were
            to come down, which `open_decoder` does.
        OpenError: it cannot be opened as video.
        ScanError: no frame can be found in it.
    """
    from headrace.decode.tensor_converter import TensorConverter

    decoding = DecoderConfig.chosen(
        decoding or DecoderConfig(device="cuda:0", keeps_on_device=True)
    )
    if not decoding.keeps_on_device:
        raise BackendError(
            f"open_device_decoder leaves frames on {decoding.device}, and they were to come down; "
            "give keeps_on_device=True, or take open_decoder"
        )
    shape = FrameFormat.chosen(shape)
    index = source if isinstance(source, StreamIndex) else open_index(source, index_store)
    check_stays(index, shape, decoding)
    device = device_of(decoding)

    def open_on(way: str) -> "Decoder[torch.Tensor]":
        kept = replace(decoding, device=way)
        capabilities_of(kept).check(kept, index, shape)
        return PyavDecoder(index, shape, kept, TensorConverter.of(index, shape, device))

    if decoding.is_auto:
        return AutoDecoder(index, shape, chooser or DeviceScheduler(tries=False), open_on)
    return open_on(device)


def open_either(
    index: StreamIndex,
    shape: FrameFormat | None,
    decoding: DecoderConfig,
    *,
    codecs: ProxyCodecs | None = None,
    chooser: DeviceScheduler | None = None,
) -> Decoder[Any]:
    """Return a decoder of arrays, or of tensors where decoding leaves frames on its device.

    Arguments and errors are those of `open_decoder` and `open_device_decoder`.
    """
    if decoding.keeps_on_device:
        return open_device_decoder(index, shape, decoding, chooser=chooser)
    return open_decoder(index, shape, decoding, codecs=codecs, chooser=chooser)


def check_opens(
    indexes: Iterable[StreamIndex], shape: FrameFormat | None, decoding: DecoderConfig
) -> None:
    """Do nothing if all videos can be decoded that way, and left where they are to be.

    Opens and decodes nothing: so that what cannot be is told before anything is.

    Raises:
        BackendError: one cannot be; names it, and what to do.
    """
    shape = FrameFormat.chosen(shape)
    able = capabilities_of(decoding)
    for index in indexes:
        if decoding.keeps_on_device:
            check_stays(index, shape, decoding)
        else:
            able.check(decoding, index, shape)


def check_stays(index: StreamIndex, shape: FrameFormat, decoding: DecoderConfig) -> None:
    """Do nothing if frames of a video can be tensors on the device that decodes them.

    Raises:
        BackendError: they cannot be: it is not decoded there, or does not become RGB there.
    """
    from headrace.decode.tensor_converter import check_shape
    from headrace.decode.tensor_planes import check_stored

    device = device_of(decoding)
    asked = f"frames of {index.source} were to be tensors on {device}"
    if not decoding.can_keep:
        raise BackendError(f"{asked}, and {decoding.backend} gives arrays; leave the backend out")
    if isinstance(index, ProxyIndex):
        raise BackendError(f"{asked}, and a proxy gives arrays; leave the proxies out")
    capabilities_of(decoding).check(decoding, index, shape)
    check_stored(index.info.pixel_format, str(index.source))
    check_shape(shape, str(index.source), device)

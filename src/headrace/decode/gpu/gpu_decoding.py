"""The only module of this folder that other code imports.

It loads no PyTorch: modules that need it are imported on use.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from headrace.decode.capabilities import Capabilities
from headrace.decode.converter import Converter
from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.gpu import nvdec
from headrace.decode.gpu import pynvvideocodec_decoder as by_pynvvideocodec
from headrace.decode.gpu.auto_decoder import AutoDecoder as AutoDecoder
from headrace.decode.gpu.codec_pool import IDLE_CODECS as IDLE_CODECS
from headrace.decode.gpu.device_scheduler import DeviceCounters as DeviceCounters
from headrace.decode.gpu.device_scheduler import DeviceScheduler as DeviceScheduler
from headrace.decode.gpu.device_scheduler import DeviceTotals as DeviceTotals
from headrace.decode.gpu.device_scheduler import device_of as device_of
from headrace.decode.gpu.pynvvideocodec_library import check_installed
from headrace.decode.protocol import DecodeCounters
from headrace.decode.proxy_index import ProxyIndex
from headrace.decode.stream_codecs import StreamCodecs
from headrace.decode.yuv_to_rgb import chroma_is_left
from headrace.errors import BackendError
from headrace.runtime.fork_safety import check_cuda_after_fork
from headrace.video.frame_format import FrameFormat
from headrace.video.pyav_version import check_full
from headrace.video.stream_index import StreamIndex

if TYPE_CHECKING:
    import torch


def capabilities_of(decoding: DecoderConfig) -> Capabilities:
    """Return the capabilities of a configuration of PyAV, NVDEC or PyNvVideoCodec.

    Raises:
        BackendError: the backend is not installed, or not usable here; or PyAV is too old for it.
    """
    if decoding.keeps_on_device:
        check_full("keeps_on_device", "leave keeps_on_device out")
    elif decoding.device != "cpu":
        check_full(f"decoding by {decoding.name}", decoding.fix)
    if decoding.backend == "pynvvideocodec":
        check_installed()
        return by_pynvvideocodec.CAPABILITIES
    if decoding.is_auto:  # the CPU decodes the rest
        return Capabilities(can_keep_on_device=True)
    return Capabilities() if decoding.gpu is None else nvdec.CAPABILITIES


def stream_codecs(
    decoding: DecoderConfig, index: StreamIndex, counters: DecodeCounters
) -> StreamCodecs:
    """Return the codecs of a stream, on the CPU or a GPU; uses no GPU yet.

    Args:
        decoding: Backend and device.
        index: The index of a stream within `capabilities_of(decoding)`.
        counters: Counters to add bytes copied from a GPU to.
    """
    if decoding.gpu is None:
        return StreamCodecs(index)
    by_library = decoding.backend == "pynvvideocodec"
    on_gpu = by_pynvvideocodec.PyNvVideoCodecs if by_library else nvdec.Nvdec
    return on_gpu(decoding, index, counters)


def device_context(decoding: DecoderConfig, request: str) -> AbstractContextManager[None]:
    """Return a context in which another library decodes on the device; empty on the CPU.

    Raises:
        BackendError: this process was forked from one that uses CUDA; starts with `request`.
    """
    if decoding.gpu is None:
        return nullcontext()
    check_cuda_after_fork(request)
    return nvdec.torch_cuda_context(decoding.gpu)


def tensor_converter(
    index: StreamIndex, shape: FrameFormat, device: str
) -> "Converter[torch.Tensor]":
    """Return the converter of a stream's frames to tensors on a device. Loads PyTorch.

    Raises:
        BackendError: only the CPU's converter supports this format.
    """
    from headrace.decode.gpu.tensor_converter import TensorConverter

    info, is_left = index.info, chroma_is_left(index.info.codec)
    return TensorConverter(
        shape, info.orientation, str(index.source), device, chroma_is_left=is_left
    )


def check_keeps_on_device(index: StreamIndex, shape: FrameFormat, decoding: DecoderConfig) -> None:
    """Check that frames of a video can be tensors on the decoding device. Loads PyTorch.

    Raises:
        BackendError: the device cannot decode it, or cannot convert it to RGB.
    """
    from headrace.decode.gpu.tensor_converter import check_shape
    from headrace.decode.gpu.tensor_planes import check_stored

    device = device_of(decoding)
    request = f"frames of {index.source} cannot be tensors on {device}"
    if not decoding.can_keep:
        raise BackendError(f"{request}: {decoding.backend} returns arrays; leave the backend out")
    if isinstance(index, ProxyIndex):
        raise BackendError(f"{request}: proxies are decoded to arrays; leave the proxies out")
    capabilities_of(decoding).check(decoding, index, shape)
    check_stored(index.info.pixel_format, str(index.source))
    check_shape(shape, str(index.source), device)

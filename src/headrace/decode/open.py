"""Opening a video for decoding: its index, then a decoder of the chosen backend."""

import os

from headrace.decode import nvdec
from headrace.decode.capabilities import Capabilities
from headrace.decode.decoding import Decoding
from headrace.decode.index_store import IndexStore
from headrace.decode.pixels import Array
from headrace.decode.protocol import Decoder
from headrace.decode.pyav import PyavDecoder
from headrace.video.shape import FrameShape
from headrace.video.source import Source
from headrace.video.stream_index import StreamIndex


def open_index(
    source: Source | str | os.PathLike[str], store: IndexStore | None = None
) -> StreamIndex:
    """Return the index of `source`; a file seen before is not scanned again.

    Raises:
        OpenError: it cannot be opened as video.
        ScanError: no frame can be found in it.
    """
    return (store or IndexStore()).load(Source.of(source))


def capabilities_of(decoding: Decoding) -> Capabilities:
    """Return what can be decoded that way; the CPU decodes all that FFmpeg has a decoder for."""
    return Capabilities() if decoding.gpu is None else nvdec.CAPABILITIES


def open_decoder(
    source: StreamIndex | Source | str | os.PathLike[str],
    shape: FrameShape | None = None,
    decoding: Decoding | None = None,
    *,
    gpu: int | None = None,
    store: IndexStore | None = None,
) -> Decoder[Array]:
    """Return a decoder of `source`, for one thread; the caller closes it.

    The file itself is opened by the first job.

    Args:
        source: The video, or its index.
        shape: What frames are made into; None keeps them as they are.
        decoding: What decodes, and where; None: PyAV, on the CPU.
        gpu: Short for `Decoding.on_gpu(gpu)`: the number of the NVIDIA GPU that decodes.
        store: Where indexes are kept; None means the user's cache folder.

    Raises:
        BackendError: such video cannot be decoded that way.
        ConfigError: both `decoding` and `gpu` are given.
        OpenError: it cannot be opened as video.
        ScanError: no frame can be found in it.
    """
    decoding = Decoding.chosen(decoding, gpu)
    index = source if isinstance(source, StreamIndex) else open_index(source, store)
    capabilities_of(decoding).check(decoding, index)
    return PyavDecoder(index, shape, decoding)

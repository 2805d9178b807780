"""Opening a video for decoding: its index, then a decoder of the chosen backend."""

import os
from typing import Literal, get_args

from headrace.decode.index_store import IndexStore
from headrace.decode.protocol import Decoder
from headrace.decode.pyav import PyavDecoder
from headrace.errors import BackendError
from headrace.video.shape import FrameShape
from headrace.video.source import Source
from headrace.video.stream_index import StreamIndex

Backend = Literal["pyav"]
"""Decoding backends there are."""

BACKENDS: tuple[Backend, ...] = get_args(Backend)
"""Their names."""


def open_index(
    source: Source | str | os.PathLike[str], store: IndexStore | None = None
) -> StreamIndex:
    """Return the index of `source`; a file seen before is not scanned again.

    Raises:
        OpenError: it cannot be opened as video.
        ScanError: no frame can be found in it.
    """
    return (store or IndexStore()).load(Source.of(source))


def open_decoder(
    source: StreamIndex | Source | str | os.PathLike[str],
    shape: FrameShape | None = None,
    *,
    backend: Backend = "pyav",
    gpu: int | None = None,
    store: IndexStore | None = None,
) -> Decoder:
    """Return a decoder of `source`, for one thread; the caller closes it.

    The file itself is opened by the first job.

    Args:
        source: The video, or its index.
        shape: What frames are made into; None keeps them as they are.
        backend: What decodes.
        gpu: Number of the NVIDIA GPU that decodes; None: the CPU does. Frames come down to it.
        store: Where indexes are kept; None means the user's cache folder.

    Raises:
        BackendError: there is no such backend, or GPUs do not decode such video.
        OpenError: it cannot be opened as video.
        ScanError: no frame can be found in it.
    """
    if backend not in BACKENDS:
        raise BackendError(f"no backend {backend!r}; there is {', '.join(BACKENDS)}")
    index = source if isinstance(source, StreamIndex) else open_index(source, store)
    return PyavDecoder(index, shape, gpu=gpu)

"""Video for PyTorch: the right frames, as fast as the hardware allows, and where the time went.

The layers, top to bottom; a file imports only from what stands above it (docs/design.md):

    errors -> video -> sampling -> planning -> runtime -> decode -> preprocess -> models
    -> profiling -> extraction -> live -> report -> cli; testing may use them all

Names are loaded when they are first used: `import headrace` loads neither torch nor FFmpeg.
"""

from importlib import import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.decode.clips import load_clip, read_clip
    from headrace.decode.index_store import IndexStore
    from headrace.decode.open import open_decoder, open_index
    from headrace.decode.protocol import DecodeCounters, DecodeJob, Decoder
    from headrace.errors import (
        BackendError,
        CacheError,
        ConfigError,
        DecodeError,
        HeadraceError,
        MediaError,
        OpenError,
        ScanError,
        StageError,
    )
    from headrace.extraction.frames import FrameReader, read_frames
    from headrace.profiling.session import Session
    from headrace.video.frames import Clip, FrameBatch
    from headrace.video.shape import Crop, FrameShape
    from headrace.video.source import Source
    from headrace.video.stream_index import StreamIndex

__version__ = _version("headrace")

_HOMES = {
    "BackendError": "errors",
    "CacheError": "errors",
    "Clip": "video.frames",
    "ConfigError": "errors",
    "Crop": "video.shape",
    "DecodeCounters": "decode.protocol",
    "DecodeError": "errors",
    "DecodeJob": "decode.protocol",
    "Decoder": "decode.protocol",
    "FrameBatch": "video.frames",
    "FrameReader": "extraction.frames",
    "FrameShape": "video.shape",
    "HeadraceError": "errors",
    "IndexStore": "decode.index_store",
    "MediaError": "errors",
    "OpenError": "errors",
    "ScanError": "errors",
    "Session": "profiling.session",
    "Source": "video.source",
    "StageError": "errors",
    "StreamIndex": "video.stream_index",
    "load_clip": "decode.clips",
    "open_decoder": "decode.open",
    "open_index": "decode.open",
    "read_clip": "decode.clips",
    "read_frames": "extraction.frames",
}

__all__ = [
    "BackendError",
    "CacheError",
    "Clip",
    "ConfigError",
    "Crop",
    "DecodeCounters",
    "DecodeError",
    "DecodeJob",
    "Decoder",
    "FrameBatch",
    "FrameReader",
    "FrameShape",
    "HeadraceError",
    "IndexStore",
    "MediaError",
    "OpenError",
    "ScanError",
    "Session",
    "Source",
    "StageError",
    "StreamIndex",
    "load_clip",
    "open_decoder",
    "open_index",
    "read_clip",
    "read_frames",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'headrace' has no attribute {name!r}")
    found = getattr(import_module(f"headrace.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

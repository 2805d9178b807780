"""Video for PyTorch: the right frames, as fast as the hardware allows, and where the time went.

The layers, top to bottom; a file imports only from what stands above it (docs/design.md):

    errors -> sizes -> masking -> video -> sampling -> planning -> runtime -> decode -> preprocess
    -> models -> cache -> profiling -> training -> extraction -> live -> sinks -> runs -> report
    -> watching -> bench -> cli; testing may use them all

Names are loaded when they are first used: `import headrace` loads neither torch nor FFmpeg.
"""

import sys
from importlib import import_module
from importlib.metadata import version as _version
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.decode.clips import load_clip, read_clip
    from headrace.decode.decoded_by import DecodedBy, WayDone
    from headrace.decode.decoding import Decoding
    from headrace.decode.index_store import IndexStore
    from headrace.decode.open import open_decoder, open_device_decoder, open_index
    from headrace.decode.protocol import DecodeCounters, DecodeJob, Decoder
    from headrace.decode.proxies import Proxies
    from headrace.decode.video_reader import VideoReader
    from headrace.decode.video_reader import open as open  # type checkers export it
    from headrace.errors import (
        BackendError,
        CacheError,
        ConfigError,
        DecodeError,
        HeadraceError,
        LeftOutWarning,
        MediaError,
        NoLengthError,
        OpenError,
        ScanError,
        StageError,
    )
    from headrace.extraction.features.feature_set import read_features
    from headrace.extraction.frames import FrameReader, read_frames
    from headrace.profiling.session import Session
    from headrace.runs.live.loop import LiveResult, live
    from headrace.sampling.around import Around
    from headrace.sampling.bursts import Bursts
    from headrace.sampling.clips import RandomClips, UniformClips
    from headrace.sampling.frames import InOrder, Permutation, Uniform
    from headrace.sampling.moments import Moments
    from headrace.sampling.order import Order
    from headrace.sampling.population import Population
    from headrace.sampling.sampler import AdaptableSampler, Sampler, SamplerTraits, SamplerUse
    from headrace.sampling.spread import SpreadClips
    from headrace.sinks.own_sink import ResultBatch, Sink, SinkContext
    from headrace.training.batch import Batch
    from headrace.training.cameras.alignment import Alignment, CameraClock
    from headrace.training.cameras.augment import ClipAugment
    from headrace.training.cameras.batch import CameraBatch
    from headrace.training.cameras.camera_times import CameraTimes
    from headrace.training.cameras.datasets import CameraStreamDataset
    from headrace.training.cameras.loader import CameraLoader
    from headrace.training.cameras.metadata import ClipMoment
    from headrace.training.cameras.moment_table import MomentTable
    from headrace.training.cameras.nuscenes import NuScenes
    from headrace.training.cameras.problems import camera_problems
    from headrace.training.cameras.slot_memory import SlotMemory
    from headrace.training.cameras.statistics import CameraStatistics
    from headrace.training.cameras.stream_sampler import CameraStreamSampler
    from headrace.training.cameras.view import CameraView
    from headrace.training.cameras.windows.batch import CameraWindowBatch
    from headrace.training.cameras.windows.loader import CameraWindowLoader
    from headrace.training.cameras.windows.statistics import CameraWindowStatistics
    from headrace.training.clip_loader import ClipLoader
    from headrace.training.datasets import FrameDataset, VideoDataset
    from headrace.training.epoch_sampler import EpochSampler
    from headrace.training.loader import FrameLoader
    from headrace.training.manifest.manifest import Manifest
    from headrace.training.sheet.contact_sheet import ContactSheet
    from headrace.training.statistics import LoaderStatistics
    from headrace.training.transforms import WithSample
    from headrace.video.camera_layout import CameraLayout
    from headrace.video.frames import Clip, FrameBatch
    from headrace.video.image_sequence import ImageSequence
    from headrace.video.loss import Loss
    from headrace.video.manifest import find_videos
    from headrace.video.metadata import VideoMetadata
    from headrace.video.shape import Crop, FrameShape
    from headrace.video.source import Source
    from headrace.video.stream_index import StreamIndex
    from headrace.watching.observation import Observation, observe

__version__ = _version("headrace")

_HOMES = {
    "AdaptableSampler": "sampling.sampler",
    "Alignment": "training.cameras.alignment",
    "Around": "sampling.around",
    "BackendError": "errors",
    "Batch": "training.batch",
    "Bursts": "sampling.bursts",
    "CacheError": "errors",
    "CameraBatch": "training.cameras.batch",
    "CameraClock": "training.cameras.alignment",
    "CameraLayout": "video.camera_layout",
    "CameraLoader": "training.cameras.loader",
    "CameraStatistics": "training.cameras.statistics",
    "CameraStreamDataset": "training.cameras.datasets",
    "CameraStreamSampler": "training.cameras.stream_sampler",
    "CameraTimes": "training.cameras.camera_times",
    "CameraView": "training.cameras.view",
    "CameraWindowBatch": "training.cameras.windows.batch",
    "CameraWindowLoader": "training.cameras.windows.loader",
    "CameraWindowStatistics": "training.cameras.windows.statistics",
    "Clip": "video.frames",
    "ClipAugment": "training.cameras.augment",
    "ClipLoader": "training.clip_loader",
    "ClipMoment": "training.cameras.metadata",
    "ConfigError": "errors",
    "ContactSheet": "training.sheet.contact_sheet",
    "Crop": "video.shape",
    "DecodeCounters": "decode.protocol",
    "DecodeError": "errors",
    "DecodeJob": "decode.protocol",
    "DecodedBy": "decode.decoded_by",
    "Decoder": "decode.protocol",
    "Decoding": "decode.decoding",
    "EpochSampler": "training.epoch_sampler",
    "FrameBatch": "video.frames",
    "FrameDataset": "training.datasets",
    "FrameLoader": "training.loader",
    "FrameReader": "extraction.frames",
    "FrameShape": "video.shape",
    "HeadraceError": "errors",
    "ImageSequence": "video.image_sequence",
    "InOrder": "sampling.frames",
    "IndexStore": "decode.index_store",
    "LeftOutWarning": "errors",
    "LiveResult": "runs.live.loop",
    "LoaderStatistics": "training.statistics",
    "Loss": "video.loss",
    "Manifest": "training.manifest.manifest",
    "MediaError": "errors",
    "MomentTable": "training.cameras.moment_table",
    "Moments": "sampling.moments",
    "NoLengthError": "errors",
    "NuScenes": "training.cameras.nuscenes",
    "Observation": "watching.observation",
    "OpenError": "errors",
    "Order": "sampling.order",
    "Permutation": "sampling.frames",
    "Population": "sampling.population",
    "Proxies": "decode.proxies",
    "RandomClips": "sampling.clips",
    "ResultBatch": "sinks.own_sink",
    "Sampler": "sampling.sampler",
    "SamplerTraits": "sampling.sampler",
    "SamplerUse": "sampling.sampler",
    "ScanError": "errors",
    "Session": "profiling.session",
    "Sink": "sinks.own_sink",
    "SinkContext": "sinks.own_sink",
    "SlotMemory": "training.cameras.slot_memory",
    "Source": "video.source",
    "SpreadClips": "sampling.spread",
    "StageError": "errors",
    "StreamIndex": "video.stream_index",
    "Uniform": "sampling.frames",
    "UniformClips": "sampling.clips",
    "VideoDataset": "training.datasets",
    "VideoMetadata": "video.metadata",
    "VideoReader": "decode.video_reader",
    "WayDone": "decode.decoded_by",
    "WithSample": "training.transforms",
    "camera_problems": "training.cameras.problems",
    "find_videos": "video.manifest",
    "live": "runs.live.loop",
    "load_clip": "decode.clips",
    "observe": "watching.observation",
    "open": "decode.video_reader",
    "open_decoder": "decode.open",
    "open_device_decoder": "decode.open",
    "open_index": "decode.open",
    "read_clip": "decode.clips",
    "read_features": "extraction.features.feature_set",
    "read_frames": "extraction.frames",
}

# `from headrace import *` hides nothing of Python: `open` is `headrace.open` only.
__all__ = [
    "AdaptableSampler",
    "Alignment",
    "Around",
    "BackendError",
    "Batch",
    "Bursts",
    "CacheError",
    "CameraBatch",
    "CameraClock",
    "CameraLayout",
    "CameraLoader",
    "CameraStatistics",
    "CameraStreamDataset",
    "CameraStreamSampler",
    "CameraTimes",
    "CameraView",
    "CameraWindowBatch",
    "CameraWindowLoader",
    "CameraWindowStatistics",
    "Clip",
    "ClipAugment",
    "ClipLoader",
    "ClipMoment",
    "ConfigError",
    "ContactSheet",
    "Crop",
    "DecodeCounters",
    "DecodeError",
    "DecodeJob",
    "DecodedBy",
    "Decoder",
    "Decoding",
    "EpochSampler",
    "FrameBatch",
    "FrameDataset",
    "FrameLoader",
    "FrameReader",
    "FrameShape",
    "HeadraceError",
    "ImageSequence",
    "InOrder",
    "IndexStore",
    "LeftOutWarning",
    "LiveResult",
    "LoaderStatistics",
    "Loss",
    "Manifest",
    "MediaError",
    "MomentTable",
    "Moments",
    "NoLengthError",
    "NuScenes",
    "Observation",
    "OpenError",
    "Order",
    "Permutation",
    "Population",
    "Proxies",
    "RandomClips",
    "ResultBatch",
    "Sampler",
    "SamplerTraits",
    "SamplerUse",
    "ScanError",
    "Session",
    "Sink",
    "SinkContext",
    "SlotMemory",
    "Source",
    "SpreadClips",
    "StageError",
    "StreamIndex",
    "Uniform",
    "UniformClips",
    "VideoDataset",
    "VideoMetadata",
    "VideoReader",
    "WayDone",
    "WithSample",
    "camera_problems",
    "find_videos",
    "live",
    "load_clip",
    "observe",
    "open_decoder",
    "open_device_decoder",
    "open_index",
    "read_clip",
    "read_features",
    "read_frames",
]


class _Root(ModuleType):
    """Keeps its public names: importing the folder `headrace.live` must not hide `live`."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Root


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'headrace' has no attribute {name!r}")
    try:
        found = getattr(import_module(f"headrace.{_HOMES[name]}"), name)
    except ImportError:
        import_module("headrace.extras").check_extra("run", f"headrace.{name}")
        raise
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*_HOMES, "__version__"]

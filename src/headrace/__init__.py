"""Video for PyTorch: the right frames, as fast as the hardware allows, and where the time went.

The layers, top to bottom; a file imports only from what stands above it (docs/design.md):

    errors -> units -> redaction -> video -> sampling -> planning -> runtime -> decode -> preprocess
    -> models -> cache -> profiling -> loaders -> extraction -> live -> sinks -> runs -> report
    -> instrumentation -> bench -> cli; testing may use them all

Names are loaded when they are first used: `import headrace` loads neither torch nor FFmpeg.
"""

import sys
from importlib import import_module
from importlib.metadata import version as _version
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.decode.decoder_config import DecoderConfig
    from headrace.decode.device_scheduler import DeviceCounters, DeviceTotals
    from headrace.decode.index_store import IndexStore
    from headrace.decode.open_decoder import open_decoder, open_device_decoder, open_index
    from headrace.decode.protocol import DecodeCounters, DecodeJob, Decoder
    from headrace.decode.proxies import Proxies
    from headrace.decode.read_clip import load_clip, read_clip
    from headrace.decode.video_reader import VideoReader
    from headrace.decode.video_reader import open as open  # type checkers export it
    from headrace.errors import (
        BackendError,
        CacheError,
        ConfigError,
        DecodeError,
        HeadraceError,
        MediaError,
        NoLengthError,
        OpenError,
        ScanError,
        SkippedVideosWarning,
        StageError,
    )
    from headrace.extraction.features.feature_set import read_features
    from headrace.extraction.frame_reader import FrameReader, read_frames
    from headrace.instrumentation.loop_profile import LoopProfile, profile_loader
    from headrace.loaders.batch import Batch
    from headrace.loaders.cameras.augment import ClipAugment
    from headrace.loaders.cameras.camera_alignment import Alignment, CameraClock
    from headrace.loaders.cameras.camera_batch import CameraBatch
    from headrace.loaders.cameras.camera_dataset import CameraStreamDataset
    from headrace.loaders.cameras.camera_loader import CameraLoader, CameraStatistics
    from headrace.loaders.cameras.camera_times import CameraTimes
    from headrace.loaders.cameras.camera_view import CameraView
    from headrace.loaders.cameras.layout_check import camera_problems
    from headrace.loaders.cameras.moment_table import ClipMoment, MomentTable
    from headrace.loaders.cameras.nuscenes import NuScenes
    from headrace.loaders.cameras.slot_memory import SlotMemory
    from headrace.loaders.cameras.stream_sampler import CameraStreamSampler
    from headrace.loaders.cameras.window_batch import CameraWindowBatch
    from headrace.loaders.cameras.window_loader import CameraWindowLoader, CameraWindowStatistics
    from headrace.loaders.contact_sheet.contact_sheet import ContactSheet
    from headrace.loaders.datasets import FrameDataset, VideoDataset
    from headrace.loaders.epoch_sampler import EpochSampler
    from headrace.loaders.frame_loader import ClipLoader, FrameLoader
    from headrace.loaders.loader_statistics import LoaderStatistics
    from headrace.loaders.manifest import Manifest
    from headrace.loaders.transforms import WithSample
    from headrace.profiling.session import Session
    from headrace.runs.live.live_loop import LiveResult, live
    from headrace.sampling.bursts import Bursts
    from headrace.sampling.clip_samplers import RandomClips, SegmentClips, UniformClips
    from headrace.sampling.delta_frames import DeltaFrames
    from headrace.sampling.epoch_order import EpochOrder
    from headrace.sampling.frame_samplers import SequentialFrames, ShuffledFrames, UniformFrames
    from headrace.sampling.moments import Moments
    from headrace.sampling.population import Population
    from headrace.sampling.sampler import BindableSampler, Sampler, SamplerContext, SamplerTraits
    from headrace.sinks.custom_sink import ResultBatch, Sink, SinkContext
    from headrace.video.camera_layout import CameraLayout
    from headrace.video.find_videos import find_videos
    from headrace.video.frame_format import Crop, FrameFormat
    from headrace.video.frame_loss import FrameLoss
    from headrace.video.frames import Clip, FrameBatch
    from headrace.video.image_sequence import ImageSequence
    from headrace.video.metadata import VideoMetadata
    from headrace.video.source import Source
    from headrace.video.stream_index import StreamIndex

__version__ = _version("headrace")

_HOMES = {
    "Alignment": "loaders.cameras.camera_alignment",
    "BackendError": "errors",
    "Batch": "loaders.batch",
    "BindableSampler": "sampling.sampler",
    "Bursts": "sampling.bursts",
    "CacheError": "errors",
    "CameraBatch": "loaders.cameras.camera_batch",
    "CameraClock": "loaders.cameras.camera_alignment",
    "CameraLayout": "video.camera_layout",
    "CameraLoader": "loaders.cameras.camera_loader",
    "CameraStatistics": "loaders.cameras.camera_loader",
    "CameraStreamDataset": "loaders.cameras.camera_dataset",
    "CameraStreamSampler": "loaders.cameras.stream_sampler",
    "CameraTimes": "loaders.cameras.camera_times",
    "CameraView": "loaders.cameras.camera_view",
    "CameraWindowBatch": "loaders.cameras.window_batch",
    "CameraWindowLoader": "loaders.cameras.window_loader",
    "CameraWindowStatistics": "loaders.cameras.window_loader",
    "Clip": "video.frames",
    "ClipAugment": "loaders.cameras.augment",
    "ClipLoader": "loaders.frame_loader",
    "ClipMoment": "loaders.cameras.moment_table",
    "ConfigError": "errors",
    "ContactSheet": "loaders.contact_sheet.contact_sheet",
    "Crop": "video.frame_format",
    "DecodeCounters": "decode.protocol",
    "DecodeError": "errors",
    "DecodeJob": "decode.protocol",
    "Decoder": "decode.protocol",
    "DecoderConfig": "decode.decoder_config",
    "DeltaFrames": "sampling.delta_frames",
    "DeviceCounters": "decode.device_scheduler",
    "DeviceTotals": "decode.device_scheduler",
    "EpochOrder": "sampling.epoch_order",
    "EpochSampler": "loaders.epoch_sampler",
    "FrameBatch": "video.frames",
    "FrameDataset": "loaders.datasets",
    "FrameFormat": "video.frame_format",
    "FrameLoader": "loaders.frame_loader",
    "FrameLoss": "video.frame_loss",
    "FrameReader": "extraction.frame_reader",
    "HeadraceError": "errors",
    "ImageSequence": "video.image_sequence",
    "IndexStore": "decode.index_store",
    "LiveResult": "runs.live.loop",
    "LoaderStatistics": "loaders.loader_statistics",
    "LoopProfile": "instrumentation.loop_profile",
    "Manifest": "loaders.manifest",
    "MediaError": "errors",
    "MomentTable": "loaders.cameras.moment_table",
    "Moments": "sampling.moments",
    "NoLengthError": "errors",
    "NuScenes": "loaders.cameras.nuscenes",
    "OpenError": "errors",
    "Population": "sampling.population",
    "Proxies": "decode.proxies",
    "RandomClips": "sampling.clip_samplers",
    "ResultBatch": "sinks.own_sink",
    "Sampler": "sampling.sampler",
    "SamplerContext": "sampling.sampler",
    "SamplerTraits": "sampling.sampler",
    "ScanError": "errors",
    "SegmentClips": "sampling.clip_samplers",
    "SequentialFrames": "sampling.frame_samplers",
    "Session": "profiling.session",
    "ShuffledFrames": "sampling.frame_samplers",
    "Sink": "sinks.own_sink",
    "SinkContext": "sinks.own_sink",
    "SkippedVideosWarning": "errors",
    "SlotMemory": "loaders.cameras.slot_memory",
    "Source": "video.source",
    "StageError": "errors",
    "StreamIndex": "video.stream_index",
    "UniformClips": "sampling.clip_samplers",
    "UniformFrames": "sampling.frame_samplers",
    "VideoDataset": "loaders.datasets",
    "VideoMetadata": "video.metadata",
    "VideoReader": "decode.video_reader",
    "WithSample": "loaders.transforms",
    "camera_problems": "loaders.cameras.layout_check",
    "find_videos": "video.find_videos",
    "live": "runs.live.loop",
    "load_clip": "decode.read_clip",
    "open": "decode.video_reader",
    "open_decoder": "decode.open_decoder",
    "open_device_decoder": "decode.open_decoder",
    "open_index": "decode.open_decoder",
    "profile_loader": "instrumentation.loop_profile",
    "read_clip": "decode.read_clip",
    "read_features": "extraction.features.feature_set",
    "read_frames": "extraction.frame_reader",
}

# `from headrace import *` hides nothing of Python: `open` is `headrace.open` only.
__all__ = [
    "Alignment",
    "BackendError",
    "Batch",
    "BindableSampler",
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
    "Decoder",
    "DecoderConfig",
    "DeltaFrames",
    "DeviceCounters",
    "DeviceTotals",
    "EpochOrder",
    "EpochSampler",
    "FrameBatch",
    "FrameDataset",
    "FrameFormat",
    "FrameLoader",
    "FrameLoss",
    "FrameReader",
    "HeadraceError",
    "ImageSequence",
    "IndexStore",
    "LiveResult",
    "LoaderStatistics",
    "LoopProfile",
    "Manifest",
    "MediaError",
    "MomentTable",
    "Moments",
    "NoLengthError",
    "NuScenes",
    "OpenError",
    "Population",
    "Proxies",
    "RandomClips",
    "ResultBatch",
    "Sampler",
    "SamplerContext",
    "SamplerTraits",
    "ScanError",
    "SegmentClips",
    "SequentialFrames",
    "Session",
    "ShuffledFrames",
    "Sink",
    "SinkContext",
    "SkippedVideosWarning",
    "SlotMemory",
    "Source",
    "StageError",
    "StreamIndex",
    "UniformClips",
    "UniformFrames",
    "VideoDataset",
    "VideoMetadata",
    "VideoReader",
    "WithSample",
    "camera_problems",
    "find_videos",
    "live",
    "load_clip",
    "open_decoder",
    "open_device_decoder",
    "open_index",
    "profile_loader",
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

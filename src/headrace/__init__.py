"""Video for PyTorch: the right frames, as fast as the hardware allows, and where the time went.

The layers, top to bottom; a file imports only from what stands above it (docs/design.md):

    errors -> units -> redaction -> video -> sampling -> planning -> runtime -> decode -> preprocess
    -> models -> cache -> profiling -> loaders -> extraction -> live -> sinks -> runs -> report
    -> instrumentation -> bench -> cli; testing may use them all

A public name is imported at its first use: `import headrace` loads neither torch nor FFmpeg.
`__init__.pyi` lists the public names, for type checkers and for this file.
"""

import sys
from importlib import import_module
from importlib.metadata import version as _version
from pathlib import Path as _Path
from types import ModuleType

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
# `from headrace import *` replaces no built-in: `open` is `headrace.open` only.
__all__ = sorted(_MODULES.keys() - {"open"})


class _Root(ModuleType):
    """Module that keeps its public names: an import of `headrace.live` does not replace `live`."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _MODULES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Root


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'headrace' has no attribute {name!r}")
    try:
        value = getattr(import_module(_MODULES[name]), name)
    except ImportError:
        import_module("headrace.extras").check_extra("run", f"headrace.{name}")
        raise
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*_MODULES, "__version__"]

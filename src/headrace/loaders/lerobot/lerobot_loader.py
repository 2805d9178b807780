"""LeRobotLoader: batches of a LeRobot dataset, with planned decoding of all cameras."""

import os
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.decode.protocol import OnError
from headrace.errors import ConfigError, SkippedVideosWarning
from headrace.loaders.augment import AugmentParams, FrameGeometry, FrameViews
from headrace.loaders.collate import stack_samples, transform_samples
from headrace.loaders.epochs import StepSamples
from headrace.loaders.frame_memory import view_as_format
from headrace.loaders.lerobot.dataset_folder import DatasetFolder
from headrace.loaders.lerobot.dataset_layout import DepthUnit
from headrace.loaders.lerobot.episode_windows import DeltaTimestamps, EpisodeWindows, video_files
from headrace.loaders.loader_options import PlannedOptions, takes
from headrace.loaders.planned_loader import PlannedLoader, SampledFrom
from headrace.loaders.video_set import VideoSet, frames_of_headrace
from headrace.runtime.buffer_pool import BatchBufferPool
from headrace.sampling.derived_samplers import WindowSampler
from headrace.sampling.frame_samplers import ShuffledFrames
from headrace.sampling.population import Population
from headrace.sampling.sampler import Sampler, SamplerContext, Shard, bind_sampler, check_kind
from headrace.units import check_integers, check_switches, one_of

_BATCHES: Final = 2
"""Batches whose memory is reused: the caller's and the next one."""
ImageTransforms = Callable[[torch.Tensor], torch.Tensor]
"""Function of one camera's frames of one item: float32 [3, H, W] in [0, 1], or [T, 3, H, W]; uint8
with `return_uint8`."""


@dataclass(frozen=True, kw_only=True)
class LeRobotOptions(PlannedOptions):
    """Options of a `LeRobotLoader`; options with LeRobot's names have LeRobot's meaning.

    Args:
        root: Folder of a LeRobot dataset, v2.0 to v3.0; or id of a repository ("lerobot/pusht") in
            the local cache of `huggingface_hub` or LeRobot. Nothing is downloaded.
        delta_timestamps: Feature → times in seconds relative to the item's time, multiples of the
            frame interval: `{"observation.image": [-0.1, 0.0], "action": [0.0, 0.1, 0.2]}`. Times
            outside of the episode get its first or last frame, marked in `<feature>_is_pad`.
        episodes: Numbers of the episodes to use; None: all.
        image_transforms: Function of the color frames of one camera of one item. Its random numbers
            depend on seed, epoch, position in the epoch and camera.
        tolerance_s: Upper bound of the difference between a frame's time and its row's, in seconds.
        return_uint8: Whether color frames are uint8 in [0, 255], as decoded. False: float32 in
            [0, 1], which takes the memory of two batches on top of the budget.
        sampling: Order of the items: a sampler of single frames. An item is a frame, an episode is
            a video. None: `ShuffledFrames()`. `SequentialFrames()` is the order of a DataLoader
            without shuffling; `UniformFrames(over=weights)` draws episodes by weight.
        drop_n_first_frames: Number of frames to drop at the start of each episode.
        drop_n_last_frames: Number of frames to drop at the end of each episode.
        size: (height, width) of all color frames; None: each camera's size. Depth frames keep their
            size.
        depth_output_unit: Unit of depth frames: "mm", whole millimeters, or "m". They are float32
            [1, H, W], or [T, 1, H, W], and are not passed to `image_transforms`.
        on_error: Policy for bad media. `skip` skips items with a frame off its timestamp or in a
            file that cannot be opened, counted in `items_skipped`; an item that cannot be decoded
            is replaced by another draw, which does not depend on timing, and listed in
            `quarantined`. `conceal` does the same, but delivers damaged frames as FFmpeg conceals
            them, unmarked, as LeRobot does. With either, ranks of torch.distributed compare their
            skipped items, so every rank must open its loader.
    """

    root: str | os.PathLike[str] = field(kw_only=False)
    delta_timestamps: DeltaTimestamps | None = None
    episodes: Sequence[int] | None = None
    image_transforms: ImageTransforms | None = None
    tolerance_s: float = 1e-4
    return_uint8: bool = False
    sampling: Sampler | None = None
    drop_n_first_frames: int = 0
    drop_n_last_frames: int = 0
    batch_size: int = 8
    size: tuple[int, int] | None = None
    depth_output_unit: DepthUnit = "mm"
    on_error: OnError = "raise"

    def check(self) -> None:
        """Check all values: ConfigError; BackendError if the decoder is missing."""
        super().check()
        check_switches(return_uint8=self.return_uint8)
        one_of(DepthUnit, depth_output_unit=self.depth_output_unit)
        check_integers(0, drop_n_first_frames=self.drop_n_first_frames)
        check_integers(0, drop_n_last_frames=self.drop_n_last_frames)
        if not (self.image_transforms is None or callable(self.image_transforms)):
            raise ConfigError(
                "image_transforms must be a function of frames, got "
                f"{type(self.image_transforms).__name__}"
            )
        if self.transform is not None or self.batch_transform is not None:
            raise ConfigError(
                "a LeRobotLoader has no transform and batch_transform; use image_transforms, a "
                "function of the frames of each camera"
            )
        if self.dtype != "uint8":
            raise ConfigError(
                f"frames of LeRobot are decoded to 8 bits, got dtype={self.dtype!r}; leave it out"
            )


class LeRobotLoader(PlannedLoader[dict[str, Any]]):
    """Batches of a LeRobot dataset, in place of `DataLoader(LeRobotDataset(...), ...)`.

        with LeRobotLoader("lerobot/pusht", delta_timestamps=deltas, batch_size=64) as loader:
            while loader.epoch < 10:
                for batch in loader:
                    loss, _ = policy.forward(batch)

    A batch is a dict with the keys, shapes and dtypes of LeRobot's batches: color frames of each
    camera, float32 [N, 3, H, W] or [N, T, 3, H, W] in [0, 1]; columns of the rows and their
    windows; `*_is_pad`, bool [N, T]; and `task`, a list of texts. Frames equal those of LeRobot's
    `pyav` backend, bit for bit. A GOP that items of many batches need is decoded once. Memory,
    threads, ranks and resuming are as for `FrameLoader`.

    Arguments are the fields of `LeRobotOptions`, including inherited ones; `help` lists them.

    Raises:
        ConfigError: an argument is out of range, `root` is not a dataset or lacks an episode, or
            files of a camera have different sizes and `size` is None.
        BackendError: pyarrow or the device is missing.
        OpenError, ScanError: a video cannot be read, and `on_error` is "raise".
    """

    _options: LeRobotOptions
    _NEEDED = "dataset, episodes, delta_timestamps, sampling and seed"
    _DATASETS = "LeRobotFrames"

    @takes(LeRobotOptions)
    def __init__(self, options: LeRobotOptions) -> None:
        """Read the tables, and open the index of every video. Decodes nothing."""
        super().__init__(options)

    @property
    def stats(self) -> Mapping[str, Mapping[str, NDArray[Any]]]:
        """Feature → statistic (`mean`, `std`, `min`, `max`, ...) → values.

        Statistics of depths are in `depth_output_unit`, if the dataset records their unit.
        """
        stats = dict(self._windows.folder.stats)
        for camera in self._windows.folder.cameras:
            if camera.depth is not None and camera.key in stats:
                stats[camera.key] = camera.depth.rescaled(
                    stats[camera.key], self._options.depth_output_unit
                )
        return stats

    @property
    def features(self) -> Mapping[str, Mapping[str, Any]]:
        """Feature → its `dtype`, `shape` and `names`."""
        return self._windows.folder.features

    @property
    def fps(self) -> float:
        """Frames per second."""
        return self._windows.folder.fps

    @property
    def episodes(self) -> tuple[int, ...]:
        """Numbers of the episodes."""
        return tuple(self._windows.folder.episodes.tolist())

    @property
    def items_skipped(self) -> int:
        """Number of skipped items: a file cannot be read, or a frame is off its timestamp."""
        return self._items_skipped

    def _open_set(self, shard: Shard) -> SampledFrom:
        options = self._options
        folder = DatasetFolder.open(options.root, options.episodes)
        videos = VideoSet.open(
            video_files(folder),
            skip_bad=options.skips_bad,
            index_store=options.index_store,
            rank=shard.rank,
            ranks=shard.ranks,
        )
        videos.check_fit(options.fit)
        self._windows = windows = EpisodeWindows.of(
            folder, videos, options.delta_timestamps, options.tolerance_s
        )
        self._rows = self._choose_rows()
        sampler = self._sample_windows(shard)
        self._formats = windows.formats(
            options.shape(options.size, "rgb"), options.held_layout, options.decoder()
        )
        # Filling large float batches in new memory takes twice as long.
        self._pools = [BatchBufferPool(_BATCHES) for _ in folder.cameras]
        sizes = [shape.size for shape in self._formats if shape.size is not None]
        return SampledFrom(
            videos=videos,
            sampler=sampler,
            gop_lengths=windows.gop_lengths(self._rows),
            skipped=videos.skipped,
            views=self._choose_views(sizes),
            size=max(sizes, key=prod),
        )

    def _choose_rows(self) -> NDArray[np.int64]:
        """Return the rows that are used as items, int64 [K], ascending."""
        options, windows = self._options, self._windows
        folder, (first, stop) = windows.folder, windows.bounds.T
        rows = np.arange(len(folder))
        rows = rows[
            (rows >= first + options.drop_n_first_frames)
            & (rows < stop - options.drop_n_last_frames)
        ]
        kept: NDArray[np.int64] = rows[~windows.is_off(rows)] if options.skips_bad else rows
        self._items_skipped = len(rows) - len(kept)
        if not len(kept):
            raise ConfigError(
                f"no item is left of {len(folder)} frames of {folder.root}: "
                f"{len(folder) - len(rows)} are dropped, and {len(rows)} have a frame off "
                "its timestamp, or in a file that cannot be read"
            )
        if self._items_skipped:
            warnings.warn(
                f"{self._items_skipped} of {len(rows)} items of {folder.root} are skipped: "
                "a frame is off its timestamp, or in a file that cannot be read; `skipped_videos` "
                "lists these files, headrace doctor all problems",
                SkippedVideosWarning,
                stacklevel=frames_of_headrace(),
            )
        return kept

    def _sample_windows(self, shard: Shard) -> WindowSampler:
        """Return the sampler of items: an item is a frame, an episode is a video."""
        options, windows, rows = self._options, self._windows, self._rows
        folder, counts = windows.folder, np.histogram(rows, windows.folder.row_start)[0]
        with_items = np.flatnonzero(counts)
        names = [f"episode {number} of {folder.root}" for number in folder.episodes[with_items]]
        sampler = ShuffledFrames() if options.sampling is None else options.sampling
        fix = "give one such as ShuffledFrames() or SequentialFrames()"
        check_kind(sampler, "single frames", taker="LeRobotLoader", instead=fix)
        if sampler.traits.needs_durations:
            raise ConfigError(f"items cannot be sampled over seconds, got {sampler}; {fix}")
        context = SamplerContext(
            videos=with_items,
            videos_given=len(folder.episodes),
            paths=tuple(names),
            seed=options.seed,
            batch_size=options.batch_size,
            ranks=shard.ranks,
        )
        return WindowSampler(
            sampler=bind_sampler(sampler, context),
            keys=Population.of([counts[[episode]] for episode in with_items], names=names),
            frames_of=lambda keys: windows.frames_of(rows[keys]),
            num_frames=windows.num_frames,
            checksum=zlib.crc32(rows.tobytes(), windows.checksum),
        )

    def _choose_views(self, sizes: Sequence[tuple[int, int]]) -> FrameViews | None:
        """Return views by camera, if cameras differ in format; None: all have the same format."""
        options, windows, layout = self._options, self._windows, self._options.held_layout
        if len({*self._formats}) == 1 and self._formats[0].layout == layout:
            return None
        if options.spill is not None or layout != "rgb":
            listed = ", ".join(f"{height}x{width}" for height, width in dict.fromkeys(sizes))
            raise ConfigError(
                f"cameras of {windows.folder.root} have depth frames or different sizes ({listed}),"
                " which spill and hold='yuv420' do not support; leave them out, or give a size"
            )
        geometries = [
            FrameGeometry.of(shape, size, AugmentParams())
            for shape, size in zip(self._formats, sizes, strict=True)
        ]
        return _CameraViews(
            videos=windows.videos, camera_of=windows.camera_of, geometries=geometries
        )

    def _batch(self, step: StepSamples) -> dict[str, Any]:
        options, windows = self._options, self._windows
        rows_at = self._epochs.order(step.requests.epoch).rows_at
        assert rows_at is not None
        rows = self._rows[rows_at(step.drawn)]
        windows.check(rows)
        self._count(step, step.frames.size)
        parts = zip(windows.by_camera(step.pixels), self._formats, strict=True)
        [camera_frames] = self._collate.to_frames([[view_as_format(*part) for part in parts]])
        batch = windows.items(
            rows,
            camera_frames,
            unit=options.depth_output_unit,
            as_float=not options.return_uint8,
            pools=self._pools,
        )
        transform, seeds = options.image_transforms, [*self._seeds(step.requests)]
        for position, camera in enumerate(windows.folder.cameras):
            if transform is not None and camera.depth is None:
                camera_seeds = [(seed + position) % 2**63 for seed in seeds]
                samples = transform_samples(
                    transform, batch[camera.key], [{}] * len(seeds), camera_seeds
                )
                batch[camera.key] = stack_samples(samples)
        return batch


@dataclass(frozen=True, kw_only=True, eq=False)
class _CameraViews(FrameViews):
    """Views with the format of their camera."""

    camera_of: NDArray[np.int64]
    """int64 [videos]: position of each video's camera."""
    geometries: Sequence[FrameGeometry]
    """One per camera."""

    def geometry(self, video: int, number: int) -> FrameGeometry:
        """Return the geometry of a video's frames."""
        return self.geometries[int(self.camera_of[video])]

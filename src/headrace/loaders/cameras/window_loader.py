"""CameraWindowLoader: batches of windows of camera clips, in any order, with planned decoding."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.cached_property import cached_property
from headrace.errors import ConfigError
from headrace.loaders.augment import AugmentParams, FrameGeometry, FrameViews
from headrace.loaders.cameras.camera_options import CameraWindowOptions, open_cameras
from headrace.loaders.cameras.camera_view import CameraViews
from headrace.loaders.cameras.window_plan import (
    CameraWindowBatch,
    WindowPlan,
    sample_by_class,
    sample_by_weight,
)
from headrace.loaders.epochs import StepSamples
from headrace.loaders.loader_options import takes
from headrace.loaders.planned_loader import PlannedLoader, SampledFrom
from headrace.loaders.resumable import LoaderStatistics
from headrace.sampling.derived_samplers import WindowSampler
from headrace.sampling.frame_samplers import ShuffledFrames
from headrace.sampling.moments import MISSING
from headrace.sampling.sampler import Sampler, SamplerContext, Shard, bind_sampler, check_kind


@dataclass(frozen=True, kw_only=True)
class CameraWindowStatistics(LoaderStatistics):
    """Counts of a `CameraWindowLoader`; `frames_delivered` excludes missing and lost frames."""

    frames_missing: int
    """Frames that a camera does not have; they are black."""
    frames_lost: int
    """Frames that could not be decoded; they are black, with `on_error="mask"`."""


_MAX_SHARED_FLIPS = 16
"""Max independently flipped cameras with which windows of equal flips share frames."""


@dataclass(frozen=True, kw_only=True, eq=False)
class WindowViews(FrameViews):
    """Views of the frames of windows: one view per camera, one augmentation per window.

    The number of a window encodes its augmentation: 0 without augmentation; one bit per camera if
    only flips differ; otherwise the window's position over all epochs.

    Frames wait in their final geometry, separately for each augmentation. Frames that wait as
    decoded would take four times the memory (1600x900 instead of 256x704): simulated with 1 GiB and
    windows of 8 moments of 6 cameras, 3.6 frames would be decoded per delivered frame instead of
    2.3.
    """

    views: CameraViews
    seed: int
    num_windows: int
    """Windows in an epoch."""

    @property
    def is_by_sample(self) -> bool:
        """Whether each window has its own geometry."""
        return self.views.augment is not None and not self._shares_flips

    @property
    def is_augmented(self) -> bool:
        """Whether windows are augmented."""
        return self.views.augment is not None

    def numbers(self, epoch: int, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return int64 [N]: number of each window; windows with equal numbers share frames."""
        if self.views.augment is None:
            return np.zeros(len(slots), np.int64)
        if self._shares_flips:
            flips = [
                sum(
                    self._draw(epoch, slot, camera).is_flipped << camera
                    for camera in range(self._num_draws)
                )
                for slot in slots.tolist()
            ]
            return np.array(flips, np.int64)
        return epoch * self.num_windows + slots

    def geometry(self, video: int, number: int) -> FrameGeometry:
        """Return the geometry of a camera's file, counted clip by clip, in windows of a number."""
        clip, camera = divmod(video, len(self.views.cameras.cameras))
        return self.views.geometry(clip, camera, self._params(number, camera))

    def matrices(self, clips: list[int], numbers: list[int]) -> NDArray[np.float64]:
        """Return `image_matrix` of windows, float64 [N, C, 3, 3], by their clips and numbers."""
        cameras = range(len(self.views.cameras.cameras))
        return np.array(
            [
                [self.geometry(clip * len(cameras) + camera, number).matrix for camera in cameras]
                for clip, number in zip(clips, numbers, strict=True)
            ]
        )

    @cached_property
    def _shares_flips(self) -> bool:
        augment = self.views.augment
        return augment is not None and augment.only_flips and self._num_draws <= _MAX_SHARED_FLIPS

    @property
    def _num_draws(self) -> int:
        """Independent draws per window: one per camera, or one for all cameras."""
        augment = self.views.augment
        return 1 if augment is None or augment.alike else len(self.views.cameras.cameras)

    def _draw(self, epoch: int, slot: int, camera: int) -> AugmentParams:
        assert self.views.augment is not None
        return self.views.augment.draw(seed=self.seed, epoch=epoch, of=slot, camera=camera)

    def _params(self, number: int, camera: int) -> AugmentParams | None:
        augment = self.views.augment
        if augment is None:
            return None
        if self._shares_flips:
            bit = camera if self._num_draws > 1 else 0
            return augment.fixed(is_flipped=bool(number >> bit & 1))
        return self._draw(*divmod(number, self.num_windows), camera)


class CameraWindowLoader(PlannedLoader[CameraWindowBatch]):
    """Batches of windows: T moments that end with a key moment, each seen by all cameras.

        with CameraWindowLoader(
            "index_frame.json", num_moments=8, moments=Moments.rate(2.0), size=(256, 704)
        ) as loader:
            for batch in loader:
                train(batch.frames)        # [N, T, C, 3, H, W]

    For models that use a clip's history, such as BEVFormer; in random order by default. Windows
    that need frames of the same GOP share one decode, for as many batches as fit into memory. They
    also share the decoded frames, unless `augment` draws a geometry per window: then each window
    has its own frames, and fewer batches fit. Batches are the same, bit for bit, with any memory
    budget, lookahead and number of threads. The windows of a step, over all ranks, are the same for
    any number of ranks.

    Threads start with the first batch, stay for the next epoch, and end with `close`, with the
    `with` block, or with the loader. Only one thread may use a loader at a time. A state may be
    loaded with another number of threads or ranks, budget, batch size and lookahead.

    Arguments are the fields of `CameraWindowOptions`, `PlannedOptions` and `LoaderOptions`; `help`
    lists them.

    Raises:
        ConfigError: an argument is out of range, the budget does not hold three batches, no window
            fits into a clip, output sizes of cameras differ, or ranks of torch.distributed skip
            different clips.
        BackendError: the device is not available.
        OpenError, ScanError, DecodeError: a camera cannot be read or aligned.
    """

    _options: CameraWindowOptions
    _NEEDED = "clips and cameras in the same order, alignment, windows, sampling and seed"
    _DATASETS = "a CameraStreamDataset"

    @takes(CameraWindowOptions)
    def __init__(self, options: CameraWindowOptions) -> None:
        """Open the index of every camera, in 1 ms if it was scanned before. Decodes nothing."""
        self._missing = self._lost = 0
        super().__init__(options)

    @property
    def cameras(self) -> tuple[str, ...]:
        """Names of the cameras, in the order of a batch."""
        return self._plan.cameras.cameras

    @property
    def num_windows(self) -> int:
        """Number of windows to draw from."""
        return len(self._plan)

    @property
    def statistics(self) -> CameraWindowStatistics:
        """Counts so far."""
        return CameraWindowStatistics(
            **vars(super().statistics), frames_missing=self._missing, frames_lost=self._lost
        )

    def _open_set(self, shard: Shard) -> SampledFrom:
        options = self._options
        cameras = open_cameras(options, shard)
        self._plan = plan = WindowPlan.of(cameras, options)
        sampler = WindowSampler(
            sampler=_choose_sampler(options, plan, shard),
            keys=plan.keys,
            frames_of=plan.frames_of,
            num_frames=plan.num_frames,
            checksum=plan.checksum,
        )
        needs_size = options.size is None and options.view is None
        self._views = WindowViews(
            videos=cameras.videos,
            views=CameraViews.of(
                cameras,
                size=cameras.videos.common_size() if needs_size else options.size,
                fit=options.fit,
                interpolation=options.interpolation,
                view=options.view,
                augment=options.augment,
                layout=options.held_layout,
            ),
            seed=sampler.traits.seed_or(options.seed or 0),
            num_windows=len(sampler.order(plan.keys, 0)),  # equal in all epochs
        )
        return SampledFrom(
            videos=cameras.videos,
            sampler=sampler,
            gop_lengths=plan.gop_lengths(),
            skipped=cameras.skipped,
            views=self._views if options.has_views else None,
            size=self._views.views.common_size(fix="") if options.has_views else None,
        )

    def _batch(self, step: StepSamples) -> CameraWindowBatch:
        plan, rows_at = self._plan, self._epochs.order(step.requests.epoch).rows_at
        assert rows_at is not None
        keys = rows_at(step.drawn)
        is_missing = plan.cameras.frame[plan.rows[keys]] == MISSING
        pixels = step.pixels.reshape(*is_missing.shape, *step.pixels.shape[-3:])
        for position in np.argwhere(is_missing).tolist():
            pixels[tuple(position)] = 0
        is_lost = step.is_lost.reshape(is_missing.shape) & ~is_missing
        missing, lost = int(is_missing.sum()), int(is_lost.sum())
        self._missing += missing
        self._lost += lost
        self._count(step, is_missing.size - missing - lost)
        numbers = self._views.numbers(step.requests.epoch, step.requests.slots)
        batch = CameraWindowBatch.of(
            plan,
            keys,
            self._collate.to_frames(pixels),
            is_concealed=step.is_concealed.reshape(is_missing.shape),
            is_lost=is_lost,
            is_repeated=step.requests.is_repeated,
            matrices=self._views.matrices(plan.clip[keys].tolist(), numbers.tolist()),
            metadata=self._options.metadata,
        )
        return self._collate.apply_transforms(batch, self._seeds(step.requests))


def _choose_sampler(options: CameraWindowOptions, plan: WindowPlan, shard: Shard) -> Sampler:
    """Return the sampler of key moments."""
    clips = plan.cameras.clips
    context = SamplerContext(
        videos=np.array([clips[clip].number for clip in plan.key_clips.tolist()], np.int64),
        videos_given=len(clips) + len(plan.cameras.skipped),
        paths=tuple(plan.keys.name(video) for video in range(plan.keys.num_videos)),
        seed=options.seed,
        batch_size=options.batch_size,
        ranks=shard.ranks,
    )
    if options.weights is not None:
        sampler: Sampler = sample_by_weight(plan, options.weights, options.seed or 0)
    elif options.class_balance is not None:
        sampler = sample_by_class(plan, options.class_balance, options.seed or 0)
    else:
        sampler = ShuffledFrames() if options.sampling is None else options.sampling
    fix = "give one such as ShuffledFrames() or UniformFrames(over='videos')"
    check_kind(sampler, "single frames", taker="CameraWindowLoader", instead=fix)
    if sampler.traits.needs_durations:
        raise ConfigError(f"windows cannot be sampled over seconds, got {sampler}; {fix}")
    return bind_sampler(sampler, context)

"""CameraWindowLoader: batches of windows of camera clips, in any order, decoded by a plan."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.loaders.cameras.augment import AugmentParams, Framing
from headrace.loaders.cameras.camera_options import layout_for
from headrace.loaders.cameras.camera_set import CameraSet
from headrace.loaders.cameras.camera_view import CameraViews
from headrace.loaders.cameras.window_batch import CameraWindowBatch
from headrace.loaders.cameras.window_options import CameraWindowOptions
from headrace.loaders.cameras.window_plan import MomentRows, WindowPlan
from headrace.loaders.cameras.window_weights import by_class, by_weight
from headrace.loaders.decode_engine import StepSamples
from headrace.loaders.loader_options import takes
from headrace.loaders.loader_statistics import LoaderStatistics
from headrace.loaders.planned_loader import PlannedLoader, SampledFrom
from headrace.sampling.epoch_order import Shard
from headrace.sampling.frame_samplers import ShuffledFrames
from headrace.sampling.moment_windows import MISSING, WindowSampler
from headrace.sampling.sampler import Sampler, SamplerContext, bind_sampler, check_kind


@dataclass(frozen=True, kw_only=True)
class CameraWindowStatistics(LoaderStatistics):
    """What a loader of camera windows did; `frames_delivered` has neither of the two below."""

    frames_missing: int
    """Pictures that a camera has no frame for: black."""
    frames_lost: int
    """Pictures that could not be decoded: black, with `on_error="mask"`."""


_MOST_FLIPS = 16
"""Cameras that flip each by itself, at most, for windows to share pictures."""
_MADE = 4096
"""Framings that are kept, at some 500 bytes."""


@dataclass(frozen=True, kw_only=True, eq=False)
class WindowFramings:
    """Views of each camera, and chance drawn once for each window; a `Framings`.

    The number of a window says what chance made of it: where it stands among the windows of all
    epochs; where chance does nothing but flip, which cameras are flipped; and 0 without chance.

    Pictures wait as they are delivered, each window's by itself, not as they were decoded, for all:
    frames of 1600x900 take four times the memory of 256x704. Rehearsed for 1 GiB and windows of 8
    moments of 6 cameras, 2.3 frames are decoded for each that is delivered, and it would be 3.6.
    """

    views: CameraViews
    seed: int
    windows: int
    """Of an epoch."""

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) of all pictures.

        Raises:
            ConfigError: they differ.
        """
        return self.views.common_size(instead="")

    @property
    def is_by_sample(self) -> bool:
        """Whether each window shows frames in its own way."""
        return self.views.augment is not None and not self._shares_flips

    def numbers(self, epoch: int, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of each window, int64 [N]: windows of one show a frame alike."""
        if self.views.augment is None:
            return np.zeros(len(slots), np.int64)
        if self._shares_flips:
            return np.array([self._flips(epoch, slot) for slot in slots.tolist()], np.int64)
        return epoch * self.windows + slots

    def framing(self, video: int, number: int) -> Framing:
        """Return how frames of a video, of all cameras clip by clip, are framed in a window."""
        return self._kept(video, number)

    def matrices(self, clips: Sequence[int], numbers: Sequence[int]) -> NDArray[np.float64]:
        """Return float64 [N, C, 3, 3], `image_matrix` of windows of clips in the set."""
        cameras = len(self._cameras)
        return np.array(
            [
                [self.framing(clip * cameras + each, number).matrix for each in range(cameras)]
                for clip, number in zip(clips, numbers, strict=True)
            ]
        )

    @property
    def _cameras(self) -> tuple[str, ...]:
        return self.views.cameras.cameras

    @cached_property
    def _shares_flips(self) -> bool:
        augment = self.views.augment
        return augment is not None and augment.only_flips and self._drawn_apart <= _MOST_FLIPS

    @property
    def _drawn_apart(self) -> int:
        """How many cameras are drawn each by itself."""
        return 1 if self.views.augment is None or self.views.augment.alike else len(self._cameras)

    def _flips(self, epoch: int, slot: int) -> int:
        """Return a bit for each camera that is drawn by itself: whether it is flipped."""
        drawn = (self._draw(epoch, slot, camera) for camera in range(self._drawn_apart))
        return sum(each.is_flipped << camera for camera, each in enumerate(drawn))

    def _draw(self, epoch: int, slot: int, camera: int) -> AugmentParams:
        assert self.views.augment is not None
        return self.views.augment.draw(seed=self.seed, epoch=epoch, of=slot, camera=camera)

    @cached_property
    def _kept(self) -> Callable[[int, int], Framing]:
        return lru_cache(maxsize=_MADE)(self._made)

    def _made(self, video: int, number: int) -> Framing:
        clip, camera = divmod(video, len(self._cameras))
        return self.views.framed(clip, camera, self._drawn(number, camera))

    def _drawn(self, number: int, camera: int) -> AugmentParams:
        augment = self.views.augment
        if augment is None:
            return AugmentParams()
        if self._shares_flips:
            place = camera if self._drawn_apart > 1 else 0
            return augment.fixed(is_flipped=bool(number >> place & 1))
        return self._draw(*divmod(number, self.windows), camera)


class CameraWindowLoader(PlannedLoader[CameraWindowBatch]):
    """Batches of windows: T moments up to a key moment, each seen by all cameras.

        with CameraWindowLoader(
            "index_frame.json", num_moments=8, moments=Moments.rate(2.0), size=(256, 704)
        ) as loader:
            for batch in loader:
                train(batch.frames)        # [N, T, C, 3, H, W]

    For models that are shown a clip's history, such as BEVFormer, in random order. Windows that
    overlap, and all others that need frames of the same GOP, share one decoding, for as many
    batches as fit the memory. They share the pictures too, but where `augment` draws something else
    for each: then each picture waits by itself, and fewer batches fit. Batches are the same, bit
    for bit, with any memory budget, look-ahead and number of workers. Steps are dealt to ranks so
    that all ranks together deliver the same in a step, whatever their number.

    Threads start with the first batch, stay for the next epoch, and end with `close`, with the
    `with` block, or with the loader. One thread may use a loader at a time. A state may be loaded
    with another number of workers or ranks, another budget, batch size and look-ahead.

    Arguments are the fields of `CameraWindowOptions`, which stands on `PlannedOptions` and
    `LoaderOptions`; `help` tells them one by one.

    Raises:
        ConfigError: an argument is out of range, the budget does not hold three batches, no window
            fits into a clip, or pictures of cameras come to have different sizes; or ranks under
            torch.distributed leave out different clips.
        BackendError: the device is not here.
        OpenError, ScanError, DecodeError: a camera cannot be read or aligned.
    """

    _NEEDED = "clips and cameras in the same order, alignment, windows, sampling and seed"
    _DATASETS = "a CameraStreamDataset"

    @takes(CameraWindowOptions)
    def __init__(self, asked: CameraWindowOptions) -> None:
        """Open the index of every camera; 1 ms for one that was seen before. Decodes nothing."""
        self._metadata, self._missing, self._lost = asked.metadata, 0, 0
        super().__init__(asked, lambda shard: self._opened(asked, shard))

    @property
    def cameras(self) -> tuple[str, ...]:
        """Their names, in the order of a batch."""
        return self._plan.table.cameras.cameras

    @property
    def num_windows(self) -> int:
        """Windows there are to draw from."""
        return len(self._plan)

    @property
    def statistics(self) -> CameraWindowStatistics:
        """What the loader did so far."""
        return CameraWindowStatistics(
            **vars(super().statistics), frames_missing=self._missing, frames_lost=self._lost
        )

    def _opened(self, asked: CameraWindowOptions, shard: Shard) -> SampledFrom:
        cameras = CameraSet.open(
            layout_for(asked.layout, asked.cameras),
            asked.alignment,
            moments=asked.moments,
            skip_bad=asked.skips_bad,
            index_store=asked.index_store,
            rank=shard.rank,
            ranks=shard.ranks,
        )
        self._plan = plan = WindowPlan.of(MomentRows.of(cameras), asked.shape_of_windows())
        sampler = WindowSampler(
            sampler=_sampler(asked, plan, shard),
            keys=plan.keys,
            rows=plan.rows,
            frames=plan.table.frame_id,
        )
        # Of which epoch does not matter: all are of one length.
        self._shown = shown = WindowFramings(
            views=_views(asked, plan),
            seed=sampler.traits.seed_or(asked.seed or 0),
            windows=len(sampler.order(plan.keys, 0)),
        )
        return SampledFrom(
            videos=plan.table.videos,
            sampler=sampler,
            gop_lengths=plan.gop_lengths(),
            skipped=cameras.skipped,
            framings=shown if asked.has_framings else None,
        )

    def _batch(self, step: StepSamples[Any]) -> CameraWindowBatch:
        plan, keys_at = self._plan, self._epochs.order(step.step.epoch).rows_at
        assert keys_at is not None
        keys = keys_at(step.drawn)
        is_missing = plan.table.frame[plan.rows[keys]] == MISSING
        pixels = step.pixels.reshape(*is_missing.shape, *step.pixels.shape[-3:])
        for place in np.argwhere(is_missing).tolist():
            pixels[tuple(place)] = 0
        is_lost = step.is_lost.reshape(is_missing.shape) & ~is_missing
        missing, lost = int(is_missing.sum()), int(is_lost.sum())
        self._missing += missing
        self._lost += lost
        self._count(step, is_missing.size - missing - lost)
        shown = self._shown.numbers(step.step.epoch, step.step.slots)
        batch = CameraWindowBatch.of(
            plan,
            keys,
            self._collate.pictures(pixels),
            is_concealed=step.is_concealed.reshape(is_missing.shape),
            is_lost=is_lost,
            is_repeated=step.step.is_repeated,
            matrices=self._shown.matrices(plan.clip[keys].tolist(), shown.tolist()),
            metadata=self._metadata,
        )
        return self._collate.transformed(batch, lambda: self._seeds(step.step))


def _views(asked: CameraWindowOptions, plan: WindowPlan) -> CameraViews:
    """Return what becomes of the pictures of each camera."""
    size = asked.size
    if size is None and asked.view is None:
        size = plan.table.videos.common_size()
    return CameraViews.of(
        plan.table.cameras,
        size=size,
        fit=asked.fit,
        interpolation=asked.interpolation,
        view=asked.view,
        augment=asked.augment,
        layout=asked.hold,
    )


def _sampler(asked: CameraWindowOptions, plan: WindowPlan, shard: Shard) -> Sampler:
    """Return what chooses key moments."""
    clips = plan.table.cameras.clips
    use = SamplerContext(
        videos=np.array([clips[each].number for each in plan.key_clips.tolist()], np.int64),
        videos_given=len(clips) + len(plan.table.cameras.skipped),
        paths=tuple(plan.keys.name(each) for each in range(plan.keys.num_videos)),
        seed=asked.seed,
        batch_size=asked.batch_size,
        ranks=shard.ranks,
    )
    if asked.weights is not None:
        chosen: Sampler = by_weight(plan, asked.weights, asked.seed or 0)
    elif asked.class_balance is not None:
        chosen = by_class(plan, asked.class_balance, asked.seed or 0)
    else:
        chosen = ShuffledFrames() if asked.sampling is None else asked.sampling
    instead = "give one such as ShuffledFrames() or UniformFrames(over='videos')"
    check_kind(chosen, "single frames", taker="CameraWindowLoader", instead=instead)
    if chosen.traits.needs_durations:
        raise ConfigError(
            f"windows cannot be sampled over seconds, got {chosen.traits.identity}; {instead}"
        )
    return bind_sampler(chosen, use)

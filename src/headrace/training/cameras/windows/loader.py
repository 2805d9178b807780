"""CameraWindowLoader: batches of windows of camera clips, in any order, decoded by a plan."""

from typing import Any

import numpy as np

from headrace.errors import ConfigError
from headrace.sampling.alignment import MISSING
from headrace.sampling.frames import Permutation
from headrace.sampling.sampler import Sampler, SamplerUse, adapted, check_kind
from headrace.sampling.shards import Shard
from headrace.sampling.windows import WindowSampler
from headrace.training.arguments import takes
from headrace.training.cameras.camera_set import CameraSet
from headrace.training.cameras.options import layout_for
from headrace.training.cameras.views import CameraViews
from headrace.training.cameras.windows.batch import CameraWindowBatch
from headrace.training.cameras.windows.framings import WindowFramings
from headrace.training.cameras.windows.moments import MomentRows
from headrace.training.cameras.windows.options import CameraWindowOptions
from headrace.training.cameras.windows.plan import WindowPlan
from headrace.training.cameras.windows.statistics import CameraWindowStatistics
from headrace.training.cameras.windows.weights import by_class, by_weight
from headrace.training.engine import Samples
from headrace.training.planned import PlannedLoader, SampledFrom


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
        self._open_planned(asked, lambda shard: self._opened(asked, shard))

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
            store=asked.store,
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
            left_out=cameras.left_out,
            framings=shown if asked.has_framings else None,
        )

    def _batch(self, step: Samples[Any]) -> CameraWindowBatch:
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
    use = SamplerUse(
        videos=np.array([clips[each].number for each in plan.key_clips.tolist()], np.int64),
        videos_given=len(clips) + len(plan.table.cameras.left_out),
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
        chosen = Permutation() if asked.sampling is None else asked.sampling
    instead = "give one such as Permutation() or Uniform(over='videos')"
    check_kind(chosen, "single frames", taker="CameraWindowLoader", instead=instead)
    if chosen.traits.needs_durations:
        raise ConfigError(
            f"windows cannot be sampled over seconds, got {chosen.traits.identity}; {instead}"
        )
    return adapted(chosen, use)

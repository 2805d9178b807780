"""Stages of a live run: preprocess, transfer, model, show; one thread each."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from headrace.live.clip_windows import ClipWindow
from headrace.live.drop_policy import STALE, AgeLimit, FairAdmission, StaleFilter
from headrace.live.live_source import LiveFrame
from headrace.runs.live.live_batches import (
    ModelOutputs,
    ModelRunner,
    PreparedViews,
    ViewBatch,
    split_outputs,
)
from headrace.runs.run_stages import CLIPS, PREPROCESS, Transfer
from headrace.runtime.grouping import SlidingWindows
from headrace.runtime.item import DroppedItem
from headrace.runtime.stage import Aggregate, AnyStage, Stage
from headrace.runtime.stage_executor import OVERFLOW
from headrace.runtime.synchronization import CapacityLimiter

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, eq=False)
class StageFactory:
    """Factory of the stages of one live run."""

    model_runner: ModelRunner
    limit: AgeLimit
    in_flight: CapacityLimiter | None
    """Permits of batches between the first stage and the results; None: no limit."""
    batch_size: int
    """Max frames of a batch."""
    clips: ClipWindow | None
    """None: the model takes single frames."""
    waits: bool
    """Whether a batch waits until it is full; else it takes the available frames."""
    transfer: Transfer | None
    """Copy of batches to the model's device; None: they are already there."""
    show: Callable[[ModelOutputs], object] | None
    """Passes results to the sinks; None: no sinks."""

    def stages(self) -> list[AnyStage[Any, Any]]:
        """Return the stages in order; stale items are dropped before each.

        The preprocessing thread also groups frames into batches: a separate thread would cost each
        frame a queue transfer. Clips have a separate thread, which takes frames while a clip is
        preprocessed.
        """
        stages: list[AnyStage[Any, Any]] = []
        if self.clips is None:
            stages.append(self._batch_stage())
        else:
            stages.append(self._clip_stage(self.clips))
            stages.append(Stage(name=PREPROCESS, function=self._if_fresh(self._prepare)))
        transfer, show = self.transfer, self.show
        if transfer is not None:

            def move(views: PreparedViews) -> PreparedViews:
                return PreparedViews(batch=views.batch, tensor=transfer.carry(views.tensor))

            stages.append(Stage(name="transfer", function=self._if_fresh(move)))
        stages.append(Stage(name="model", function=_Inference(self.model_runner, self.limit)))
        if show is not None:

            def pass_on(outputs: ModelOutputs) -> ModelOutputs:
                show(outputs)
                return outputs

            stages.append(Stage(name="show", function=self._if_fresh(pass_on)))
        return stages

    def _batch_stage(self) -> Aggregate[LiveFrame, PreparedViews]:
        def grouping() -> StaleFilter:
            windows: SlidingWindows[LiveFrame] = SlidingWindows(
                length=self.batch_size, key=lambda item: item.value.pixels.shape
            )
            return StaleFilter(windows, self.limit)

        def prepare(frames: list[LiveFrame]) -> PreparedViews:
            return self._prepare(ViewBatch(views=tuple((f,) for f in frames), is_clips=False))

        return Aggregate(
            name=PREPROCESS,
            grouping=grouping,
            function=prepare,
            waits=self.waits,
            drops_freely=True,
            limiter=self.in_flight,
        )

    def _clip_stage(self, window: ClipWindow) -> Aggregate[LiveFrame, ViewBatch]:
        in_flight, admission = self.in_flight, FairAdmission()

        def admit(frames: list[LiveFrame]) -> ViewBatch | DroppedItem:
            clip = ViewBatch(views=(tuple(frames),), is_clips=True)
            if self.limit.is_over(clip.shown_ns):
                return DroppedItem(STALE)
            # Never wait here: an overflow of frames before this stage would break every clip.
            if in_flight is not None and not admission.admits(
                frames[-1].source, lambda: in_flight.acquire_nowait(1)
            ):
                return DroppedItem(OVERFLOW)
            return clip

        return Aggregate(name=CLIPS, grouping=window.windows, function=admit, drops_freely=True)

    def _if_fresh(self, function: Callable[[Any], T]) -> Callable[[Any], T | DroppedItem]:
        def check(item: ViewBatch | PreparedViews | ModelOutputs) -> T | DroppedItem:
            batch = item if isinstance(item, ViewBatch) else item.batch
            return DroppedItem(STALE) if self.limit.is_over(batch.shown_ns) else function(item)

        return check

    def _prepare(self, batch: ViewBatch) -> PreparedViews:
        return PreparedViews(batch=batch, tensor=self.model_runner.prepare(batch.pixels()))


class _Inference:
    """Model call; skips batches that would be stale when it ends."""

    def __init__(self, model_runner: ModelRunner, limit: AgeLimit) -> None:
        self._model_runner = model_runner
        self._limit = limit
        self._last_seconds = 0.0

    def __call__(self, views: PreparedViews) -> ModelOutputs | DroppedItem:
        batch, clock = views.batch, self._limit.clock
        if self._limit.is_over(batch.shown_ns, self._last_seconds):
            return DroppedItem(STALE)
        start_ns = clock.now_ns()
        outputs = split_outputs(self._model_runner.run(views.tensor), len(batch.views))
        self._last_seconds = (clock.now_ns() - start_ns) / 1e9
        return ModelOutputs(batch=batch, outputs=outputs)

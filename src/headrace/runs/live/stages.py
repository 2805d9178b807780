"""The stages of a live run: preprocess, transfer, model, show; each in its own thread."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from headrace.live.clip_windows import ClipWindow
from headrace.live.drop_policy import STALE, AgeLimit, FairAdmission, StaleFilter
from headrace.live.source import LiveFrame
from headrace.runs.live.live_batches import (
    Gathered,
    ModelOutputs,
    ModelRunner,
    PreparedViews,
    answers_of,
)
from headrace.runs.stages import CLIPS, PREPROCESS, Transfer
from headrace.runtime.grouping import SlidingWindows
from headrace.runtime.item import DroppedItem
from headrace.runtime.stage import Aggregate, AnyStage, Stage
from headrace.runtime.stage_executor import OVERFLOW
from headrace.runtime.synchronization import CapacityLimiter

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, eq=False)
class StageFactory:
    """What the stages are made of."""

    engine: ModelRunner
    limit: AgeLimit
    room: CapacityLimiter | None
    """Places of what is on its way behind the first stage; None: no limit."""
    batch_size: int
    """Frames that go together at most."""
    clips: ClipWindow | None
    """None: the model takes single frames."""
    waits: bool
    """Whether a batch waits until it is full; else it is what came meanwhile."""
    carrier: Transfer | None
    """What takes batches to the device; None where they lie there already."""
    show: Callable[[ModelOutputs], object] | None
    """Hands results to the sinks, if there are any."""

    def stages(self) -> list[AnyStage[Any, Any]]:
        """Return them in the order frames take; what is too old ends at the border of each.

        Batches are gathered by the thread that preprocesses them: another would cost each frame a
        hand-over more. Clips are not, as their frames must be taken while one is preprocessed.
        """
        prepare = Stage(name=PREPROCESS, function=self._fresh(_shown_of, self._prepare))
        return [
            *([self._batches()] if self.clips is None else [self._clips(self.clips), prepare]),
            *([Stage(name="transfer", function=self._carrying())] if self.carrier else []),
            Stage(name="model", function=_Inference(self.engine, self.limit)),
            *([Stage(name="show", function=self._showing())] if self.show else []),
        ]

    def _batches(self) -> Aggregate[LiveFrame, PreparedViews]:
        def grouping() -> StaleFilter:
            windows: SlidingWindows[LiveFrame] = SlidingWindows(
                length=self.batch_size, key=lambda item: item.value.pixels.shape
            )
            return StaleFilter(windows, self.limit)

        def prepared(frames: list[LiveFrame]) -> PreparedViews:
            return self._prepare(Gathered(views=tuple((f,) for f in frames), is_clips=False))

        return Aggregate(
            name=PREPROCESS,
            grouping=grouping,
            function=prepared,
            waits=self.waits,
            drops_freely=True,
            limiter=self.room,
        )

    def _clips(self, shape: ClipWindow) -> Aggregate[LiveFrame, Gathered]:
        room, turns = self.room, FairAdmission()

        def admitted(frames: list[LiveFrame]) -> Gathered | DroppedItem:
            clip = Gathered(views=(tuple(frames),), is_clips=True)
            if self.limit.is_over(clip.shown_ns):
                return DroppedItem(STALE)
            # Never a wait here: frames that overflow before it would tear every clip apart.
            if room is not None and not turns.admits(
                frames[-1].source, lambda: room.acquire_nowait(1)
            ):
                return DroppedItem(OVERFLOW)
            return clip

        return Aggregate(name=CLIPS, grouping=shape.windows, function=admitted, drops_freely=True)

    def _fresh(
        self, shown_ns: Callable[[Any], int], function: Callable[[Any], T]
    ) -> Callable[[Any], T | DroppedItem]:
        def checked(value: Any) -> T | DroppedItem:
            if self.limit.is_over(shown_ns(value)):
                return DroppedItem(STALE)
            return function(value)

        return checked

    def _prepare(self, gathered: Gathered) -> PreparedViews:
        return PreparedViews(gathered=gathered, tensor=self.engine.prepare(gathered.pixels()))

    def _carrying(self) -> Callable[[PreparedViews], PreparedViews | DroppedItem]:
        carrier = self.carrier
        assert carrier is not None

        def carry(prepared: PreparedViews) -> PreparedViews:
            return PreparedViews(gathered=prepared.gathered, tensor=carrier.carry(prepared.tensor))

        return self._fresh(_shown_in, carry)

    def _showing(self) -> Callable[[ModelOutputs], ModelOutputs | DroppedItem]:
        show = self.show
        assert show is not None

        def pass_on(answered: ModelOutputs) -> ModelOutputs:
            show(answered)
            return answered

        return self._fresh(_shown_in, pass_on)


class _Inference:
    """The model; what would be too old when it is done is not begun."""

    def __init__(self, engine: ModelRunner, limit: AgeLimit) -> None:
        self._engine = engine
        self._limit = limit
        self._last_seconds = 0.0

    def __call__(self, prepared: PreparedViews) -> ModelOutputs | DroppedItem:
        gathered, clock = prepared.gathered, self._limit.clock
        if self._limit.is_over(gathered.shown_ns, self._last_seconds):
            return DroppedItem(STALE)
        began_ns = clock.now_ns()
        outputs = answers_of(self._engine.run(prepared.tensor), len(gathered.views))
        self._last_seconds = (clock.now_ns() - began_ns) / 1e9
        return ModelOutputs(gathered=gathered, outputs=outputs)


def _shown_of(gathered: Gathered) -> int:
    return gathered.shown_ns


def _shown_in(value: PreparedViews | ModelOutputs) -> int:
    return value.gathered.shown_ns

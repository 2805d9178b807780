"""The stages of a live run: preprocess, transfer, model, show; each in its own thread."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from headrace.live.clips import ClipShape
from headrace.live.frame import LiveFrame
from headrace.live.overload import STALE, AgeLimit, FreshOnly, Turns
from headrace.runs.live.live_batches import Answered, Engine, Gathered, Prepared, answers_of
from headrace.runs.stages import CLIPS, PREPROCESS, Carrier
from headrace.runtime.desk import OVERFLOW
from headrace.runtime.grouping import Windows
from headrace.runtime.item import Dropped
from headrace.runtime.room import Room
from headrace.runtime.stage import AnyStage, Gather, Stage

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, eq=False)
class Line:
    """What the stages are made of."""

    engine: Engine
    limit: AgeLimit
    room: Room | None
    """Places of what is on its way behind the first stage; None: no limit."""
    batch_size: int
    """Frames that go together at most."""
    clips: ClipShape | None
    """None: the model takes single frames."""
    waits: bool
    """Whether a batch waits until it is full; else it is what came meanwhile."""
    carrier: Carrier | None
    """What takes batches to the device; None where they lie there already."""
    show: Callable[[Answered], object] | None
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

    def _batches(self) -> Gather[LiveFrame, Prepared]:
        def grouping() -> FreshOnly:
            windows: Windows[LiveFrame] = Windows(
                length=self.batch_size, key=lambda item: item.value.pixels.shape
            )
            return FreshOnly(windows, self.limit)

        def prepared(frames: list[LiveFrame]) -> Prepared:
            return self._prepare(Gathered(views=tuple((f,) for f in frames), is_clips=False))

        return Gather(
            name=PREPROCESS,
            grouping=grouping,
            function=prepared,
            waits=self.waits,
            sheds=True,
            room=self.room,
        )

    def _clips(self, shape: ClipShape) -> Gather[LiveFrame, Gathered]:
        room, turns = self.room, Turns()

        def admitted(frames: list[LiveFrame]) -> Gathered | Dropped:
            clip = Gathered(views=(tuple(frames),), is_clips=True)
            if self.limit.is_over(clip.shown_ns):
                return Dropped(STALE)
            # Never a wait here: frames that overflow before it would tear every clip apart.
            if room is not None and not turns.admits(
                frames[-1].source, lambda: room.take_at_once(1)
            ):
                return Dropped(OVERFLOW)
            return clip

        return Gather(name=CLIPS, grouping=shape.windows, function=admitted, sheds=True)

    def _fresh(
        self, shown_ns: Callable[[Any], int], function: Callable[[Any], T]
    ) -> Callable[[Any], T | Dropped]:
        def checked(value: Any) -> T | Dropped:
            if self.limit.is_over(shown_ns(value)):
                return Dropped(STALE)
            return function(value)

        return checked

    def _prepare(self, gathered: Gathered) -> Prepared:
        return Prepared(gathered=gathered, tensor=self.engine.prepare(gathered.pixels()))

    def _carrying(self) -> Callable[[Prepared], Prepared | Dropped]:
        carrier = self.carrier
        assert carrier is not None

        def carry(prepared: Prepared) -> Prepared:
            return Prepared(gathered=prepared.gathered, tensor=carrier.carry(prepared.tensor))

        return self._fresh(_shown_in, carry)

    def _showing(self) -> Callable[[Answered], Answered | Dropped]:
        show = self.show
        assert show is not None

        def pass_on(answered: Answered) -> Answered:
            show(answered)
            return answered

        return self._fresh(_shown_in, pass_on)


class _Inference:
    """The model; what would be too old when it is done is not begun."""

    def __init__(self, engine: Engine, limit: AgeLimit) -> None:
        self._engine = engine
        self._limit = limit
        self._last_seconds = 0.0

    def __call__(self, prepared: Prepared) -> Answered | Dropped:
        gathered, clock = prepared.gathered, self._limit.clock
        if self._limit.is_over(gathered.shown_ns, self._last_seconds):
            return Dropped(STALE)
        began_ns = clock.now_ns()
        outputs = answers_of(self._engine.run(prepared.tensor), len(gathered.views))
        self._last_seconds = (clock.now_ns() - began_ns) / 1e9
        return Answered(gathered=gathered, outputs=outputs)


def _shown_of(gathered: Gathered) -> int:
    return gathered.shown_ns


def _shown_in(value: Prepared | Answered) -> int:
    return value.gathered.shown_ns

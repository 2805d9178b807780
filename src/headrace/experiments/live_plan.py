"""The flow of a live run, as experiments run it: their model, their load, results shown."""

from collections.abc import Sequence

from headrace.experiments.overlap_work import Show, Work
from headrace.live.overload import Overload, OverloadName
from headrace.live.source import LiveSource
from headrace.runs.live.engine import Engine
from headrace.runs.live.flow import LivePlan
from headrace.runs.live.values import Answered


def live_plan(
    work: Work,
    sources: Sequence[LiveSource],
    *,
    overload: OverloadName,
    batch_size: int,
    seconds: float,
) -> LivePlan:
    """Return a flow over `sources` for so long; every result is drawn and encoded.

    Args:
        work: The stages behind the decoder.
        sources: Of one base: all paced, or all at full speed.
        overload: What is done when frames are too many.
        batch_size: Frames in a batch; at most, where they are paced.
        seconds: When reading stops.
    """
    show = Show()

    def showing(answered: Answered) -> None:
        for (frame,), labels in zip(answered.gathered.views, answered.outputs, strict=True):
            show(frame.pixels, labels, frame.number)

    return LivePlan(
        sources=sources,
        engine=Engine(prepare=work.prepare, run=work.infer, device=work.device),
        overload=Overload.chosen(overload, is_live=sources[0].base != "full_speed"),
        batch_size=batch_size,
        max_seconds=seconds,
        carrier=work.carrier,
        show=showing,
    )

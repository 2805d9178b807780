"""A stream shown by headrace's live run, with its defaults."""

from collections.abc import Callable, Iterator
from time import perf_counter_ns
from typing import Any

from benchmarks.live.serving import Stream
from headrace.live.address import addresses_of
from headrace.live.events import Event
from headrace.live.frame import LiveFrame
from headrace.live.open import live_source
from headrace.live.overload import Overload
from headrace.live.source import LiveSource
from headrace.profiling.session import Pace
from headrace.runs.live.flow import LiveFlow, LivePlan
from headrace.runtime.item import Dropped
from headrace.runtime.waiter import Waiter
from headrace.sizes import parse_seconds

PACKAGES = ("headrace", "av", "torch")


def show(stream: Stream) -> dict[str, Any]:
    """Show the stream until it is over; return what became of all frames."""
    limit = None if stream.max_staleness is None else parse_seconds(stream.max_staleness)
    [address] = addresses_of([stream.url])
    plan = LivePlan(
        sources=[_Heard(live_source(address), stream.note)],
        engine=stream.net.engine(),
        overload=Overload.chosen("auto", is_live=True, max_staleness_seconds=limit),
        max_seconds=(stream.until_ns - perf_counter_ns()) / 1e9,
    )
    with LiveFlow(plan) as flow:
        for item in flow:
            for view in item.value.gathered.views:
                stream.show(view[-1].pixels)
    found = flow.conserved()
    return {"arrived": found.arrived, "delivered": found.delivered}


class _Heard:
    """A source whose news somebody hears at once."""

    def __init__(self, source: LiveSource, hear: Callable[[str], None]) -> None:
        self._source = source
        self._hear = hear

    @property
    def name(self) -> str:
        return self._source.name

    @property
    def base(self) -> Pace:
        return self._source.base

    def frames(
        self, number: int, waiter: Waiter, note: Callable[[Event], None]
    ) -> Iterator[LiveFrame | Dropped]:
        def heard(event: Event) -> None:
            self._hear(event.kind)
            note(event)

        return self._source.frames(number, waiter, heard)


WAYS = {"headrace": show}

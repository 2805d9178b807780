"""What happens in a training loop, noted as it happens: requests, batches, ends."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.instrumentation.cuda_gaps import DeviceWaits
from headrace.instrumentation.loader_info import BatchFacts, samples_in
from headrace.instrumentation.timed_worker import IN_LOOP, TimedBatch
from headrace.runtime.clock import SYSTEM_CLOCK, Clock, processor_ns

MOST_STEPS: Final = 100_000
"""Steps that are kept, some 40 MB; later ones go by."""


@dataclass(slots=True)
class SeenStep:
    """One step: the wait for its batch, and what the loop then did with it."""

    asked_ns: int
    got_ns: int
    is_first: bool
    """Of its epoch."""
    ready: int | None
    """Batches that lay ready when it was asked for; None where it is not seen."""
    samples: int | None
    fetch_ns: int | None = None
    collate_ns: int | None = None
    batch_processor_ns: int | None = None
    made_ns: int | None = None
    worker: int | None = None
    """Number of the worker that made the batch; None where the loop did, or it is not seen."""
    process_id: int | None = None
    """Of whoever made the batch; None where it is not seen."""
    ended_ns: int | None = None
    """When the next batch was asked for; None where the loop was left."""
    processor_ns: int = 0
    """Of the loop's process, from `asked_ns` to `ended_ns`."""


@dataclass
class LoopRecorder:
    """Notes what a loop does. One thread at a time; about 5 µs a step."""

    clock: Clock = SYSTEM_CLOCK
    seen: list[SeenStep] = field(default_factory=list)
    start_seconds: list[float] = field(default_factory=list)
    """Of each epoch, from its beginning until its first batch."""
    device: DeviceWaits = field(default_factory=DeviceWaits)
    batch: BatchFacts | None = None
    """Of the first batch."""
    is_cut: bool = False
    """More steps came than are kept."""

    def __post_init__(self) -> None:
        self._began_ns: int | None = None
        self._asked: tuple[int, int, int | None] | None = None
        self._open: SeenStep | None = None

    def begins(self) -> None:
        """An epoch begins: its iterator is about to be made, or made to start again."""
        self._open = None
        if self._began_ns is None:
            self._began_ns = self.clock.now_ns()

    def asks(self, ready: int | None = None) -> None:
        """The loop asks for a batch; `ready` ones are there."""
        now_ns, spent_ns = self.clock.now_ns(), processor_ns()
        if self._open is not None:
            self._open.ended_ns = now_ns
            self._open.processor_ns += spent_ns
            self._open = None
            self.device.step_ended()
        self._asked = (now_ns, spent_ns, ready)

    def gets(self, batch: Any, timed: TimedBatch | None = None) -> None:
        """The loop has its batch, with what it cost where that came with it."""
        if self._asked is None:
            return
        now_ns = self.clock.now_ns()
        if self.batch is None:
            self.batch = BatchFacts.of(batch)
        (asked_ns, spent_ns, ready), self._asked = self._asked, None
        is_first, began_ns = self._began_ns is not None, self._began_ns
        if began_ns is not None:
            self.start_seconds.append((now_ns - began_ns) / 1e9)
            self._began_ns = None
        if len(self.seen) >= MOST_STEPS:
            self.is_cut = True
            return
        self._open = SeenStep(
            asked_ns=asked_ns,
            got_ns=now_ns,
            is_first=is_first,
            ready=ready,
            samples=samples_in(batch) if timed is None else timed.samples,
            processor_ns=-spent_ns,
        )
        if timed is not None:
            self._open.fetch_ns = timed.fetch_ns
            self._open.collate_ns = timed.collate_ns
            self._open.batch_processor_ns = timed.processor_ns
            self._open.made_ns = timed.made_ns
            self._open.worker = timed.worker if timed.worker != IN_LOOP else None
            self._open.process_id = timed.process_id
        self.device.step_begins(len(self.seen))
        self.seen.append(self._open)

    def ends(self) -> None:
        """There was no further batch."""
        self._asked = self._began_ns = None

    @property
    def seconds(self) -> float:
        """From the first request to the end of the last step."""
        ends = [step.ended_ns or step.got_ns for step in self.seen[-1:]]
        return (ends[-1] - self.seen[0].asked_ns) / 1e9 if ends else 0.0

    def finished(self) -> list[SeenStep]:
        """Return the steps whose end is known; the one in which a loop was left is not."""
        self.device.finish()
        return [step for step in self.seen if step.ended_ns is not None]


def merged(watches: Sequence[LoopRecorder]) -> LoopRecorder:
    """Return several iterations of one loop, each watched on its own, as one."""
    whole = LoopRecorder()
    for watch in watches:
        watch.device.finish()
        offset = len(whole.seen)
        waits = watch.device.milliseconds.items()
        whole.device.milliseconds |= {offset + place: ms for place, ms in waits}
        whole.seen += watch.seen
        whole.start_seconds += watch.start_seconds
        whole.batch = whole.batch or watch.batch
        whole.is_cut |= watch.is_cut
    return whole

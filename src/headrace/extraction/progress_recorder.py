"""Recorder of the workers' steps."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from headrace.decode import protocol
from headrace.errors import ConfigError, MediaError
from headrace.profiling.input_records import DecodeStats
from headrace.profiling.recorder import Recorder
from headrace.profiling.run_records import Role, StageRecord, WorkerRecord
from headrace.profiling.session import Step
from headrace.runtime.child_process import Json
from headrace.runtime.clock import Clock

ItemT = TypeVar("ItemT")

PARTS = ("decode", "encode", "write")
"""Parts of the work of one worker, in order."""
_FRAMES, _MILLISECONDS = 8, 500
"""Max frames and milliseconds of a step: short enough for progress, long enough to be cheap."""


class StepTimer:
    """Times the work of a worker, and sends each step: {"step": {...}}."""

    def __init__(
        self,
        video: int,
        send: Callable[[Json], None],
        clock: Clock,
        *,
        parts: Sequence[str] = PARTS,
        frames: int = _FRAMES,
    ) -> None:
        """Start the first step of a chunk of a video; a step has at most `frames` frames."""
        self._video, self._send, self._clock = video, send, clock
        self._parts, self._max_frames = parts, frames
        self._first, self._frames = 0, 0
        self._begin()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time one part of the work."""
        began_ns = self._clock.now_ns()
        try:
            yield
        finally:
            self._spent_ns[name] += self._clock.now_ns() - began_ns

    def time_items(self, name: str, items: Iterator[ItemT]) -> Iterator[ItemT]:
        """Yield the items; time each call of `next` as one part of the work."""
        while True:
            with self.part(name):
                try:
                    item = next(items)
                except StopIteration:
                    return
            yield item

    def count_frame(self, index: int) -> None:
        """Count the finished frame `index`."""
        self._first = index if self._frames == 0 else self._first
        self._frames += 1
        if self._frames == self._max_frames or self._elapsed_ms() >= _MILLISECONDS:
            self.end_step()

    def end_step(self) -> None:
        """Send the current step, if it has a frame."""
        if self._frames:
            step: Json = {
                "video": self._video,
                "first_index": self._first,
                "frames": self._frames,
                "total_ms": self._elapsed_ms(),
                "work_ms": {name: spent / 1e6 for name, spent in self._spent_ns.items()},
            }
            self._send({"step": step})
            self._begin()

    def _elapsed_ms(self) -> float:
        return (self._clock.now_ns() - self._began_ns) / 1e6

    def _begin(self) -> None:
        self._spent_ns = dict.fromkeys(self._parts, 0)
        self._first = self._frames = 0
        self._began_ns = self._clock.now_ns()


class ProgressRecorder:
    """Receives the messages of workers in one thread, and records their steps."""

    def __init__(
        self,
        record: Recorder,
        places: Mapping[int, int],
        roles: Mapping[str, Role],
        *,
        on_frames: Callable[[int], None],
        on_phase: Callable[[str], None] = lambda what: None,
    ) -> None:
        """Record no message yet.

        Args:
            record: Recorder of the session, which receives the steps.
            places: Video number in the request → position among the session's inputs.
            roles: Part of the work → its role, in the order of the work.
            on_frames: Called with the number of newly extracted or lost frames.
            on_phase: Called with the name of each starting phase.
        """
        self.record, self._places, self._roles = record, places, roles
        self.on_frames, self.on_phase = on_frames, on_phase
        self.unreadable: dict[str, str] = {}
        """Name of a chunk whose video can no longer be opened → reason."""
        self._by_worker: dict[str, list[tuple[Step, float]]] = {}
        """Worker → steps, each with the milliseconds its samples waited for a batch."""
        self.notes: dict[str, None] = {}
        """Decisions and warnings of workers, each once."""
        self._frames_by = Counter[str]()
        """Device → decoded frames, if CPU and GPU share the work."""
        self._costs = protocol.DecodeCounters()
        self._ahead = Counter[str]()
        """Worker → samples counted before their chunk was done."""

    def on_message(self, worker: str, chunk: str, message: Json) -> None:
        """Record a message of a worker about a chunk.

        Raises:
            MediaError, ConfigError: an error that ends the extraction.
        """
        match message:
            case {"step": dict(step)}:
                self._step(worker, step)
            case {"samples": int(samples)}:
                self._ahead[worker] += samples
                self.on_frames(samples)
            case {"chunk": {"decode": dict(cost), "lost": int(lost)}}:
                self._costs.count(protocol.DecodeCounters(**cost))
                self._settle(worker, lost)
            case {"frames_by": dict(frames)}:
                self._frames_by.update({device: int(str(n)) for device, n in frames.items()})
            case {"note": str(note)}:
                self.notes[note] = None
            case {"unreadable": str(reason)}:
                self.unreadable[chunk] = reason
            case {"failed": {"why": str(reason), "source": str(source)}}:
                raise MediaError(reason, source=source)
            case {"failed": {"why": str(reason)}}:
                raise ConfigError(reason)

    @property
    def decode(self) -> DecodeStats:
        """Decode counters of finished chunks."""
        return DecodeStats(**vars(self._costs))

    def decoding_notes(self) -> tuple[str, ...]:
        """Return the frames by device, if CPU and GPU shared the work, and the notes of workers."""
        parts = ", ".join(f"{device}: {count} frames" for device, count in self._frames_by.items())
        return (*([f"decoded by {parts}"] if parts else []), *self.notes)

    def stages(self, workers: int) -> tuple[StageRecord, ...]:
        """Return the parts of the work as stages; they run one after another in each worker."""
        steps = self.record.steps
        return tuple(
            StageRecord(
                name=name,
                role=role,
                workers=workers,
                items=len(steps),
                busy_seconds=sum(step.work_ms[name] for step in steps) / 1e3,
                starved_seconds=0.0,
                blocked_seconds=0.0,
            )
            for name, role in (self._roles.items() if steps else ())
        )

    def workers(self) -> tuple[WorkerRecord, ...]:
        """Return the record of each worker, by name."""
        return tuple(
            WorkerRecord(
                name=name,
                steps=len(steps),
                frames=sum(step.frames for step, _ in steps),
                busy_seconds=sum(step.service_ms for step, _ in steps) / 1e3,
                queue_seconds=sum(queue_ms for _, queue_ms in steps) / 1e3,
                span_seconds=max(
                    0.0,
                    max(step.ended_ms for step, _ in steps)
                    - min(step.started_ms for step, _ in steps),
                )
                / 1e3,
            )
            for name, steps in sorted(self._by_worker.items())
        )

    def _step(self, worker: str, values: Mapping[str, Any]) -> None:
        ended_ms = (self.record.clock.now_ns() - self.record.start_ns) / 1e6
        total_ms = min(ended_ms, float(values["total_ms"]))
        step = Step(
            step=len(self.record.steps),
            input=self._places[int(values["video"])],
            first_index=int(values["first_index"]),
            frames=int(values["frames"]),
            started_ms=ended_ms - total_ms,
            work_ms=dict(values["work_ms"]),
            total_ms=total_ms,
        )
        self.record.add(step)
        self._by_worker.setdefault(worker, []).append((step, float(values.get("queue_ms", 0.0))))
        self._settle(worker, int(values["frames"]))

    def _settle(self, worker: str, frames: int) -> None:
        """Count the frames of a chunk, except samples counted ahead."""
        ahead = min(frames, self._ahead[worker])
        self._ahead[worker] -= ahead
        self.on_frames(frames - ahead)

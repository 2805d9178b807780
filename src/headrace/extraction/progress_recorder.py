"""What workers measure, step by step, and its record."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from headrace.decode import protocol
from headrace.errors import ConfigError, MediaError
from headrace.profiling.input_records import DecodeStats
from headrace.profiling.recorder import Recorder
from headrace.profiling.run_records import WorkerRecord
from headrace.profiling.stage_records import Role, StageRecord
from headrace.profiling.steps import LatestSteps, Step
from headrace.runtime.child_spec import Json
from headrace.runtime.clock import Clock

PARTS = ("decode", "encode", "write")
"""They follow each other in one worker."""
_FRAMES, _MILLISECONDS = 8, 500
"""Of a step, at most: often enough to see progress, seldom enough to cost nothing."""


class StepTimer:
    """Times a worker, and says each step: {"step": {...}}."""

    def __init__(
        self,
        video: int,
        say: Callable[[Json], None],
        clock: Clock,
        *,
        parts: Sequence[str] = PARTS,
        frames: int = _FRAMES,
    ) -> None:
        """Begin the first step of a chunk of a video; a step has so many frames at most."""
        self._video, self._say, self._clock = video, say, clock
        self._parts, self._most = parts, frames
        self._first, self._frames = 0, 0
        self._begin()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time one of the parts."""
        began_ns = self._clock.now_ns()
        try:
            yield
        finally:
            self._spent_ns[name] += self._clock.now_ns() - began_ns

    def came(self, index: int) -> None:
        """Frame number `index` is done."""
        self._first = index if self._frames == 0 else self._first
        self._frames += 1
        if self._frames == self._most or self._passed_ms() >= _MILLISECONDS:
            self.end_step()

    def end_step(self) -> None:
        """Say the step that was begun, if it has a picture."""
        if self._frames:
            work: Json = {name: spent / 1e6 for name, spent in self._spent_ns.items()}
            self._say(
                {
                    "step": {
                        "video": self._video,
                        "first_index": self._first,
                        "frames": self._frames,
                        "total_ms": self._passed_ms(),
                        "work_ms": work,
                    }
                }
            )
            self._begin()

    def _passed_ms(self) -> float:
        return (self._clock.now_ns() - self._began_ns) / 1e6

    def _begin(self) -> None:
        self._spent_ns = dict.fromkeys(self._parts, 0)
        self._first = self._frames = 0
        self._began_ns = self._clock.now_ns()


class ProgressRecorder:
    """Receives the messages of workers, in one thread, and records their steps."""

    def __init__(
        self,
        record: Recorder,
        places: Mapping[int, int],
        roles: Mapping[str, Role],
        *,
        on_frames: Callable[[int], None],
        on_phase: Callable[[str], None] = lambda what: None,
    ) -> None:
        """Begin with no message.

        Args:
            record: The session in the making, which gets the steps.
            places: Number of a video in the request → its place among the session's inputs.
            roles: Part of the work → the role it plays, in the order of the work.
            on_frames: Called with how many more frames came or were lost.
            on_phase: Called with what is begun, in words.
        """
        self.record, self._places, self._roles = record, places, roles
        self.on_frames, self.on_phase = on_frames, on_phase
        self.unreadable: dict[str, str] = {}
        """Name of a chunk whose video could not be opened any more → why."""
        self._by_worker: dict[str, list[tuple[Step, float]]] = {}
        """Each step of a worker, with the milliseconds its samples waited for a batch."""
        self.notes: dict[str, None] = {}
        """What workers decided or were warned of, in words; each once."""
        self._frames_by: dict[str, int] = {}
        """Frames that each way decoded, where the CPU and a GPU share the work."""
        self._costs = protocol.DecodeCounters()

    def hear(self, worker: str, chunk: str, said: Json) -> None:
        """Take in what a worker says of a chunk.

        Raises:
            MediaError, ConfigError: what ends the extraction.
        """
        match said:
            case {"step": dict(step)}:
                self._step(worker, step)
            case {"chunk": {"decode": dict(cost), "lost": int(lost)}}:
                self._costs.count(protocol.DecodeCounters(**cost))
                self.on_frames(lost)
            case {"frames_by": dict(frames)}:
                for way, count in frames.items():
                    self._frames_by[way] = self._frames_by.get(way, 0) + int(str(count))
            case {"note": str(note)}:
                self.notes[note] = None
            case {"unreadable": str(why)}:
                self.unreadable[chunk] = why
            case {"failed": {"why": str(why), "source": str(source)}}:
                raise MediaError(why, source=source)
            case {"failed": {"why": str(why)}}:
                raise ConfigError(why)

    @property
    def decode(self) -> DecodeStats:
        """What decoding cost, of chunks that were done."""
        return DecodeStats(**vars(self._costs))

    def decoding_notes(self) -> tuple[str, ...]:
        """Return which way decoded how much, where there was a choice, and what workers noted."""
        ways = ", ".join(f"{way}: {count} frames" for way, count in self._frames_by.items())
        return (*([f"decoded by {ways}"] if ways else []), *self.notes)

    @property
    def steps(self) -> list[Step] | LatestSteps:
        """Steps so far."""
        return self.record.steps

    def stages(self, workers: int) -> tuple[StageRecord, ...]:
        """Return the parts of the work as stages: each waits while the others work."""
        return tuple(
            StageRecord(
                name=name,
                role=role,
                workers=workers,
                items=len(self.steps),
                busy_seconds=sum(step.work_ms[name] for step in self.steps) / 1e3,
                starved_seconds=0.0,
                blocked_seconds=0.0,
            )
            for name, role in (self._roles.items() if self.steps else ())
        )

    def workers(self) -> tuple[WorkerRecord, ...]:
        """Return what each worker did, by name."""
        return tuple(
            WorkerRecord(
                name=name,
                steps=len(found),
                frames=sum(step.frames for step, _ in found),
                busy_seconds=sum(step.service_ms for step, _ in found) / 1e3,
                queue_seconds=sum(queue_ms for _, queue_ms in found) / 1e3,
                span_seconds=max(
                    0.0,
                    max(step.ended_ms for step, _ in found)
                    - min(step.started_ms for step, _ in found),
                )
                / 1e3,
            )
            for name, found in sorted(self._by_worker.items())
        )

    def _step(self, worker: str, said: Mapping[str, Any]) -> None:
        ended_ms = (self.record.clock.now_ns() - self.record.start_ns) / 1e6
        total_ms = min(ended_ms, float(said["total_ms"]))
        step = Step(
            step=len(self.record.steps),
            input=self._places[int(said["video"])],
            first_index=int(said["first_index"]),
            frames=int(said["frames"]),
            started_ms=ended_ms - total_ms,
            work_ms=dict(said["work_ms"]),
            total_ms=total_ms,
        )
        self.record.add(step)
        self._by_worker.setdefault(worker, []).append((step, float(said.get("queue_ms", 0.0))))
        self.on_frames(int(said["frames"]))

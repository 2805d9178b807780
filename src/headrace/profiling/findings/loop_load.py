"""What the steps of a training loop were made of, and what they would be with another loader."""

from dataclasses import dataclass
from statistics import fmean
from typing import Final

from headrace.profiling.findings.replay import replay_ms
from headrace.profiling.loader import LoaderRecord
from headrace.profiling.session import Session

COPY_MS_PER_BYTE: Final = 2e-6
"""Of a batch from a worker to the loop: 0.5 GB/s, into shared memory and out of it."""
_HANDOVER_MS: Final = 0.5
"""Of the smallest batch."""


@dataclass(frozen=True, kw_only=True)
class LoopLoad:
    """The measured steps of a loop; times are means in milliseconds."""

    loader: LoaderRecord
    cores: int
    """That its process may use."""
    others: float
    """Share of all processor time that other programs took; 0 where it is not known."""
    steps: int
    total_ms: float
    """From one request for a batch to the next."""
    wait_ms: float
    """Of that, until the batch was there."""
    fetch_ms: float | None
    """What reading the samples of a batch takes in the process that does it; None: not seen."""
    collate_ms: float | None
    batches: tuple[float, ...]
    """Fetch and collate of each batch; empty where they are not seen."""
    rest: tuple[float, ...]
    """What the loop did with each."""

    @classmethod
    def of(cls, session: Session) -> "LoopLoad | None":
        """Return it; None where no step was measured."""
        loader, steps = session.loader, session.steps
        if loader is None:
            return None
        firsts = set(loader.first_steps)
        kept = [number for number in range(len(steps)) if number not in firsts]
        if not kept:
            return None
        columns = {
            name: [column[number] for number in kept] for name, column in steps.work_ms.items()
        }
        rest = columns["step"]
        total = [steps.total_ms[number] for number in kept]
        fetch, collate = columns.get("fetch"), columns.get("collate")
        batches = [a + b for a, b in zip(fetch, collate, strict=True)] if fetch and collate else []
        return cls(
            loader=loader,
            cores=session.provenance.machine.usable_cores,
            others=session.others_cpu_share or 0.0,
            steps=len(kept),
            total_ms=fmean(total),
            wait_ms=fmean(total) - fmean(rest),
            fetch_ms=fmean(fetch) if fetch else None,
            collate_ms=fmean(collate) if collate else None,
            batches=tuple(batches),
            rest=tuple(rest),
        )

    @property
    def waiting(self) -> float:
        """Share of the time in which the loop waited for data."""
        return self.wait_ms / self.total_ms if self.total_ms else 0.0

    @property
    def batch_ms(self) -> float | None:
        """What a batch costs in the process that makes it."""
        return fmean(self.batches) if self.batches else None

    @property
    def workers_busy(self) -> float | None:
        """Share of the time in which the workers were at work; None without workers."""
        workers = self.loader.workers
        if not workers or self.batch_ms is None or not self.total_ms:
            return None
        return min(1.0, self.batch_ms / (workers * self.total_ms))

    @property
    def cores_busy(self) -> float | None:
        """Cores that the loop and its workers kept busy on average."""
        if self.loader.loop_cpu_ms is None or not self.total_ms:
            return None
        return (self.loader.loop_cpu_ms + (self.loader.batch_cpu_ms or 0.0)) / self.total_ms

    def gain(
        self,
        *,
        workers: int,
        prefetch: int = 2,
        cheaper: float = 1.0,
        handover_ms: float | None = None,
    ) -> float | None:
        """Return how many times as fast the loop would be; None where batches are not seen.

        What a step waits besides the making of batches stays as it is. No step is shorter than
        the processor time it takes, shared by all cores.

        Args:
            workers: Of the DataLoader.
            prefetch: Its `prefetch_factor`.
            cheaper: Times as fast as now that batches are made.
            handover_ms: What a batch is on its way; None: as long as now.
        """
        if not self.batches or not self.total_ms:
            return None
        own = self.loader.workers or 0
        if handover_ms is None:
            handover_ms = self._handover_ms if workers else 0.0
        extra = self.total_ms - replay_ms(
            self.batches,
            self.rest,
            workers=own,
            prefetch=self.loader.prefetch_factor or 2,
            handover_ms=self.loader.handover_ms or 0.0,
        )
        cpu_ms, batch_ms = self.loader.batch_cpu_ms or 0.0, self.batch_ms or 0.0
        # A worker has one thread for what the loop itself did on several.
        slower = max(1.0, cpu_ms / batch_ms) if workers and not own and batch_ms else 1.0
        batches = [each * slower / cheaper for each in self.batches]
        ideal = replay_ms(
            batches, self.rest, workers=workers, prefetch=prefetch, handover_ms=handover_ms
        )
        least = ((self.loader.loop_cpu_ms or 0.0) + cpu_ms / cheaper) / self.cores
        return self.total_ms / max(ideal + max(0.0, extra), least)

    @property
    def _handover_ms(self) -> float:
        """As it was, or what it takes to begin with where there was none."""
        if self.loader.handover_ms is not None:
            return self.loader.handover_ms
        return _HANDOVER_MS + (self.loader.batch_bytes or 0) * COPY_MS_PER_BYTE

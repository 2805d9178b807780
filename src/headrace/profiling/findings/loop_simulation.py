"""What the steps of a training loop were made of, and what they would be with another loader."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from statistics import fmean
from typing import Final

from headrace.profiling.run_records import LoaderRecord
from headrace.profiling.session import Session

_FEWEST: Final = 300
"""Steps that are replayed at least; fewer are gone through several times."""
_MOST: Final = 2_000
"""Steps of a long loop that are replayed, its last ones."""


def replay_ms(
    batch_ms: Sequence[float],
    step_ms: Sequence[float],
    *,
    workers: int,
    prefetch: int,
) -> float:
    """Return how long a step takes on average, its wait included; about 1 ms.

    Batch k is made by worker k modulo `workers`, as soon as that is free and the batch
    `workers * prefetch` places before it was taken. The loop takes them in order.

    Args:
        batch_ms: What making each batch takes.
        step_ms: What the loop does with each, as many; taking it over from its worker among it.
        workers: Of the DataLoader; 0: the loop makes its batches itself.
        prefetch: Batches each worker may be ahead.
    """
    batch_ms, step_ms = batch_ms[-_MOST:], step_ms[-_MOST:]
    if not workers:
        return (sum(batch_ms) + sum(step_ms)) / len(batch_ms)
    ahead = workers * prefetch
    count = 2 * ahead + max(_FEWEST, len(batch_ms))
    free, taken = [0.0] * workers, [0.0] * count
    now = 0.0
    pairs = zip(cycle(batch_ms), cycle(step_ms), strict=True)
    for number, (batch, step) in enumerate(islice(pairs, count)):
        asked = taken[number - ahead] if number >= ahead else 0.0
        worker = number % workers
        free[worker] = max(free[worker], asked) + batch
        taken[number] = max(now, free[worker])
        now = taken[number] + step
    return (now - taken[2 * ahead]) / (count - 2 * ahead)


COPY_MS_PER_BYTE: Final = 2e-6
"""Of a worker, to put a batch into shared memory: 0.5 GB/s."""
_HANDOVER_MS: Final = 0.5
"""Of the loop, to take the smallest batch over from a worker."""


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

    @property
    def handover_ms(self) -> float:
        """Of the wait for a batch, what the making of batches does not explain.

        With workers that is handing batches over. The loop takes them one at a time, so that it is
        no shorter with more workers, or with more batches ahead.
        """
        if not self.batches or not self.loader.workers:
            return 0.0
        return self._taking_ms + self._unexplained_ms

    def gain(
        self,
        *,
        workers: int,
        prefetch: int = 2,
        cheaper: float = 1.0,
        handover_saved_ms: float = 0.0,
    ) -> float | None:
        """Return how many times as fast the loop would be; None where batches are not seen.

        What a step waits besides the making of batches stays as it is, but for handing them over,
        which there is none of without workers. No step is shorter than the processor time it
        takes, shared by all cores.

        Args:
            workers: Of the DataLoader.
            prefetch: Its `prefetch_factor`.
            cheaper: Times as fast as now that batches are made.
            handover_saved_ms: What the loop needs less to take a batch over.
        """
        if not self.batches or not self.total_ms:
            return None
        own, cpu_ms, batch_ms = self.loader.workers, self.loader.batch_cpu_ms or 0.0, self.batch_ms
        batches = [each / cheaper for each in self.batches]
        if own and not workers:
            return self.total_ms / replay_ms(batches, self.rest, workers=0, prefetch=prefetch)
        taking = self._taking_ms - handover_saved_ms
        if workers and not own:
            # A worker has one thread for what the loop itself did on several.
            slower = max(1.0, cpu_ms / batch_ms) if batch_ms else 1.0
            shared = (self.loader.batch_bytes or 0) * COPY_MS_PER_BYTE
            batches = [each * slower + shared for each in batches]
            taking = _HANDOVER_MS
        steps = [each + max(0.0, taking) for each in self.rest]
        ideal = replay_ms(batches, steps, workers=workers, prefetch=prefetch)
        least = ((self.loader.loop_cpu_ms or 0.0) + cpu_ms / cheaper) / self.cores
        return self.total_ms / max(ideal + self._unexplained_ms, least)

    @property
    def _unexplained_ms(self) -> float:
        """What a step takes beyond its batch, its taking over and the rest, as it is now."""
        now_ms = replay_ms(
            self.batches,
            [each + self._taking_ms for each in self.rest],
            workers=self.loader.workers or 0,
            prefetch=self.loader.prefetch_factor or 2,
        )
        return max(0.0, self.total_ms - now_ms)

    @property
    def _taking_ms(self) -> float:
        """What the loop needs to take a batch over; no more than it waits, or its GPU does."""
        return min(self.loader.handover_wait_ms or 0.0, self.wait_ms)

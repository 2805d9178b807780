"""Simulation of a training loop: the time of a step with other loader settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from statistics import fmean
from typing import Final

from headrace.profiling.run_records import LoaderRecord
from headrace.profiling.session import Session

_MIN_STEPS: Final = 300
"""Min simulated steps; recorded steps are repeated if they are fewer."""
_MAX_STEPS: Final = 2_000
"""Max recorded steps to simulate: the last steps of a long loop."""
_COPY_MS_PER_BYTE: Final = 2e-6
"""Milliseconds per byte for a worker to copy a batch into shared memory: 0.5 GB/s."""
QUIET: Final = 0.05
"""Max CPU share of other programs on a quiet machine."""
_MIN_TRANSFER_MS: Final = 0.5
"""Milliseconds that the loop takes to receive the smallest batch from a worker."""


def simulate_ms(
    batch_ms: Sequence[float],
    step_ms: Sequence[float],
    *,
    workers: int,
    prefetch: int,
) -> float:
    """Return the mean time of a step, wait included; takes about 1 ms.

    Worker k mod `workers` loads batch k as soon as the worker is free and batch
    k - `workers * prefetch` was received. The loop receives batches in order.

    Args:
        batch_ms: Time to load each batch.
        step_ms: Time of the loop for each batch, including its transfer from the worker.
        workers: Workers of the DataLoader; 0: the loop loads batches itself.
        prefetch: Max batches that a worker loads ahead.
    """
    batch_ms, step_ms = batch_ms[-_MAX_STEPS:], step_ms[-_MAX_STEPS:]
    if not workers:
        return (sum(batch_ms) + sum(step_ms)) / len(batch_ms)
    ahead = workers * prefetch
    count = 2 * ahead + max(_MIN_STEPS, len(batch_ms))
    free, received = [0.0] * workers, [0.0] * count
    now = 0.0
    pairs = zip(cycle(batch_ms), cycle(step_ms), strict=True)
    for index, (batch, step) in enumerate(islice(pairs, count)):
        requested = received[index - ahead] if index >= ahead else 0.0
        worker = index % workers
        free[worker] = max(free[worker], requested) + batch
        received[index] = max(now, free[worker])
        now = received[index] + step
    return (now - received[2 * ahead]) / (count - 2 * ahead)


def loop_seconds(session: Session) -> float:
    """Return the duration of a loop, from the start of each epoch to its last step."""
    if session.loader is None:
        return 0.0
    starts, firsts = session.loader.start_seconds, {*session.loader.first_steps}
    work_ms = session.steps.work_ms.get("step", ())
    steps_ms = (
        work_ms[step] if step in firsts else total_ms
        for step, total_ms in enumerate(session.steps.total_ms)
    )
    return sum(starts) + sum(steps_ms) / 1e3


@dataclass(frozen=True, kw_only=True)
class LoopLoad:
    """Measured steps of a loop; times are means in milliseconds."""

    loader: LoaderRecord
    cores: int
    """Cores that the loop's process may use."""
    others: float
    """CPU share of other programs; 0: unknown."""
    steps: int
    total_ms: float
    """Time from one request for a batch to the next."""
    wait_ms: float
    """Time from the request to the arrival of the batch."""
    fetch_ms: float | None
    """Time to read the samples of a batch; None: not recorded."""
    collate_ms: float | None
    """Time to collate the samples of a batch; None: not recorded."""
    batches: tuple[float, ...]
    """Fetch and collate time of each batch; empty: not recorded."""
    rest: tuple[float, ...]
    """Time of each step without its wait."""
    core_waits: Mapping[str, float] = field(default_factory=dict)
    """Stage, or `wait` → time in which its thread waited for a core; empty: not known."""
    is_corrected: bool = False
    """Whether `core_waits` are subtracted from all other times, because the machine was busy."""
    measured_ms: float = 0.0
    """`total_ms` as measured, waits for a core included."""

    @classmethod
    def of(cls, session: Session) -> "LoopLoad | None":
        """Return the load of a session; None without measured steps."""
        loader, steps = session.loader, session.steps
        if loader is None:
            return None
        firsts = set(loader.first_steps)
        measured = [index for index in range(len(steps)) if index not in firsts]
        if not measured:
            return None
        columns = {
            name: [column[index] for index in measured] for name, column in steps.work_ms.items()
        }
        rest = columns["step"]
        total = [steps.total_ms[index] for index in measured]
        fetch, collate = columns.get("fetch"), columns.get("collate")
        batches = [a + b for a, b in zip(fetch, collate, strict=True)] if fetch and collate else []
        waits = {
            name: [column[index] for index in measured]
            for name, column in steps.core_wait_ms.items()
        }
        load = cls(
            loader=loader,
            cores=session.provenance.machine.usable_cores,
            others=session.others_cpu_share or 0.0,
            steps=len(measured),
            total_ms=fmean(total),
            wait_ms=fmean(total) - fmean(rest),
            fetch_ms=fmean(fetch) if fetch else None,
            collate_ms=fmean(collate) if collate else None,
            batches=tuple(batches),
            rest=tuple(rest),
            core_waits={name: fmean(column) for name, column in waits.items()},
            measured_ms=fmean(total),
        )
        # Without the cost of each batch, the waits of the workers are not known.
        is_disturbed = load.others > QUIET and loader.waits_of == "loop" and bool(batches)
        return load._corrected(waits) if waits and is_disturbed else load

    def _corrected(self, waits: Mapping[str, Sequence[float]]) -> "LoopLoad":
        """Return the load as if no thread had waited for a core.

        The wait for a batch is simulated. No step is shorter than the CPU time of loop and workers
        divided by all cores.
        """
        rest = [max(0.0, ms - wait) for ms, wait in zip(self.rest, waits["step"], strict=True)]
        of_batches = zip(self.batches, waits["fetch"], waits["collate"], strict=True)
        batches = [max(0.0, ms - a - b) for ms, a, b in of_batches]
        handover_ms = self.loader.handover_wait_ms
        if handover_ms is not None:
            handover_ms = max(0.0, handover_ms - self.core_waits["wait"])
        loader = self.loader.model_copy(update={"handover_wait_ms": handover_ms})
        sent_ms = replace(self, loader=loader, batches=tuple(batches)).sent_ms
        receive_ms = min(sent_ms, max(0.0, self.wait_ms - self.core_waits["wait"]))
        settings: dict[str, int] = {"workers": loader.workers or 0, "prefetch": self.prefetch}
        ideal_ms = simulate_ms(batches, [ms + receive_ms for ms in rest], **settings)
        # Both simulations use the same steps: the last ones of a long loop, or repeated ones.
        wait_ms = max(0.0, ideal_ms - simulate_ms([0.0] * len(rest), rest, **settings))
        needed_ms = ((loader.loop_cpu_ms or 0.0) + (loader.batch_cpu_ms or 0.0)) / self.cores
        total_ms = max(fmean(rest) + wait_ms, needed_ms)
        fetch_ms, collate_ms = (
            max(0.0, (ms or 0.0) - self.core_waits[name])
            for name, ms in (("fetch", self.fetch_ms), ("collate", self.collate_ms))
        )
        # A wait may be counted in the part after its own.
        scale = fmean(batches) / max(1e-9, fetch_ms + collate_ms)
        return replace(
            self,
            loader=loader,
            total_ms=total_ms,
            wait_ms=total_ms - fmean(rest),
            fetch_ms=scale * fetch_ms,
            collate_ms=scale * collate_ms,
            batches=tuple(batches),
            rest=tuple(rest),
            is_corrected=True,
        )

    @property
    def waiting(self) -> float:
        """Share of the time in which the loop waited for data."""
        return self.wait_ms / self.total_ms if self.total_ms else 0.0

    @property
    def step_ms(self) -> float:
        """Time of a step without its wait."""
        return self.total_ms - self.wait_ms

    @property
    def prefetch(self) -> int:
        """Prefetch factor of the loader; 2 without workers, as PyTorch's default."""
        return self.loader.prefetch_factor or 2

    @property
    def batch_ms(self) -> float | None:
        """Mean time to load a batch, in any process; None: not recorded."""
        return fmean(self.batches) if self.batches else None

    @property
    def workers_busy(self) -> float | None:
        """Busy share of the workers; None without workers."""
        workers = self.loader.workers
        if not workers or self.batch_ms is None or not self.total_ms:
            return None
        return min(1.0, self.batch_ms / (workers * self.total_ms))

    @property
    def cores_busy(self) -> float | None:
        """Busy cores of the loop and its workers, on average; None: not recorded."""
        if self.loader.loop_cpu_ms is None or not self.total_ms:
            return None
        return (self.loader.loop_cpu_ms + (self.loader.batch_cpu_ms or 0.0)) / self.total_ms

    @property
    def handover_ms(self) -> float:
        """Part of the wait that loading does not explain: with workers, the queue transfers.

        The loop receives batches one at a time, so more workers or a deeper prefetch do not
        shorten it.
        """
        if not self.batches or not self.loader.workers:
            return 0.0
        return self._receive_ms + self._unexplained_ms

    @property
    def stalled_ms(self) -> float:
        """Part of the transfer in which the worker does not send: its next batch holds the GIL.

        The copy of the bytes and the CPU time of the loop explain the other part. As a ready batch
        waits at most until the next one is ready, this part gets shorter with more workers and
        with cheaper batches.
        """
        transfer_ms, cpu_ms = self.loader.handover_wait_ms, self.loader.wait_cpu_ms
        if transfer_ms is None or cpu_ms is None:
            return 0.0
        return min(self.batch_ms or 0.0, max(0.0, transfer_ms - cpu_ms - self.copy_ms))

    @property
    def sent_ms(self) -> float:
        """Time for the transfer of a batch that its worker sends at once."""
        return (self.loader.handover_wait_ms or 0.0) - self.stalled_ms

    @property
    def copy_ms(self) -> float:
        """Time to copy a batch into shared memory."""
        return (self.loader.batch_bytes or 0) * _COPY_MS_PER_BYTE

    def gain(
        self,
        *,
        workers: int,
        prefetch: int = 2,
        cheaper: float = 1.0,
        handover_saved_ms: float = 0.0,
    ) -> float | None:
        """Return the predicted speed-up of the loop; None: batches are not recorded.

        Waits that loading does not explain stay the same, except queue transfers, which need
        workers. No step is shorter than its CPU time divided by all cores.

        Args:
            workers: Workers of the DataLoader.
            prefetch: Its `prefetch_factor`.
            cheaper: Speed-up of loading a batch.
            handover_saved_ms: Milliseconds saved in the transfer of a batch.
        """
        if not self.batches or not self.total_ms:
            return None
        current, cpu_ms, batch_ms = (
            self.loader.workers,
            self.loader.batch_cpu_ms or 0.0,
            self.batch_ms,
        )
        batches = [batch / cheaper for batch in self.batches]
        if current and not workers:
            return self.total_ms / simulate_ms(batches, self.rest, workers=0, prefetch=prefetch)
        receive_ms = self._receive_ms - handover_saved_ms
        if workers and not current:
            # A worker has one thread; the loop may have loaded batches with several threads.
            slower = max(1.0, cpu_ms / batch_ms) if batch_ms else 1.0
            batches = [batch * slower + self.copy_ms for batch in batches]
            receive_ms = _MIN_TRANSFER_MS
        steps = [step + max(0.0, receive_ms) for step in self.rest]
        ideal = simulate_ms(batches, steps, workers=workers, prefetch=prefetch)
        min_ms = ((self.loader.loop_cpu_ms or 0.0) + cpu_ms / cheaper) / self.cores
        return self.total_ms / max(ideal + self._unexplained_ms, min_ms)

    def gain_of_step(self, saved_ms: float) -> float:
        """Return the predicted speed-up of the loop if its mean step were `saved_ms` shorter.

        No step is shorter than the CPU time of loop and workers divided by all cores.
        """
        if not self.total_ms or not self.step_ms:
            return 1.0
        kept = max(0.0, 1 - saved_ms / self.step_ms)
        if not self.batches or not self.loader.workers:
            return self.total_ms / max(1e-6, self.total_ms - (1 - kept) * self.step_ms)
        steps = [step * kept + self._receive_ms for step in self.rest]
        ideal = simulate_ms(
            self.batches, steps, workers=self.loader.workers, prefetch=self.prefetch
        )
        cpu_ms = (self.loader.loop_cpu_ms or 0.0) * kept + (self.loader.batch_cpu_ms or 0.0)
        return self.total_ms / max(1e-6, ideal + self._unexplained_ms, cpu_ms / self.cores)

    @property
    def _unexplained_ms(self) -> float:
        """Time of a step that its batch, the transfer of it and the rest do not explain."""
        now_ms = simulate_ms(
            self.batches,
            [step + self._receive_ms for step in self.rest],
            workers=self.loader.workers or 0,
            prefetch=self.prefetch,
        )
        return max(0.0, self.total_ms - now_ms)

    @property
    def _receive_ms(self) -> float:
        """Time for the loop to receive a batch that its worker sends at once; limited to the wait
        of the loop or its GPU."""
        return min(self.sent_ms, self.wait_ms)

"""The processes of `bench memory`: each measures some batches, and may die for want of memory."""

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from headrace.bench.memory_child import measure_row
from headrace.bench.memory_config import ROW_SECONDS, MemoryConfig
from headrace.bench.memory_record import CellRecord, FrameSizeRecord, Precision, Status
from headrace.errors import in_one_line
from headrace.measuring.progress import OnProgress
from headrace.runtime.child import Call, Ending, Json
from headrace.runtime.children import run_children

_KILLED: Final = -signal.SIGKILL
"""How Linux ends a process when memory runs out."""
_FIGURES: Final = ("peak_bytes", "allocated_bytes", "model_bytes", "predicted_bytes")


@dataclass(frozen=True, kw_only=True)
class Job:
    """What one process does: one precision, and some sizes of frames."""

    precision: Precision
    sizes: tuple[FrameSizeRecord, ...]

    @property
    def name(self) -> str:
        """`float32, 720p`."""
        return ", ".join([self.precision, *(size.name for size in self.sizes)])


def measured_cells(
    config: MemoryConfig,
    precisions: Sequence[Precision],
    sizes: tuple[FrameSizeRecord, ...],
    limit: int | None,
    on_progress: OnProgress,
) -> tuple[tuple[CellRecord, ...], int]:
    """Return what came of every batch, and the bytes that were allowed.

    One process after the other. Of main memory each has one row, as a process has one peak and
    keeps some of what it freed; PyTorch counts a GPU's itself, so one has all sizes.

    Args:
        config: What is asked for.
        precisions: In their order.
        sizes: Of the frames, ascending.
        limit: Bytes; None, on a GPU, lets the process see what is free.
        on_progress: Called as each batch begins.
    """
    in_processes = [(size,) for size in sizes] if config.device == "cpu" else [sizes]
    jobs = {
        job.name: job
        for precision in precisions
        for job in (Job(precision=precision, sizes=some) for some in in_processes)
    }
    total, done = len(precisions) * len(sizes) * len(config.batch_sizes), 0

    def heard(name: str, message: Json) -> None:
        nonlocal done
        said = cast("dict[str, Any]", message)
        if said.get("status") == "begun":
            on_progress(f"{name}, batches of {said['batch_size']}", done, total)
        elif "status" in said:
            done += 1

    calls = [
        Call(
            name=job.name,
            function=measure_row,
            argument=_argument(config, job, limit),
            timeout_seconds=ROW_SECONDS * len(job.sizes),
        )
        for job in jobs.values()
    ]
    endings = run_children(calls, at_once=1, on_message=heard)
    limits = [
        said["limit_bytes"]
        for ending in endings
        for said in cast("tuple[dict[str, Any], ...]", ending.messages)
        if "limit_bytes" in said
    ]
    cells = [cell for ending in endings for cell in _cells(config, jobs[ending.name], ending)]
    return tuple(cells), limit or min(limits, default=1)


def _argument(config: MemoryConfig, job: Job, limit: int | None) -> Json:
    return {
        "model_name": config.model_name,
        "weights": config.weights,
        "device": config.device,
        "precision": job.precision,
        "prep_level": config.prep_level,
        "threads": config.threads,
        "sizes": [[size.height, size.width] for size in job.sizes],
        "batch_sizes": [*sorted(config.batch_sizes)],
        "limit_bytes": limit,
    }


def _cells(config: MemoryConfig, job: Job, ending: Ending) -> list[CellRecord]:
    """Return a record for each batch of a job, also of those that its process did not come to."""
    messages = cast("tuple[dict[str, Any], ...]", ending.messages)
    base = next((said["base_bytes"] for said in messages if "base_bytes" in said), None)
    told = {
        (tuple(said["size"]), said["batch_size"]): said for said in messages if "status" in said
    }
    # One that is killed before its first batch is not told to have had too large a batch.
    is_killed = ending.exit_code == _KILLED and not ending.has_timed_out and bool(told)
    lost: Status = "out_of_memory" if is_killed else "failed"
    why = None if is_killed else _why(ending)
    cells = []
    for size in job.sizes:
        for batch_size in sorted(config.batch_sizes):
            said = told.get(((size.height, size.width), batch_size), {"status": "begun"})
            found = {name: said.get(name) for name in _FIGURES}
            is_lost = said["status"] == "begun"
            cells.append(
                CellRecord(
                    size=size.name,
                    batch_size=batch_size,
                    precision=job.precision,
                    status=lost if is_lost else said["status"],
                    base_bytes=base,
                    why=why if is_lost else None,
                    **found,
                )
            )
    return cells


def _why(ending: Ending) -> str:
    """Return why a process failed, without the name of what it raised."""
    if ending.error is not None:
        return in_one_line(ending.error.partition(": ")[2]) or ending.error
    return ending.describe()

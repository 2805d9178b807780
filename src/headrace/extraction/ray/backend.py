"""Backend of the worker pool that runs chunks on a Ray cluster.

Ray Data distributes calls of several chunks over actors. Only the journal records progress, not
Ray's checkpoints. Ray's retries, which are either endless or too few, are not used: a failed call
is a missing block, and the next round runs its missing chunks.
"""

import json
import logging
import signal
import socket
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from typing import Any, Final

import pyarrow
import ray
import ray.data
from ray.exceptions import RayError
from ray.util.annotations import RayDeprecationWarning

from headrace.errors import ConfigError, StageError, last_words
from headrace.extraction.ray.actor import (
    ActorArgs,
    ChunkActor,
    ChunkRow,
    NodeRequirements,
    table_of,
    values_of,
)
from headrace.extraction.ray.settings import AUTO, ActorResources, RaySettings, call_size
from headrace.records import to_dict
from headrace.runtime.child_process import CompletedChild, FunctionSpec, Json
from headrace.runtime.worker_pool import PoolRound

_QUIET: Final = ("ray", "ray.data")
"""Loggers to silence: the run has its own reports."""

_CONNECT_SECONDS: Final = 5.0


@contextmanager
def joined(address: str) -> Iterator[None]:
    """Join a cluster during the block; Ray's output goes to stderr.

    Raises:
        ConfigError: the cluster cannot be reached, or runs other versions.
    """
    levels = {name: logging.getLogger(name).level for name in _QUIET}
    with redirect_stdout(sys.stderr):
        try:
            _join(address)
            for name in _QUIET:
                logging.getLogger(name).setLevel(logging.CRITICAL)
            yield
        finally:
            ray.shutdown()
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)


def machines() -> list[dict[str, float]]:
    """Return the resources of each machine of the cluster, by Ray's names."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def fitting(slot: ActorResources) -> int:
    """Return the number of actors that fit on the cluster's machines.

    Raises:
        ConfigError: no actor fits.
    """
    actors = sum(map(slot.times_in, machines()))
    if not actors:
        cores, gpus = (
            sum(machine.get(name, 0) for machine in machines()) for name in ("CPU", "GPU")
        )
        needs = f"{slot.num_cpus:g} core" + (" and 1 GPU" if slot.num_gpus else "")
        raise ConfigError(
            f"a worker needs {needs}, but the cluster has {cores:g} cores and {gpus:g} GPUs on "
            f"{len(machines())} machines; choose another --device, or add a machine"
        )
    return actors


def _join(address: str) -> None:
    try:
        if address != AUTO:
            _check_port(address)
        with _keeping_sigterm():
            ray.init(address, log_to_driver=False, logging_level=logging.CRITICAL)
    except (ConnectionError, TimeoutError) as error:
        problem = (
            "no Ray cluster runs on this machine"
            if address == AUTO
            else "no head of a Ray cluster answers there"
        )
        raise ConfigError(
            f"--ray {address}: {problem}; start one with `ray start --head`, or leave out --ray"
        ) from error
    except (RuntimeError, ValueError, OSError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise ConfigError(
            f"--ray {address}: the cluster cannot be joined: {reason}; check the address, and that "
            "all machines have the same versions of Ray and Python"
        ) from error


@contextmanager
def _keeping_sigterm() -> Iterator[None]:
    """Restore the handler of SIGTERM.

    Ray replaces it; the process would end at once and lose finished work.
    """
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        # Outside the main thread, Ray does not replace it; handlers of C code cannot be restored.
        with suppress(ValueError, TypeError):
            signal.signal(signal.SIGTERM, handler)


def _check_port(address: str) -> None:
    """Connect to HOST:PORT once; Ray would wait for minutes.

    Raises:
        OSError: nothing listens there.
    """
    host, _, port = address.rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()


_CALLS_AT_ONCE: Final = 10_000
"""Max calls per dataset: each is a Ray object. More calls use another dataset, which restarts the
actors."""


@dataclass(frozen=True, kw_only=True)
class RayBackend:
    """A `PoolBackend`: `run_chunks(work, chunks, run=RayBackend(settings=...))`."""

    settings: RaySettings

    def __call__(self, pool_round: PoolRound) -> list[CompletedChild]:
        """Run a round on a cluster as far as possible; return the ends of its workers.

        Messages about a chunk arrive when its call has ended.

        Raises:
            ConfigError: the cluster cannot be reached, or no actor fits.
            StageError: a machine does not meet the requirements, or Ray failed.
        """
        work = pool_round.work
        order = ActorArgs(
            target=FunctionSpec(name="chunk", function=work.function).target,
            argument={**work.argument, "stall_seconds": work.stall_seconds},
            alone=pool_round.alone,
            terms=NodeRequirements.set_in(work.claims, pool_round.clock),
        )
        endings: dict[str, CompletedChild] = {}
        remaining = dict(pool_round.chunks)
        try:
            with joined(self.settings.address):
                for row in _rows(self.settings, order, pool_round.chunks):
                    if row.unmet is not None:
                        raise StageError(row.unmet, stage="ray")
                    # One row per chunk: a second row would be an older one.
                    if row.chunk in remaining:
                        del remaining[row.chunk]
                        _forward(row, pool_round.on_message, endings)
        except KeyboardInterrupt:
            pool_round.on_interrupt()
            return []
        # Chunks that a lost worker had not started did not cause the loss.
        for chunk in (chunk for chunk in remaining if order.terms.mark_of(chunk).exists()):
            _forward(ChunkRow.lost(chunk, f"the worker of {chunk}"), pool_round.on_message, endings)
        return list(endings.values())


def _forward(
    row: ChunkRow, on_message: Callable[[str, Json], None], endings: dict[str, CompletedChild]
) -> None:
    for message in row.messages:
        on_message(row.worker, message)
    if row.ending is not None:
        endings[row.ending.name] = row.ending


def _rows(
    settings: RaySettings, order: ActorArgs, chunks: Mapping[str, Json]
) -> Iterator[ChunkRow]:
    """Yield a row for each chunk that was not lost, in order of arrival."""
    actors = settings.actors_for(fitting(settings.slot), len(chunks))
    size = 1 if order.alone else call_size(len(chunks), actors)
    items = list(chunks.items())
    calls = [items[first : first + size] for first in range(0, len(items), size)]
    for first in range(0, len(calls), _CALLS_AT_ONCE):
        tables = [table_of(call) for call in calls[first : first + _CALLS_AT_ONCE]]
        with ray.data.DataContext.current(_context()):
            try:
                done = _done(settings, order, tables, min(actors, len(tables)))
                for table in done.iter_batches(batch_size=None, batch_format="pyarrow"):
                    yield from map(ChunkRow.of, values_of(table))
            except (RayError, OSError, RuntimeError, ValueError) as error:
                raise StageError(f"Ray failed: {last_words(str(error))}", stage="ray") from error


def _context() -> Any:
    context = ray.data.DataContext.get_current().copy()
    context.checkpoint_config = None
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.max_errored_blocks = -1  # the next round runs missing chunks
    context.execution_no_progress_timeout_s = -1  # a call may be long; a hung worker ends itself
    context.max_consecutive_actor_init_deaths = 5  # a machine may be lost while actors start on it
    return context


def _done(
    settings: RaySettings, order: ActorArgs, tables: list[pyarrow.Table], actors: int
) -> ray.data.Dataset:
    """Return the results of tables, one call each; nothing runs before the results are read.

    Tables are passed directly: Ray tasks that read and repartition a manifest would never start if
    actors hold all cores.
    """
    with warnings.catch_warnings():
        # The only bound on restarts of actors; Ray is pinned below 2.64.
        warnings.simplefilter("ignore", RayDeprecationWarning)
        return ray.data.from_arrow(tables).map_batches(
            ChunkActor,
            fn_constructor_kwargs={"order": json.dumps(to_dict(order))},
            batch_size=None,
            batch_format="pyarrow",
            # Calls queued at a lost actor are lost, so single chunks must not queue.
            compute=ray.data.ActorPoolStrategy(
                size=actors, max_tasks_in_flight_per_actor=1 if order.alone else 2
            ),
            num_cpus=settings.slot.num_cpus,
            num_gpus=settings.slot.num_gpus or None,
            # The pool replaces a lost actor; a call to a lost one is "unavailable".
            max_restarts=0,
            max_task_retries=0,
        )

"""A Ray cluster, joined for the time of a run."""

import logging
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Final

import ray

from headrace.errors import ConfigError
from headrace.extraction.ray.settings import AUTO, Slot

_QUIET: Final = ("ray", "ray.data")
"""Loggers: what matters of what they say, a run says in its own words."""

_KNOCK_SECONDS: Final = 5.0


@contextmanager
def joined(address: str) -> Iterator[None]:
    """Be part of a cluster while the block runs; what Ray prints goes to the standard error.

    Raises:
        ConfigError: there is none, or it runs other versions.
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
    """Return what each machine of the cluster has, by Ray's names."""
    return [each["Resources"] for each in ray.nodes() if each["Alive"]]


def fitting(slot: Slot) -> int:
    """Return how many actors find a slot on the machines of the cluster.

    Raises:
        ConfigError: none does.
    """
    found = sum(map(slot.times_in, machines()))
    if not found:
        cores, gpus = (sum(each.get(name, 0) for each in machines()) for name in ("CPU", "GPU"))
        wanted = f"{slot.num_cpus:g} core" + (" and 1 GPU" if slot.num_gpus else "")
        raise ConfigError(
            f"a worker takes {wanted}, and the cluster has {cores:g} cores and {gpus:g} GPUs on "
            f"{len(machines())} machines; ask for another --device, or add a machine"
        )
    return found


def _join(address: str) -> None:
    try:
        if address != AUTO:
            _knock(address)
        with _keeping_sigterm():
            ray.init(address, log_to_driver=False, logging_level=logging.CRITICAL)
    except (ConnectionError, TimeoutError) as error:
        found = (
            "no Ray cluster runs on this machine"
            if address == AUTO
            else "no head of a Ray cluster answers there"
        )
        raise ConfigError(
            f"--ray {address}: {found}; start one with `ray start --head`, or leave out --ray"
        ) from error
    except (RuntimeError, ValueError, OSError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise ConfigError(
            f"--ray {address}: the cluster cannot be joined: {reason}; check the address, and that "
            "all machines have the same versions of Ray and Python"
        ) from error


@contextmanager
def _keeping_sigterm() -> Iterator[None]:
    """Let SIGTERM be heard by who heard it before.

    Ray takes it for itself: the process would end there and then, and nothing done were kept.
    """
    heard = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        # Outside the main thread Ray leaves it alone, too; what C handles cannot be put back.
        with suppress(ValueError, TypeError):
            signal.signal(signal.SIGTERM, heard)


def _knock(address: str) -> None:
    """Do nothing if something listens at HOST:PORT; Ray itself would wait for minutes.

    Raises:
        OSError: nothing does.
    """
    host, _, port = address.rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), _KNOCK_SECONDS).close()

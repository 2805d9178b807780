"""Cores and threads that are worth trying, and what turns with them are called."""

from functools import partial
from typing import Final

from pydantic import PositiveInt

from headrace.profiling.provenance import Record
from headrace.runtime.affinity import cores_text

MODEL: Final = "model"
WHOLE: Final = "whole"


class Setting(Record):
    """Cores and threads that were tried."""

    way: str
    """What it is called: `all cores, 1 thread`."""
    cores: str | None
    """As `--core-bind` takes them; None: those that the process may use."""
    num_cores: PositiveInt
    threads: PositiveInt | None
    """Of one operation; None: as many as PyTorch chooses."""


def settings(cores: frozenset[int], *, can_bind: bool) -> tuple[Setting, ...]:
    """Return what is worth trying on these cores: all or half of them, all threads or one."""
    half = sorted(cores)[: len(cores) // 2]
    every = partial(Setting, cores=None, num_cores=len(cores))
    tried = [every(way="all cores", threads=None)]
    if len(cores) > 2:
        threads = len(cores) // 2
        tried.append(every(way=f"all cores, {threads} threads", threads=threads))
    if len(cores) > 1:
        tried.append(every(way="all cores, 1 thread", threads=1))
    if half and can_bind:
        bound = partial(Setting, cores=cores_text(half), num_cores=len(half))
        name = "1 core" if len(half) == 1 else f"{len(half)} cores"
        tried.append(bound(way=name, threads=None))
        if len(half) > 1:
            tried.append(bound(way=f"{name}, 1 thread", threads=1))
    return tuple(tried)


def way_of(kind: str, setting: Setting) -> str:
    """Return what the turns of the model alone, or of the whole path, are called."""
    return f"{kind}: {setting.way}"

"""The changes open to a loop that waits for its data, each with the gain a replay predicts."""

from collections.abc import Iterator
from typing import Final

from headrace.profiling.findings.advice import WORTHWHILE
from headrace.profiling.findings.finding import Change
from headrace.profiling.findings.loop_simulation import COPY_MS_PER_BYTE, LoopLoad

_WORKERS: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
_PREFETCH: Final = (4, 8, 16)
_ALIKE: Final = 0.95
"""Of the largest gain: fewer workers that reach it are as good."""
_IDLE: Final = 0.5
"""Below this share of processor time a batch waits for a disk or a network, not for a core."""
_QUIET: Final = 0.2
"""Share of other programs, up to which a batch that took no core did not want one."""
_PER_CORE: Final = 4
"""Workers a core that may be worth it where they mostly wait."""
_UINT8: Final = 4.0
"""float32 takes so many times the bytes."""
_SATURATED: Final = 0.8
"""Share of the time at work from which workers set the pace."""
_MOSTLY: Final = 0.5


def is_of_handover(load: LoopLoad) -> bool:
    """Return whether a loop waits for batches to be handed over, more than for them to be made."""
    busy = load.workers_busy
    return busy is not None and busy < _SATURATED and load.handover_ms >= _MOSTLY * load.wait_ms


def best_loader_change(load: LoopLoad) -> Change:
    """Return the change of the data path with the largest predicted gain.

    A switch is preferred where one brings something; else what costs most is named.
    """
    if load.loader.kind != "DataLoader":
        return _of_other(load)
    known = [each for each in _switches(load) if each.gain and each.gain >= WORTHWHILE]
    return max(known, key=lambda each: each.gain or 0.0) if known else _cheaper(load)


def _switches(load: LoopLoad) -> Iterator[Change]:
    if not load.batches:
        return
    if load.loader.workers:
        yield _no_workers(load)
        yield from _smaller(load)
    if not is_of_handover(load):
        yield from _more_workers(load)
        yield from _deeper(load)


def _no_workers(load: LoopLoad) -> Change:
    return Change(
        words="num_workers=0",
        gain=load.gain(workers=0),
        rests_on=f"a batch takes {load.batch_ms:.3g} ms to make, and the loop waits "
        f"{load.handover_ms:.3g} ms for one to be handed over; more may come, since collating "
        "without shared memory is cheaper",
    )


def _more_workers(load: LoopLoad) -> Iterator[Change]:
    loader = load.loader
    prefetch = loader.prefetch_factor or 2
    gains = {n: load.gain(workers=n, prefetch=prefetch) or 0.0 for n in _possible(load)}
    if not gains:
        return
    best = max(gains.values())
    number = next(n for n, gain in gains.items() if gain >= _ALIKE * best)
    if loader.workers:
        reason = (
            f"a batch takes {load.batch_ms:.3g} ms of a worker, and the "
            f"rest of a step {_rest(load):.3g} ms"
        )
    else:
        reason = (
            f"a batch takes {load.batch_ms:.3g} ms and the rest of a step {_rest(load):.3g} "
            "ms, one after the other now"
        )
    yield Change(words=f"num_workers={number}", gain=gains[number], rests_on=reason)


def _deeper(load: LoopLoad) -> Iterator[Change]:
    own, prefetch = load.loader.workers, load.loader.prefetch_factor or 2
    deeper = [n for n in _PREFETCH if n > prefetch] if own else []
    if not own or not deeper:
        return
    gains = {n: load.gain(workers=own, prefetch=n) or 0.0 for n in deeper}
    best = max(gains.values())
    number = next(n for n, gain in gains.items() if gain >= _ALIKE * best)
    yield Change(
        words=f"prefetch_factor={number}",
        gain=gains[number],
        rests_on=f"batches take {min(load.batches):.3g} to {max(load.batches):.3g} ms, "
        "and more of them ahead would even that out",
    )


def _possible(load: LoopLoad) -> list[int]:
    """Numbers of workers above the present one that this machine can carry."""
    cpu_ms, batch_ms = load.loader.batch_cpu_ms, load.batch_ms
    is_idle = cpu_ms is not None and batch_ms is not None and cpu_ms < _IDLE * batch_ms
    is_idle &= load.others < _QUIET  # else it may have waited for a core that others had
    most = max(2, load.cores * (_PER_CORE if is_idle else 1))
    return [n for n in _WORKERS if (load.loader.workers or 0) < n <= most]


def _smaller(load: LoopLoad) -> Iterator[Change]:
    """Fewer bytes, where a good part of a step is a batch on its way from its worker."""
    loader = load.loader
    if not loader.handover_wait_ms or not loader.batch_bytes or not loader.has_float32:
        return
    copied_ms = loader.batch_bytes * COPY_MS_PER_BYTE
    whole, collate = load.batch_ms or 0.0, load.collate_ms or 0.0
    fewer = 1 - 1 / _UINT8
    yield Change(
        words="Let the workers give uint8 and convert on the device of the model: a quarter of "
        "the bytes",
        gain=load.gain(
            workers=loader.workers or 0,
            prefetch=loader.prefetch_factor or 2,
            cheaper=whole / (whole - fewer * min(copied_ms, collate)) if whole else 1.0,
            handover_saved_ms=fewer * min(copied_ms, loader.handover_wait_ms),
        ),
        rests_on=f"a batch of {loader.batch_bytes / 1e6:.3g} MB is on its way for "
        f"{loader.handover_wait_ms:.3g} ms",
    )


def _cheaper(load: LoopLoad) -> Change:
    """The path itself: what costs most in it, and what half of that would bring."""
    if load.fetch_ms is None or load.collate_ms is None:
        return Change(
            words="Make what the dataset does for a sample cheaper",
            most=load.total_ms / max(1e-6, _rest(load)),
        )
    costly = "__getitem__" if load.fetch_ms >= load.collate_ms else "collate_fn"
    costs = max(load.fetch_ms, load.collate_ms)
    whole = load.fetch_ms + load.collate_ms
    half = whole / (whole - costs / 2) if whole else 1.0
    loader = load.loader
    found = load.gain(
        workers=loader.workers or 0, prefetch=loader.prefetch_factor or 2, cheaper=half
    )
    if not found or found < WORTHWHILE or is_of_handover(load):
        return Change(
            words="A larger batch_size: fewer batches go from worker to loop",
            most=load.total_ms / max(1e-6, load.total_ms - load.handover_ms),
        )
    return Change(
        words=f"Half of the work in {costly}",
        gain=found,
        rests_on=f"it takes {costs:.3g} of the {whole:.3g} ms of a batch",
    )


def _of_other(load: LoopLoad) -> Change:
    rest = max(1e-6, _rest(load))
    if load.loader.kind == "headrace":
        return Change(
            words="Fewer pixels to decode: videos of a smaller size, or with closer keyframes "
            "(`headrace plan` tells what both bring)",
            most=load.total_ms / rest,
        )
    least = (load.loader.loop_cpu_ms or 0.0) / load.cores
    return Change(
        words="Make batches ahead, in another process: a DataLoader with num_workers=1",
        gain=load.total_ms / max(rest, load.wait_ms, least),
        rests_on=f"a batch takes {load.wait_ms:.3g} ms and the rest of a step {rest:.3g} ms, one "
        "after the other now",
    )


def _rest(load: LoopLoad) -> float:
    return load.total_ms - load.wait_ms

"""Changes to the loader of a loop that waits for data; a simulation predicts their gains."""

from collections.abc import Iterator, Mapping
from typing import Final, Literal

from headrace.profiling.findings.advice import WORTHWHILE
from headrace.profiling.findings.finding import Change
from headrace.profiling.findings.loop_simulation import LoopLoad
from headrace.profiling.number_format import megabytes, three_digits, times

_WORKERS: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Numbers of workers to simulate."""
_PREFETCH: Final = (4, 8, 16)
"""Prefetch factors to simulate."""
_SIMILAR: Final = 0.95
"""Min gain of a smaller setting, as a share of the largest gain, to prefer it."""
_IDLE: Final = 0.5
"""CPU time ÷ time of loading a batch; below it, loading mostly waits for a disk or a network."""
_QUIET: Final = 0.2
"""CPU share of other programs; from it on, an idle worker may have waited for a core."""
_MAX_PER_CORE: Final = 4
"""Max workers per core if they mostly wait for a disk or a network."""
_MIN_BYTES: Final = 1_000_000
"""Min bytes of a batch for the advice to transfer fewer of them."""
_FLOAT32_BYTES: Final = 4.0
"""Bytes of float32 per byte of uint8."""
_SATURATED: Final = 0.8
"""Min busy share of workers that are the bottleneck."""
_MAJORITY: Final = 0.5
_MAX_AMPLIFICATION: Final = 2.0
"""Max frames decoded per frame delivered without advice to reduce them."""


def is_bound_by_queue_transfer(load: LoopLoad) -> bool:
    """Return whether at least half of the wait is for transfers, and the workers are not busy."""
    busy = load.workers_busy
    return busy is not None and busy < _SATURATED and load.handover_ms >= _MAJORITY * load.wait_ms


def best_loader_change(load: LoopLoad) -> Change:
    """Return the change of the loader with the largest predicted gain.

    If no setting has a worthwhile gain, the change names the costliest part of a batch.
    """
    if load.loader.kind != "DataLoader":
        return _change_other_loader(load)
    best = max(_settings(load), key=_gain_at_most, default=None)
    return best if best and _gain_at_most(best) >= WORTHWHILE else _cheaper_batch(load)


def other_loader(load: LoopLoad) -> Change | None:
    """Return the change to a loader of headrace; None: the dataset does not decode video."""
    if not load.loader.decoder or costliest_part(load) != "__getitem__":
        return None
    return Change(
        words="headrace.FrameLoader or ClipLoader in place of this dataset, if it seeks for each "
        "item: they decode each GOP once for many items (`headrace plan FILES` predicts the speed)",
        most=load.total_ms / max(1e-6, load.step_ms),
    )


def _gain_at_most(change: Change) -> float:
    return change.gain or change.most or 0.0


def _settings(load: LoopLoad) -> Iterator[Change]:
    if not load.batches:
        return
    if load.loader.workers:
        yield Change(
            words="num_workers=0",
            gain=load.gain(workers=0),
            is_least=True,
            evidence=f"a batch takes {three_digits(load.batch_ms)} ms to load, and its transfer to "
            f"the loop {three_digits(load.handover_ms)} ms; loading is cheaper without shared "
            "memory",
            options={"num_workers": 0},
        )
        yield from _smaller_batch(load)
    if not is_bound_by_queue_transfer(load):
        yield from _more_workers(load)
        yield from _more_prefetch(load)


def _more_workers(load: LoopLoad) -> Iterator[Change]:
    gains = {
        workers: load.gain(workers=workers, prefetch=load.prefetch) or 0.0
        for workers in _possible_workers(load)
    }
    if not gains:
        return
    workers = _smallest_good(gains)
    evidence = (
        f"a batch takes a worker {three_digits(load.batch_ms)} ms, and the rest of a step "
        f"{three_digits(load.step_ms)} ms"
    )
    if not load.loader.workers:
        evidence = (
            f"a batch takes {three_digits(load.batch_ms)} ms and the rest of a step "
            f"{three_digits(load.step_ms)} ms, now one after the other"
        )
    gain: float | None = gains[workers]
    if _waits_outside(load):
        at_most = times(gains[workers])
        evidence += (
            f"; at most {at_most}, if the disk or network that batches wait for serves {workers} "
            "workers as fast as one"
        )
        gain = None
    yield Change(
        words=f"num_workers={workers}",
        gain=gain,
        most=gains[workers],
        evidence=evidence,
        options={"num_workers": workers},
    )


def _more_prefetch(load: LoopLoad) -> Iterator[Change]:
    workers = load.loader.workers
    deeper = [prefetch for prefetch in _PREFETCH if prefetch > load.prefetch]
    if not workers or not deeper:
        return
    gains = {prefetch: load.gain(workers=workers, prefetch=prefetch) or 0.0 for prefetch in deeper}
    prefetch = _smallest_good(gains)
    yield Change(
        words=f"prefetch_factor={prefetch}",
        gain=gains[prefetch],
        evidence=f"batches take {three_digits(min(load.batches))} to "
        f"{three_digits(max(load.batches))} ms; a deeper prefetch evens this out",
        options={"prefetch_factor": prefetch},
    )


def _smallest_good(gains: Mapping[int, float]) -> int:
    """Return the smallest setting whose gain is close to the largest."""
    best = max(gains.values())
    return next(setting for setting, gain in gains.items() if gain >= _SIMILAR * best)


def _possible_workers(load: LoopLoad) -> list[int]:
    """Return the numbers of workers, above the current one, that this machine can run."""
    max_workers = max(2, load.cores * (_MAX_PER_CORE if _waits_outside(load) else 1))
    return [n for n in _WORKERS if (load.loader.workers or 0) < n <= max_workers]


def _waits_outside(load: LoopLoad) -> bool:
    """Return whether loading a batch mostly waits for a disk or a network."""
    cpu_ms, batch_ms = load.loader.batch_cpu_ms, load.batch_ms
    is_idle = cpu_ms is not None and batch_ms is not None and cpu_ms < _IDLE * batch_ms
    # On a busy machine, an idle worker may have waited for a core.
    return is_idle and (load.is_corrected or load.others < _QUIET)


def _smaller_batch(load: LoopLoad) -> Iterator[Change]:
    """Yield the change to uint8 if the transfer of float32 batches takes time."""
    loader, copy_ms = load.loader, load.copy_ms
    batch_bytes = loader.batch_bytes or 0
    if not load.sent_ms or batch_bytes < _MIN_BYTES or not loader.has_float32:
        return
    batch_ms, collate_ms = load.batch_ms or 0.0, load.collate_ms or 0.0
    saved = 1 - 1 / _FLOAT32_BYTES
    yield Change(
        words="Return uint8 from the workers and convert on the device of the model: a quarter of "
        "the bytes",
        gain=load.gain(
            workers=loader.workers or 0,
            prefetch=load.prefetch,
            cheaper=batch_ms / (batch_ms - saved * min(copy_ms, collate_ms)) if batch_ms else 1.0,
            handover_saved_ms=saved * min(copy_ms, load.sent_ms),
        ),
        evidence=f"the transfer of a batch of {three_digits(batch_bytes / 1e6)} MB takes "
        f"{three_digits(load.sent_ms)} ms",
    )


def _cheaper_batch(load: LoopLoad) -> Change:
    """Return the change to halve the costliest part of a batch, or to transfer fewer batches."""
    if load.fetch_ms is None or load.collate_ms is None:
        return Change(
            words="Make __getitem__ of the dataset cheaper",
            most=load.total_ms / max(1e-6, load.step_ms),
        )
    cost_ms = max(load.fetch_ms, load.collate_ms)
    batch_ms = load.fetch_ms + load.collate_ms
    gain = load.gain(
        workers=load.loader.workers or 0,
        prefetch=load.prefetch,
        cheaper=batch_ms / (batch_ms - cost_ms / 2) if batch_ms else 1.0,
    )
    if not gain or gain < WORTHWHILE or is_bound_by_queue_transfer(load):
        return Change(
            words="A larger batch_size: fewer transfers from worker to loop",
            most=load.total_ms / max(1e-6, load.total_ms - load.handover_ms),
        )
    return Change(
        words=_words_for_half(load),
        gain=gain,
        evidence=f"it takes {three_digits(cost_ms)} of the {three_digits(batch_ms)} ms of a batch",
    )


def costliest_part(load: LoopLoad) -> Literal["__getitem__", "collate_fn"]:
    """Return the part that takes most of loading a batch."""
    return "__getitem__" if (load.fetch_ms or 0.0) >= (load.collate_ms or 0.0) else "collate_fn"


def _words_for_half(load: LoopLoad) -> str:
    if costliest_part(load) == "__getitem__":
        return "Half of the work in __getitem__"
    if load.loader.collate != "default":
        at = f" ({load.loader.collate})" if load.loader.collate else ""
        return f"Half of the work in collate_fn{at}"
    size = f"{three_digits((load.loader.batch_bytes or 0) / 1e6)} MB"
    return f"Half of the bytes of a sample: PyTorch's default collate_fn stacks {size} a batch"


def _change_other_loader(load: LoopLoad) -> Change:
    step_ms = max(1e-6, load.step_ms)
    if load.loader.kind == "headrace":
        return _fewer_decodes(load) or Change(
            words="Fewer pixels to decode: smaller videos, or closer keyframes (`headrace plan` "
            "predicts the gain of both)",
            most=load.total_ms / step_ms,
        )
    min_ms = (load.loader.loop_cpu_ms or 0.0) / load.cores
    return Change(
        words="Load batches ahead, in another process: a DataLoader with num_workers=1",
        gain=load.total_ms / max(step_ms, load.wait_ms, min_ms),
        evidence=f"a batch takes {three_digits(load.wait_ms)} ms and the rest of a step "
        f"{three_digits(step_ms)} ms, now one after the other",
    )


def _fewer_decodes(load: LoopLoad) -> Change | None:
    """Return the change that decodes fewer frames again; None: no such change is known.

    While the loop waits, all threads decode, so a step takes as long as the decoding of its batch.
    A step is never shorter than its other parts. Options of the loader are preferred to a disk.
    """
    decoding = load.loader.decoding
    if decoding is None or decoding.amplification <= _MAX_AMPLIFICATION or decoding.store == "used":
        return None
    rest_ms = max(1e-6, load.step_ms, load.total_ms - decoding.starved_ms)
    if load.total_ms / rest_ms < WORTHWHILE:
        return None
    threads = min(decoding.threads, load.cores)
    pack_ms, unpack_ms = (
        (core_ms or 0.0) / threads for core_ms in (decoding.pack_ms, decoding.unpack_ms)
    )
    packing_ms = pack_ms + unpack_ms if decoding.is_packed else 0.0
    once_ms = max(0.0, load.total_ms - packing_ms) / decoding.amplification
    now = f"{decoding.amplification:.1f} frames are decoded per frame delivered"
    if decoding.wider is not None and decoding.wider_amplification is not None:
        after_ms = once_ms * decoding.wider_amplification + packing_ms
        gain = load.total_ms / max(rest_ms, after_ms)
        if gain >= WORTHWHILE:
            then = f"{now}, about {decoding.wider_amplification:.1f} then, by the GOP lengths"
            if not decoding.wider.startswith("hold="):
                return Change(words=decoding.wider, gain=gain, evidence=then)
            at_most = f"at most {times(gain)}, because the time to pack was not measured"
            return Change(words=decoding.wider, evidence=f"{at_most}: {then}")
    if decoding.store == "impossible":
        return None
    spill, once = 'spill="DIR", a folder on a local disk', "each frame is decoded once, then read"
    if decoding.store_bytes is None:
        words = f"{spill}: {once} (`headrace plan --spill DIR` predicts bytes and gain)"
        return Change(words=words, most=load.total_ms / rest_ms, evidence=now)
    first_ms = (once_ms + pack_ms) * decoding.store_amplification + unpack_ms
    # The unpacking threads share the cores with the step.
    later_ms = max(unpack_ms, (threads * unpack_ms + rest_ms) / load.cores)
    first, later = (load.total_ms / max(rest_ms, ms) for ms in (first_ms, later_ms))
    if later < WORTHWHILE:
        return None
    return Change(
        words=f"{spill} with {megabytes(decoding.store_bytes)} free: {once}",
        gain=later,
        evidence=f"after the first epoch, and {times(first)} in the first epoch: {now}, at most "
        f"{decoding.store_amplification:.1f} in the first epoch, and later a batch is unpacked in "
        f"{three_digits(unpack_ms)} ms; the time of the disk is not known",
    )

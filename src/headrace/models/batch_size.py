"""Batch size of a model, chosen by measurement."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import psutil
import torch

from headrace.errors import BackendError, first_line
from headrace.models.compute import MAX_BATCH_SIZE, Device
from headrace.models.device import is_out_of_memory
from headrace.models.memory_table import KnownPeaks, bytes_per_frame, predicted_peak
from headrace.models.model import Model, warm_up
from headrace.runtime.clock import Clock

_RATE_SHARE: Final = 0.95
"""Share of the best rate that is enough, because the smallest batch needs the least memory."""
_REPETITIONS: Final = 2
"""Timed runs per batch size, after one warm-up run."""
_MEMORY_SHARE: Final = 0.25
"""Max share of the free main memory."""
_GPU_SHARE: Final = 0.9
"""Max share of the free GPU memory; the rest is for other programs."""
_BUFFERED_BATCHES: Final = 14
"""Batches of decoded frames that a run holds, decoded ahead or in transfer."""


@dataclass(frozen=True, kw_only=True)
class BatchChoice:
    """Chosen batch size."""

    batch_size: int
    reason: str
    """Reason for the size, with figures."""


def choose_batch_size(
    model: Model[Any],
    *,
    frame_size: tuple[int, int],
    max_batch_size: int,
    budget_seconds: float,
    clock: Clock,
    known: KnownPeaks | None = None,
) -> BatchChoice:
    """Return the batch size of a prepared model: a power of two.

    On the CPU it is the size with the best rate, on a GPU the largest size that fits into GPU
    memory. Main memory for frames and model limits both.

    Args:
        model: Model on its device; it is run on zeros.
        frame_size: (height, width) of the decoded frames.
        max_batch_size: Max frames in a batch, for example all frames of the run.
        budget_seconds: Wall seconds after which no further size is tried on the CPU.
        clock: Clock for the timings.
        known: Measured memory of batches; sizes that cannot fit are not tried.

    Raises:
        BackendError: the model cannot run a single frame on its device.
    """
    warm_up(model, model.input.shape(1, frame_size))
    device, known_bytes = model.compute.device, _known_bytes(known)
    height, width = frame_size
    item_bytes = height * width * 3 * _BUFFERED_BATCHES
    if device == "cpu":
        item_bytes += known_bytes or _activation_bytes(model, frame_size)
    budget = int(_MEMORY_SHARE * psutil.virtual_memory().available)
    limit = max(1, min(max_batch_size, MAX_BATCH_SIZE, budget // item_bytes))

    def run(batch_size: int) -> None:
        shape = model.input.shape(batch_size, frame_size)
        model.run(torch.zeros(shape, device=model.compute.entry_device))

    choice = choose_for(
        run, device, max_batch_size=limit, budget_seconds=budget_seconds, clock=clock, known=known
    )
    if device != "cpu" or known is None or known_bytes is None:
        return choice
    return replace(choice, reason=f"{choice.reason}; memory per frame from {known.origin}")


def choose_for(
    run: Callable[[int], object],
    device: Device,
    *,
    max_batch_size: int,
    budget_seconds: float,
    clock: Clock,
    known: KnownPeaks | None = None,
) -> BatchChoice:
    """Return the batch size for `run`: by rate on the CPU, by memory on a GPU.

    Args:
        run: Runs a batch of the given size.
        device: Device of `run`.
        max_batch_size: Max samples in a batch.
        budget_seconds: See `choose_batch_size`.
        clock: Clock for the timings.
        known: See `choose_batch_size`.

    Raises:
        BackendError: `run` fails for a single sample.
    """
    if device == "cpu":
        return fastest(
            run, max_batch_size=max_batch_size, budget_seconds=budget_seconds, clock=clock
        )
    free, _ = torch.cuda.mem_get_info()
    return largest(
        run,
        _peak_bytes,
        max_batch_size=max_batch_size,
        limit_bytes=int(_GPU_SHARE * free),
        known=known,
    )


def fastest(
    run: Callable[[int], object], *, max_batch_size: int, budget_seconds: float, clock: Clock
) -> BatchChoice:
    """Return the smallest power of two whose rate is within 5 % of the best measured rate.

    Sizes double until two in a row are no faster than an earlier size, or time or memory ends.
    """
    stop_ns = clock.now_ns() + round(budget_seconds * 1e9)
    rates: dict[int, float] = {}
    stop_reason = _at_limit(max_batch_size)
    for size in _powers_of_two(max_batch_size):
        spent = size / rates[size // 2] * (_REPETITIONS + 1) if rates else 0.0
        if clock.now_ns() + spent * 1e9 > stop_ns:
            stop_reason = "larger sizes would take too long to measure"
            break
        try:
            rates[size] = size / _seconds(run, size, clock)
        except RuntimeError as error:
            _check_memory(error, size)
            stop_reason = f"a batch of {size} does not fit into memory"
            break
        if len(rates) > 2 and max(rates, key=rates.__getitem__) < size // 2:
            stop_reason = "larger sizes are no faster"
            break
    best = max(rates.values())
    chosen = min(size for size, rate in rates.items() if rate >= _RATE_SHARE * best)
    measured = ", ".join(f"{size}: {rate:.3g}" for size, rate in rates.items())
    return BatchChoice(
        batch_size=chosen,
        reason=f"batch size {chosen} was chosen for its rate; frames/s of the model by batch size: "
        f"{measured}; {stop_reason}",
    )


def largest(
    run: Callable[[int], object],
    peak_bytes: Callable[[], int],
    *,
    max_batch_size: int,
    limit_bytes: int,
    known: KnownPeaks | None = None,
) -> BatchChoice:
    """Return the largest power of two that fits the memory, extrapolated from smaller sizes.

    Args:
        run: Runs the model with the given number of frames.
        peak_bytes: Returns the peak memory since its last call, in bytes.
        max_batch_size: Max frames in a batch.
        limit_bytes: Memory limit, in bytes.
        known: Measured memory of batches: the largest size predicted to fit is tried first, and
            halved until it fits.

    Raises:
        BackendError: a single frame does not fit, or the model fails for another reason.
    """
    if known is not None:
        return _largest_known(
            run, peak_bytes, max_batch_size=max_batch_size, limit_bytes=limit_bytes, known=known
        )
    peaks: dict[int, int] = {}
    stop_reason = _at_limit(max_batch_size)
    for size in _powers_of_two(max_batch_size):
        if len(peaks) > 1 and predicted_peak(peaks, size) > limit_bytes:
            stop_reason = f"a batch of {size} would not fit into {limit_bytes / 2**30:.3g} GiB"
            break
        peak = _peak_of(run, peak_bytes, size)
        if peak is None:
            stop_reason = f"a batch of {size} does not fit into memory"
            break
        peaks[size] = peak
    return _largest_choice(max(peaks), peaks[max(peaks)], stop_reason)


def _largest_known(
    run: Callable[[int], object],
    peak_bytes: Callable[[], int],
    *,
    max_batch_size: int,
    limit_bytes: int,
    known: KnownPeaks,
) -> BatchChoice:
    stop_reason = _at_limit(max_batch_size)
    chosen = 1
    for size in _powers_of_two(max_batch_size):
        predicted = predicted_peak(known.peaks, size)
        if predicted > limit_bytes:
            stop_reason = f"a batch of {size} would need {predicted / 2**20:.0f} MiB"
            break
        chosen = size
    while (peak := _peak_of(run, peak_bytes, chosen)) is None:
        stop_reason = f"a batch of {chosen} does not fit into memory now"
        chosen //= 2
    stop_reason = f"by {known.origin}, the start of the search, {stop_reason}"
    return _largest_choice(chosen, peak, stop_reason)


def _largest_choice(batch_size: int, peak: int, stop_reason: str) -> BatchChoice:
    return BatchChoice(
        batch_size=batch_size,
        reason=f"batch size {batch_size} was chosen as the largest that fits: it needs "
        f"{peak / 2**20:.0f} MiB of device memory; {stop_reason}",
    )


def _peak_of(run: Callable[[int], object], peak_bytes: Callable[[], int], size: int) -> int | None:
    """Return the peak memory of a batch; None if it does not fit."""
    try:
        peak_bytes()
        run(size)
        return peak_bytes()
    except RuntimeError as error:
        _check_memory(error, size)
        return None


def _at_limit(max_batch_size: int) -> str:
    return f"{max_batch_size} is the limit by frames or memory"


def _powers_of_two(max_batch_size: int) -> Iterator[int]:
    size = 1
    while size <= max_batch_size:
        yield size
        size *= 2


def _seconds(run: Callable[[int], object], size: int, clock: Clock) -> float:
    run(size)
    durations = []
    for _ in range(_REPETITIONS):
        start_ns = clock.now_ns()
        run(size)
        durations.append(max(1, clock.now_ns() - start_ns) / 1e9)
    return min(durations)


def _check_memory(error: RuntimeError, size: int) -> None:
    """Ignore an out-of-memory error of a batch above one frame; raise other errors."""
    if size == 1 or not is_out_of_memory(error):
        raise BackendError(
            f"cannot choose a batch size: the model fails with batches of {size}: "
            f"{first_line(error)}; use a smaller model or another --device"
        ) from error


def _known_bytes(known: KnownPeaks | None) -> int | None:
    """Return the bytes per frame of a batch; None: fewer than two sizes are known."""
    if known is None or len(known.peaks) < 2:
        return None
    *_, low, high = sorted(known.peaks)
    return max(0, round(bytes_per_frame(known.peaks, low, high)))


def _activation_bytes(model: Model[Any], frame_size: tuple[int, int]) -> int:
    """Return the bytes of all layer outputs for one frame: an upper bound of the bytes in use."""
    num_bytes = 0

    def add(module: object, args: object, output: object) -> None:
        nonlocal num_bytes
        num_bytes += output.nbytes if isinstance(output, torch.Tensor) else 0

    hooks = [module.register_forward_hook(add) for module in model.module.modules()]
    try:
        model.run(torch.zeros(model.input.shape(1, frame_size)))
    finally:
        for hook in hooks:
            hook.remove()
    return num_bytes


def _peak_bytes() -> int:
    torch.cuda.empty_cache()
    peak: int = torch.cuda.max_memory_reserved()
    torch.cuda.reset_peak_memory_stats()
    return peak

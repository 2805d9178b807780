"""Choice of the batch size of a model, by running it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import psutil
import torch

from headrace.errors import BackendError, first_line
from headrace.models.compute import LARGEST, Device
from headrace.models.gpu_memory import is_out_of_memory
from headrace.models.memory_table import KnownPeaks, bytes_per_frame, predicted_peak
from headrace.models.model import Model
from headrace.models.prepare import warm_up
from headrace.runtime.clock import Clock

_ENOUGH: Final = 0.95
"""Share of the best rate; the smallest batch that reaches it is chosen, because it needs less
memory."""
_TURNS: Final = 2
"""Measured runs of each size, after one warm-up run."""
_MEMORY_SHARE: Final = 0.25
"""Max share of the free main memory."""
_GPU_SHARE: Final = 0.9
"""Max share of the free GPU memory; the rest is for other programs."""
_BATCHES_WAITING: Final = 14
"""Batches of decoded frames that a run holds: decoded ahead, or in transfer."""


@dataclass(frozen=True, kw_only=True)
class BatchChoice:
    """Chosen batch size."""

    batch_size: int
    why: str
    """Reason, with figures."""


def choose_batch_size(
    model: Model[Any],
    *,
    picture_size: tuple[int, int],
    most: int,
    budget_seconds: float,
    clock: Clock,
    known: KnownPeaks | None = None,
) -> BatchChoice:
    """Return the batch size of a prepared model.

    A power of two: on the CPU the size with the best rate, on a GPU the largest that fits its
    memory. Both are limited by the main memory for frames and model.

    Args:
        model: Model on its device; it is run on zeros.
        picture_size: (height, width) of the decoded frames.
        most: Max frames in a batch, for example the number of frames.
        budget_seconds: Wall seconds after which no further size is tried on the CPU.
        clock: Clock for the timings.
        known: Measured memory of batches; sizes that cannot fit are not tried.

    Raises:
        BackendError: the model cannot run even one frame on its device.
    """
    warm_up(model, model.input.shape(1, picture_size))
    device, known_bytes = model.compute.device, _known_bytes(known)
    height, width = picture_size
    item_bytes = height * width * 3 * _BATCHES_WAITING
    if device == "cpu":
        item_bytes += known_bytes or _activation_bytes(model, picture_size)
    budget = int(_MEMORY_SHARE * psutil.virtual_memory().available)
    bound = max(1, min(most, LARGEST, budget // item_bytes))

    def run(batch_size: int) -> None:
        shape = model.input.shape(batch_size, picture_size)
        model.run(torch.zeros(shape, device=model.compute.entry_device))

    choice = choose_for(
        run, device, most=bound, budget_seconds=budget_seconds, clock=clock, known=known
    )
    if device != "cpu" or known is None or known_bytes is None:
        return choice
    return replace(choice, why=f"{choice.why}; what a frame takes is from {known.origin}")


def choose_for(
    run: Callable[[int], object],
    device: Device,
    *,
    most: int,
    budget_seconds: float,
    clock: Clock,
    known: KnownPeaks | None = None,
) -> BatchChoice:
    """Return the batch size for `run`: by rate on the CPU, by memory on a GPU.

    Args:
        run: Runs a batch of a number of samples.
        device: Device of `run`.
        most: Max samples in a batch.
        budget_seconds: See `choose_batch_size`.
        clock: Clock for the timings.
        known: See `choose_batch_size`.

    Raises:
        BackendError: `run` fails even for one sample.
    """
    if device == "cpu":
        return fastest(run, most=most, budget_seconds=budget_seconds, clock=clock)
    free, _ = torch.cuda.mem_get_info()
    return largest(run, _peak_bytes, most=most, limit_bytes=int(_GPU_SHARE * free), known=known)


def fastest(
    run: Callable[[int], object], *, most: int, budget_seconds: float, clock: Clock
) -> BatchChoice:
    """Return the smallest power of two whose rate is within 5 % of the best measured rate.

    Sizes grow until two in a row are no faster than an earlier size, or time or memory runs out.
    """
    stop_ns = clock.now_ns() + round(budget_seconds * 1e9)
    rates: dict[int, float] = {}
    ended = f"{most} are the most there is reason or memory for"
    for size in _powers(most):
        spent = size / rates[size // 2] * (_TURNS + 1) if rates else 0.0
        if clock.now_ns() + spent * 1e9 > stop_ns:
            ended = "larger ones would take too long to measure"
            break
        try:
            rates[size] = size / _seconds(run, size, clock)
        except RuntimeError as error:
            _check_memory(error, size)
            ended = f"{size} do not fit into the memory"
            break
        if len(rates) > 2 and max(rates, key=rates.__getitem__) < size // 2:
            ended = "larger ones are no faster"
            break
    best = max(rates.values())
    chosen = min(size for size, rate in rates.items() if rate >= _ENOUGH * best)
    measured = ", ".join(f"{size}: {rate:.3g}" for size, rate in rates.items())
    return BatchChoice(
        batch_size=chosen,
        why=f"batch size {chosen} was chosen for its rate; frames/s of the model by batch size: "
        f"{measured}; {ended}",
    )


def largest(
    run: Callable[[int], object],
    peak_bytes: Callable[[], int],
    *,
    most: int,
    limit_bytes: int,
    known: KnownPeaks | None = None,
) -> BatchChoice:
    """Return the largest power of two that fits the memory, extrapolated from smaller sizes.

    Args:
        run: Runs the model with a number of frames.
        peak_bytes: Returns the peak memory in use since its last call.
        most: Max frames in a batch.
        limit_bytes: Total bytes of memory.
        known: Measured memory of batches: the largest size predicted to fit is tried first, and
            halved until it fits.

    Raises:
        BackendError: one frame alone does not fit, or the model fails otherwise.
    """
    if known is not None:
        return _largest_known(run, peak_bytes, most=most, limit_bytes=limit_bytes, known=known)
    peaks: dict[int, int] = {}
    ended = f"{most} are the most there is reason or memory for"
    for size in _powers(most):
        if len(peaks) > 1 and predicted_peak(peaks, size) > limit_bytes:
            ended = f"{size} would not fit into {limit_bytes / 2**30:.3g} GiB"
            break
        peak = _peak_of(run, peak_bytes, size)
        if peak is None:
            ended = f"{size} do not fit into the memory"
            break
        peaks[size] = peak
    chosen = max(peaks)
    return _largest_choice(chosen, peaks[chosen], ended)


def _largest_known(
    run: Callable[[int], object],
    peak_bytes: Callable[[], int],
    *,
    most: int,
    limit_bytes: int,
    known: KnownPeaks,
) -> BatchChoice:
    ended = f"{most} are the most there is reason or memory for"
    chosen = 1
    for size in _powers(most):
        predicted = predicted_peak(known.peaks, size)
        if predicted > limit_bytes:
            ended = f"{size} would take {predicted / 2**20:.0f} MiB"
            break
        chosen = size
    while (peak := _peak_of(run, peak_bytes, chosen)) is None:
        ended = f"{chosen} do not fit into the memory now"
        chosen //= 2
    return _largest_choice(chosen, peak, f"by {known.origin}, where the search began, {ended}")


def _largest_choice(batch_size: int, peak: int, ended: str) -> BatchChoice:
    return BatchChoice(
        batch_size=batch_size,
        why=f"batch size {batch_size} was chosen as the largest that fits: it takes "
        f"{peak / 2**20:.0f} MiB of the device; {ended}",
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


def _powers(most: int) -> Iterator[int]:
    size = 1
    while size <= most:
        yield size
        size *= 2


def _seconds(run: Callable[[int], object], size: int, clock: Clock) -> float:
    run(size)
    turns = []
    for _ in range(_TURNS):
        began_ns = clock.now_ns()
        run(size)
        turns.append(max(1, clock.now_ns() - began_ns) / 1e9)
    return min(turns)


def _check_memory(error: RuntimeError, size: int) -> None:
    """Ignore an out-of-memory error of a batch above one frame; raise other errors."""
    words = first_line(error)
    if size == 1 or not is_out_of_memory(error):
        raise BackendError(
            f"no batch size can be chosen, the model fails with batches of {size}: {words}; "
            "use a smaller model or another --device"
        ) from error


def _known_bytes(known: KnownPeaks | None) -> int | None:
    """Return the bytes per frame of a batch; None if fewer than two sizes are known."""
    if known is None or len(known.peaks) < 2:
        return None
    *_, low, high = sorted(known.peaks)
    return max(0, round(bytes_per_frame(known.peaks, low, high)))


def _activation_bytes(model: Model[Any], picture_size: tuple[int, int]) -> int:
    """Return the bytes of all layer outputs for one frame: an upper limit of the bytes held at one
    time."""
    num_bytes = 0

    def add(module: object, given: object, output: object) -> None:
        nonlocal num_bytes
        num_bytes += output.nbytes if isinstance(output, torch.Tensor) else 0

    hooks = [module.register_forward_hook(add) for module in model.module.modules()]
    try:
        model.run(torch.zeros(model.input.shape(1, picture_size)))
    finally:
        for hook in hooks:
            hook.remove()
    return num_bytes


def _peak_bytes() -> int:
    torch.cuda.empty_cache()
    peak: int = torch.cuda.max_memory_reserved()
    torch.cuda.reset_peak_memory_stats()
    return peak

"""What batches that are made ahead bring: `prefetch_factor` and `pin_memory` of a DataLoader."""

from statistics import mean
from typing import Final

from headrace.bench.benchmark import Context
from headrace.bench.prefetch_record import (
    DEFAULT_FACTOR,
    PrefetchConfig,
    PrefetchRecord,
    Setting,
)
from headrace.measuring.interleaved import take_turns

_REHEARSED: Final = 12
"""Batches that tell how long loading one takes."""
_FEWEST, _MOST = 12, 300
"""Batches of a turn that count, however long a turn is to take."""


def measure_prefetch(config: PrefetchConfig, context: Context) -> PrefetchRecord:
    """Time a loop over the same clips with every setting, in turns; a rehearsal goes before.

    Raises:
        MediaError, StageError: a video cannot be read, or a worker fails.
        ConfigError: no clip can be made of a video.
    """
    from headrace.bench.prefetch_loop import PrefetchLoop, has_gpu

    made = context.provenance(config)
    context.on_progress("rehearsing", 0, 0)
    with PrefetchLoop(config, _REHEARSED, context) as rehearsal:
        plain = Setting(prefetch_factor=DEFAULT_FACTOR, is_pinned=False)
        load_ms = mean(rehearsal.take(plain, step_ms=0.0).intervals_ms)
    step_ms = load_ms if config.step_ms is None else config.step_ms
    fitting = round(config.seconds * 1e3 / max(load_ms, step_ms))
    with PrefetchLoop(config, min(_MOST, max(_FEWEST, fitting)), context) as training:
        turns = take_turns(
            _settings(config, pins=has_gpu()),
            lambda setting: training.take(setting, step_ms=step_ms),
            repeats=config.repeats,
            label=str,
            on_progress=context.on_progress,
        )
    height, width = config.size
    batch_frames = config.batch_size * config.clip_len
    return PrefetchRecord(
        provenance=made,
        workers=config.workers,
        batch_frames=batch_frames,
        batch_bytes=batch_frames * height * width * 3,
        load_ms=load_ms,
        step_ms=step_ms,
        turns=turns,
    )


def _settings(config: PrefetchConfig, *, pins: bool) -> list[Setting]:
    return [
        Setting(prefetch_factor=factor, is_pinned=is_pinned)
        for is_pinned in ((False, True) if pins else (False,))
        for factor in sorted(config.prefetch_factor)
    ]

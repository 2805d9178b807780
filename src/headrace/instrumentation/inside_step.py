"""Record of the parts, lines and memory of the steps of a loop."""

from collections.abc import Sequence
from typing import Final, Literal

from headrace.instrumentation.loop_recorder import LoopRecorder, LoopStep
from headrace.instrumentation.memory_growth import MemoryReadings
from headrace.instrumentation.step_parts import LOADING, StepTotals
from headrace.profiling.run_records import (
    MAX_PLACES,
    InsideStep,
    KeptTensors,
    MemoryGrowth,
    StepPart,
    StepPlace,
)

_MIN_SAMPLES: Final = 10
"""Min samples with a known state for an estimate of the waits for the GIL."""


def build_inside_step(loop: LoopRecorder, steps: Sequence[LoopStep]) -> InsideStep | None:
    """Return the record of the steps; None without measured steps.

    Args:
        loop: Recorder of the loop.
        steps: Measured steps.
    """
    totals = loop.inside
    if not steps or not totals.parts:
        return None
    in_steps = totals.samples.total() - totals.samples[LOADING]
    return InsideStep(
        parts=tuple(sorted(_build_parts(totals, steps), key=lambda part: -part.ms)),
        samples=in_steps,
        loading_samples=totals.samples[LOADING],
        places=_find_places(totals, in_steps, is_loading=False),
        loading_places=_find_places(totals, totals.samples[LOADING], is_loading=True),
        growth=tuple(_find_growth(loop.memory)),
        kept=_build_kept(loop.memory),
    )


def _build_parts(totals: StepTotals, steps: Sequence[LoopStep]) -> list[StepPart]:
    count, gil_waits_ns = len(steps), _measure_gil_waits(totals, steps)
    return [
        StepPart(
            name=name,
            steps=part.steps,
            ms=part.wall_ns / 1e6 / count,
            cpu_ms=part.cpu_ns / 1e6 / count,
            device_ms=None if part.device_ms is None else part.device_ms / count,
            gil_wait_ms=gil_waits_ns[name] / 1e6 / count if name in gil_waits_ns else None,
        )
        for name, part in totals.parts.items()
        if name != LOADING
    ]


def _measure_gil_waits(totals: StepTotals, steps: Sequence[LoopStep]) -> dict[str, float]:
    """Return part → time in which the thread waited for the GIL, in ns; empty: not known.

    The estimate is the share of the samples that wait for the GIL, times the time in which the
    thread neither ran nor waited for a core. It is limited to the CPU time of the other threads of
    the process, because the sampler itself takes the GIL.
    """
    parts = {name: part for name, part in totals.parts.items() if name != LOADING}
    times = [(step.cpu_ns, step.waiting, step.working) for step in steps]
    known = [(cpu_ns, a, b) for cpu_ns, a, b in times if a is not None and b is not None]
    off_ns = {name: max(0, part.wall_ns - part.cpu_ns) for name, part in parts.items()}
    if sum(part.gil_samples for part in parts.values()) < _MIN_SAMPLES or not any(off_ns.values()):
        return {}
    core_wait_ns = sum(working.core_wait_ns or 0 for _, _, working in known)
    others_ns = sum(cpu_ns - a.cpu_ns - b.cpu_ns for cpu_ns, a, b in known)
    idle_share = max(0.0, 1 - core_wait_ns / sum(off_ns.values()))
    waits_ns = {
        name: off_ns[name] * idle_share * part.gil_waits / part.gil_samples
        for name, part in parts.items()
        if part.gil_samples
    }
    scale = min(1.0, max(0, others_ns) / max(1.0, sum(waits_ns.values())))
    return {name: scale * wait_ns for name, wait_ns in waits_ns.items()}


def _find_places(totals: StepTotals, samples: int, *, is_loading: bool) -> tuple[StepPlace, ...]:
    places = [
        StepPlace(
            location=place.location, function=place.function, part=part, share=count / samples
        )
        for (part, place), count in totals.places.most_common()
        if (part == LOADING) == is_loading
    ]
    return tuple(places[:MAX_PLACES])


def _find_growth(memory: MemoryReadings) -> list[MemoryGrowth]:
    places: tuple[Literal["host", "device"], ...] = ("host", "device")
    return [
        MemoryGrowth(
            where=where,
            step_bytes=growth[0],
            first_bytes=growth[1],
            last_bytes=getattr(memory.readings[-1], where),
        )
        for where in places
        if (growth := memory.growth(where))
    ]


def _build_kept(memory: MemoryReadings) -> tuple[KeptTensors, ...] | None:
    if memory.kept is None:
        return None
    return tuple(
        KeptTensors(tensors=count, **kind._asdict()) for kind, count in memory.kept.items()
    )

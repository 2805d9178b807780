"""The inside of the steps of a recorded loop, as a record."""

from typing import Literal

from headrace.instrumentation.loop_recorder import LoopRecorder
from headrace.instrumentation.memory_growth import MemoryReadings
from headrace.instrumentation.step_parts import LOADING, StepTotals
from headrace.profiling.step_record import (
    MAX_PLACES,
    InsideStep,
    KeptTensors,
    MemoryGrowth,
    StepPart,
    StepPlace,
)


def build_inside_step(loop: LoopRecorder, steps: int) -> InsideStep | None:
    """Return the inside of the steps; None without measured steps.

    Args:
        loop: Record of the loop.
        steps: Its measured steps.
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


def _build_parts(totals: StepTotals, steps: int) -> list[StepPart]:
    return [
        StepPart(
            name=name,
            steps=part.steps,
            ms=part.wall_ns / 1e6 / steps,
            cpu_ms=part.cpu_ns / 1e6 / steps,
            device_ms=None if part.device_ms is None else part.device_ms / steps,
            gil_wait_ms=None if part.gil_wait_ns is None else part.gil_wait_ns / 1e6 / steps,
        )
        for name, part in totals.parts.items()
        if name != LOADING
    ]


def _find_places(totals: StepTotals, samples: int, *, is_loading: bool) -> tuple[StepPlace, ...]:
    found = [
        (part, place, count)
        for (part, place), count in totals.places.most_common()
        if (part == LOADING) == is_loading
    ]
    return tuple(
        StepPlace(
            location=place.location, function=place.function, part=part, share=count / samples
        )
        for part, place, count in found[:MAX_PLACES]
    )


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

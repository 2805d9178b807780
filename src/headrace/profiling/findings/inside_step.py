"""Parts of a step: the one that takes the time, and the change that shortens it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from headrace.profiling.findings.finding import Change, Finding
from headrace.profiling.findings.loop_simulation import LoopLoad
from headrace.profiling.number_format import megabytes, three_digits
from headrace.profiling.number_format import whole_percent as percent
from headrace.profiling.run_records import LoaderRecord
from headrace.profiling.session import Session
from headrace.profiling.step_records import InsideStep, KeptTensors, StepPlace

MODEL, EVALUATION, GIL, OWN_CODE = "model", "evaluation", "GIL", "own code"
"""Causes that are not a single part: forward and backward; forwards and batches in a few steps;
waits of the loop's thread for other Python threads; the rest of the step."""
_CAUSES: Final = {
    "forward": MODEL,
    "backward": MODEL,
    "batches of another loader": EVALUATION,
    "rest": OWN_CODE,
}
"""Part → cause; every other part is its own cause."""
_TOP_LEVEL: Final = "<module>"
"""Name of the function for a line outside of functions."""
_UNNAMED: Final = ("rest", "loading")
"""Parts whose lines are described by their function, not by the part."""
_NO_GRADIENTS: Final = "forward without gradients"
_RARE: Final = 0.5
"""Share of the steps; below it, forwards without gradients are an evaluation."""
_LARGE: Final = 0.4
"""Min share of a step for a part that is its cause."""
_MIN_GIL_WAIT: Final = 0.25
"""Min share of a step for waits for the GIL that are its cause."""
_NOTABLE: Final = 0.02
"""Min share of a step for a part to be listed."""
_NOTABLE_PLACE: Final = 0.05
"""Min share of the samples for a line to be listed."""
_MAJORITY: Final = 0.5
"""Min share of the samples of an optimizer for a line in it to be the advice."""
_MIN_SAMPLES: Final = 20
"""Min samples for lines to be listed."""


@dataclass(frozen=True, kw_only=True)
class _Words:
    """Text of a cause."""

    headline: str
    """End of the sentence "31.2 of them ..."."""
    change: str
    is_halved: bool = False
    """Whether the change halves the work, so that its gain is predicted."""


_WORDS: Final[Mapping[str, _Words]] = {
    MODEL: _Words(
        headline="in forward and backward",
        change="A cheaper forward and backward: bfloat16 (torch.autocast), torch.compile, fewer "
        "pixels, or a smaller model",
    ),
    _NO_GRADIENTS: _Words(
        headline="in forwards without gradients",
        change="A cheaper forward: bfloat16 (torch.autocast), torch.compile, or fewer pixels; the "
        "outputs of a frozen part can be computed once and stored",
    ),
    "optimizer": _Words(
        headline="in the optimizer",
        change="A cheaper optimizer: fused=True or foreach=True if it has them, or fewer "
        "trained parameters",
    ),
    "copy to a device": _Words(
        headline="in copies to a device",
        change="pin_memory=True of the DataLoader, and non_blocking=True of the copy",
    ),
    EVALUATION: _Words(
        headline="in the evaluation", change="Evaluate half as often", is_halved=True
    ),
    "checkpointing": _Words(
        headline="in checkpointing", change="Save half as often", is_halved=True
    ),
    "logging": _Words(headline="in logging", change="Log half as often", is_halved=True),
    "collectives": _Words(
        headline="in collectives with other processes",
        change="Find the slowest process first: the others wait for it",
    ),
    GIL: _Words(
        headline="waiting for the GIL, which other Python threads of this process held",
        change="Move the Python work of the other threads into a process",
    ),
    OWN_CODE: _Words(headline="in other code of the loop", change=""),
}


@dataclass(frozen=True, kw_only=True)
class StepCause:
    """Cause of the time of a step, without its wait for data."""

    name: str
    """A part of a step, or one of the causes above; empty: no part takes enough of the step."""
    headline: str
    """End of a headline, from a comma on; empty without a cause."""
    change: Change


def find_step_cause(load: LoopLoad) -> StepCause:
    """Return the cause of the time of a step, with the change to try."""
    inside = load.loader.inside
    costs = {} if inside is None else _measure_causes(load, inside)
    name = max(costs, key=lambda cause: costs[cause], default="")
    if inside is None or not name:
        return StepCause(name="", headline="", change=_any_change())
    gil_ms = min(_gil_ms(inside), load.step_ms)
    if load.step_ms and gil_ms >= _MIN_GIL_WAIT * load.step_ms:
        name, costs[GIL] = GIL, gil_ms
    elif costs[name] < _LARGE * load.step_ms:
        return StepCause(name="", headline="", change=_any_change())
    place = _main_place(inside, name)
    where = f" at {_describe(place)}" if place and name == OWN_CODE else ""
    return StepCause(
        name=name,
        headline=f", {three_digits(costs[name])} of them {_WORDS[name].headline}{where}",
        change=_build_change(load, name, costs[name], place),
    )


def change_of_part(load: LoopLoad, part: str) -> Change:
    """Return the change to try for a part of a step."""
    inside = load.loader.inside
    if inside is None or (cause := _cause_of(part, load, inside)) not in _WORDS:
        return _any_change()
    ms = _measure_causes(load, inside).get(cause, 0.0)
    return _build_change(load, cause, ms, _main_place(inside, cause))


def _build_change(load: LoopLoad, name: str, ms: float, place: StepPlace | None) -> Change:
    words = _WORDS[name]
    share = ms / load.step_ms if load.step_ms else 0.0
    is_own = place is not None and place.in_optimizer and place.share >= _MAJORITY * share
    if name == OWN_CODE or is_own:
        if place is None:
            return _any_change()
        saved = min(place.share * load.step_ms, ms) / 2
        return Change(
            words=f"Half of the work at {_describe(place)}",
            gain=load.gain_of_step(saved),
            evidence=f"it has {percent(place.share)} of the samples of the steps",
        )
    if words.is_halved:
        evidence = (
            f"on average it takes {three_digits(ms)} of the {three_digits(load.step_ms)} ms of a "
            "step"
        )
        return Change(words=words.change, gain=load.gain_of_step(ms / 2), evidence=evidence)
    if name == GIL:
        # If the loop's thread loads batches, it also waits for the GIL there.
        return Change(words=words.change, gain=load.gain_of_step(ms), is_least=True)
    return Change(words=words.change, most=load.total_ms / max(1e-6, load.total_ms - ms))


def _any_change() -> Change:
    return Change(words="A cheaper step (model, optimizer, logging, evaluation)")


def _measure_causes(load: LoopLoad, inside: InsideStep) -> dict[str, float]:
    costs: dict[str, float] = {}
    for part, ms in parts_ms(load).items():
        cause = _cause_of(part, load, inside)
        costs[cause] = costs.get(cause, 0.0) + ms
    return costs


def _cause_of(part: str, load: LoopLoad, inside: InsideStep) -> str:
    rare = [known.name for known in inside.parts if known.steps < _RARE * load.steps]
    if part == _NO_GRADIENTS and part in rare:
        return EVALUATION
    return _CAUSES.get(part, part)


def parts_ms(load: LoopLoad) -> dict[str, float]:
    """Return the time of each part: its GPU time if it has one, else the time of the loop's thread.

    The wait for the GPU is subtracted from the rest of the step. On a busy machine, waits for a
    core are subtracted from all parts, in proportion to the time in which the thread did not run.
    Their sum is at most the step.
    """
    inside = load.loader.inside
    if inside is None:
        return {}
    parts = _parts_ms(load, inside)
    # Parts are means over all measured steps; the step may be shorter by a correction.
    scale = min(1.0, load.step_ms / max(1e-9, sum(parts.values())))
    return {name: scale * ms for name, ms in parts.items()}


def _parts_ms(load: LoopLoad, inside: InsideStep) -> dict[str, float]:
    parts = {part.name: part.ms for part in inside.parts}
    on_device = {part.name: part.device_ms for part in inside.parts if part.device_ms is not None}
    if on_device:
        awaited = sum(on_device.values()) - sum(parts[name] for name in on_device)
        rest_ms = max(0.0, parts.get("rest", 0.0) - max(0.0, awaited))
        return parts | on_device | {"rest": rest_ms}
    core_wait_ms = load.core_waits.get("step", 0.0)
    off_core = {part.name: max(0.0, part.ms - part.cpu_ms) for part in inside.parts}
    if not load.is_corrected or not sum(off_core.values()):
        return parts
    scale = min(1.0, core_wait_ms / sum(off_core.values()))
    return {name: max(0.0, ms - scale * off_core[name]) for name, ms in parts.items()}


def _gil_ms(inside: InsideStep) -> float:
    return sum(part.gil_wait_ms or 0.0 for part in inside.parts)


def _main_place(inside: InsideStep, cause: str) -> StepPlace | None:
    """Return the line with most samples of a cause; its share is that of its function."""
    if inside.samples < _MIN_SAMPLES or cause in (MODEL, GIL, _NO_GRADIENTS):
        return None
    places = [place for place in inside.places if _CAUSES.get(place.part, place.part) == cause]
    best = max(places, key=lambda place: place.share, default=None)
    if best is None or best.share < _NOTABLE_PLACE:
        return None
    shares = [place.share for place in places if _function(place) == _function(best)]
    return best.model_copy(update={"share": min(1.0, sum(shares))})


def _function(place: StepPlace) -> tuple[str, str]:
    return place.location.rpartition(":")[0], place.function


def inside_evidence(load: LoopLoad) -> Iterator[str]:
    """Yield sentences on the parts of a step, its costliest lines and its waits for the GIL."""
    inside = load.loader.inside
    if inside is None or not load.step_ms:
        return
    parts = sorted(parts_ms(load).items(), key=lambda part: -part[1])
    shown = [(name, ms) for name, ms in parts if ms >= _NOTABLE * load.step_ms]
    if shown and [name for name, _ in shown] != ["rest"]:
        listed = ", ".join(f"{name} {three_digits(ms)}" for name, ms in shown)
        yield f"Of a step without loading, in ms: {listed}."
    if inside.samples >= _MIN_SAMPLES:
        yield from _place_evidence(inside.places, "Costliest lines of the step")
    gil_ms = min(_gil_ms(inside), load.step_ms)
    if gil_ms >= _LARGE / 4 * load.step_ms:
        yield (
            f"The loop's thread waited for the GIL {three_digits(gil_ms)} ms of a step: another "
            "thread of its process ran Python."
        )


def loading_evidence(load: LoopLoad) -> Iterator[str]:
    """Yield the costliest lines of loading in the loop's process."""
    inside = load.loader.inside
    if inside is None or inside.loading_samples < _MIN_SAMPLES:
        return
    if not load.loader.workers:
        yield from _place_evidence(inside.loading_places, "Costliest lines of loading")


def _place_evidence(places: tuple[StepPlace, ...], what: str) -> Iterator[str]:
    shown = [place for place in places if place.share >= _NOTABLE_PLACE]
    if shown:
        listed = ", ".join(f"{_describe(place)} {percent(place.share)}" for place in shown)
        yield f"{what}, by samples: {listed}."


def _describe(place: StepPlace) -> str:
    """Return a line with its part of the step, or with its function."""
    what = place.part if place.part not in _UNNAMED else place.function
    return place.location if what == _TOP_LEVEL else f"{place.location} ({what})"


def find_memory_growth(session: Session) -> Iterator[Finding]:
    """Yield a finding for memory that grows with the steps."""
    inside = session.loader.inside if session.loader else None
    if inside is None:
        return
    for growth in inside.growth:
        is_host = growth.where == "host"
        where = "Main memory" if is_host else "GPU memory"
        kept = [group for group in inside.kept or () if (group.device == "cpu") == is_host]
        change = "Find what the loop keeps: a list, a cache, a log"
        if is_host and not kept and _may_fill(session.loader):
            change = (
                "Repeat it with more steps: the loader may still be filling its memory_budget. If "
                "memory still grows, find what the loop keeps: a list, a cache, a log"
            )
        if any(group.made_by for group in kept):
            change = "Keep numbers, not tensors with their graph: loss.item() or loss.detach()"
        evidence = tuple(_describe_kept(group, inside.kept_since) for group in kept)
        if inside.kept is not None and not evidence:
            evidence = ("No kind of tensor grew in number with the steps.",)
        yield Finding(
            headline=f"{where} grows by {megabytes(growth.step_bytes)} a step: from "
            f"{megabytes(growth.first_bytes)}{_at_step(growth.first_step)} to "
            f"{megabytes(growth.last_bytes)}{_at_step(growth.last_step)}.",
            evidence=evidence,
            change=f"{change}.",
        )


def _may_fill(loader: LoaderRecord | None) -> bool:
    """Whether a loader of headrace may hold more frames with each step."""
    return loader is not None and loader.kind == "headrace" and loader.decoding is None


def _at_step(step: int | None) -> str:
    return "" if step is None else f" at step {step:,}"


def _describe_kept(group: KeptTensors, since: int | None) -> str:
    shape = f"of shape {'×'.join(map(str, group.shape))}" if group.shape else "single numbers"
    graph = f" Each keeps its graph ({group.made_by})." if group.made_by else ""
    after = "" if since is None else f" after step {since:,}"
    kept = f"{group.tensors:,} tensors were kept{after}"
    return f"{kept}: {group.dtype}, {shape}, on {group.device}.{graph}"

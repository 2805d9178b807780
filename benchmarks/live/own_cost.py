"""What the live pipeline costs a frame, beyond the bare stages."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.live.record import OwnCost, OwnCostCase, Part, Quantiles
from benchmarks.record import origin
from benchmarks.runner import Ask

DEFINITION = (
    "Age of a frame, from when it was due until the consumer has its answer, in the pipeline "
    "(threads for source, preprocessing and model, with their queues), minus its age in a "
    "bare loop that decodes, waits until the frame is due, stacks, preprocesses and runs the model "
    "in one thread; frame by frame, at a rate that neither falls behind on."
)
MODELS = ("none", "mobilenet_v2")


@dataclass(frozen=True, kw_only=True)
class OwnCostScale:
    """How much is measured."""

    models: Sequence[str] = MODELS
    rate: int = 15
    """Frames a second: slow enough for one thread that does it all."""
    frames: int = 60
    """In each repeat."""
    proved: int = 30
    repeats: int = 5


def measure_own_cost(clip: Path, scale: OwnCostScale, ask: Ask) -> OwnCost:
    """Measure each model in a process of its own."""
    made = origin(
        {
            "rate": scale.rate,
            "frames": scale.frames,
            "repeats": scale.repeats,
            "clip": clip.name,
        }
    )
    cases, meters = [], []
    for model in scale.models:
        found = ask(
            {
                "question": "live_own_cost",
                "cores": None,
                "clip": str(clip.resolve()),
                "rate": scale.rate,
                "model": model,
                "frames": scale.frames,
                "proved": scale.proved,
                "repeats": scale.repeats,
            }
        )
        cases.append(judged(model, scale, found["bare"], found["pipeline"]))
        meters.append(found["meter"])
    return OwnCost(
        provenance=made,
        others_share=Part.share_of(meters),
        definition=DEFINITION,
        cases=tuple(cases),
    )


def judged(
    model: str, scale: OwnCostScale, bare: Sequence[Any], pipeline: Sequence[Any]
) -> OwnCostCase:
    """Return what (age, work) of each frame of each repeat say; one frame at least."""
    own, stages, hand_over, medians = [], [], [], []
    for plain, inside in zip(bare, pipeline, strict=True):
        pairs = list(zip(plain, inside, strict=True))
        differences = [age - bare_age for (bare_age, _), (age, _) in pairs]
        own += differences
        stages += [work - bare_work for (_, bare_work), (_, work) in pairs]
        hand_over += [(a - w) - (ba - bw) for (ba, bw), (a, w) in pairs]
        medians.append(round(median(differences), 4))

    def of(samples: Sequence[float]) -> Quantiles:
        found = Quantiles.of(samples)
        assert found is not None
        return found

    return OwnCostCase(
        model=model,
        proved_frames=scale.proved,
        bare_ms=of([age for repeat in bare for age, _ in repeat]),
        pipeline_ms=of([age for repeat in pipeline for age, _ in repeat]),
        own_ms=of(own),
        stages_ms=of(stages),
        hand_over_ms=of(hand_over),
        repeats_p50_ms=tuple(medians),
        late_frames=sum(age > 1e3 / scale.rate for repeat in bare for age, _ in repeat),
    )

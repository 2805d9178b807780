"""What `benchmarks.bench_live` keeps: figures and where they come from, one type for each part."""

from collections.abc import Sequence
from statistics import median
from typing import Self

from pydantic import Field

from benchmarks.record import Repeat, Result
from headrace.profiling.provenance import Provenance, Record
from headrace.runtime.distribution import Distribution


class Quantiles(Record):
    """Where samples lie, in their unit."""

    count: int
    p50: float
    p95: float | None = None
    """None: too few samples."""
    worst: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Self | None:
        """Return those of samples; None where there are none."""
        found = Distribution.of(samples)
        if found is None:
            return None
        return cls(count=found.count, p50=found.p50, p95=found.p95, worst=found.maximum)


class Part(Record):
    """One question; it can be measured alone."""

    provenance: Provenance
    """Its configuration are the parameters of this part."""
    others_share: float | None = None
    """CPU time of everything else meanwhile, as a share of all that was used."""

    @staticmethod
    def share_of(meters: Sequence[dict[str, float]]) -> float | None:
        """Return the share of others over the times of several processes."""
        if not meters:
            return None
        total = {name: sum(each[name] for each in meters) for name in meters[0]}
        return Repeat.model_validate(total).others_share


class OwnCostCase(Record):
    """One model."""

    model: str
    proved_frames: int
    """That both ways gave, bit for bit the same, before anything was timed."""
    bare_ms: Quantiles
    """Age of a frame when its answer is there, in the bare loop."""
    pipeline_ms: Quantiles
    """The same in the pipeline."""
    own_ms: Quantiles
    """The difference, frame by frame."""
    stages_ms: Quantiles
    """Of it: what the same work took longer inside."""
    hand_over_ms: Quantiles
    """Of it: all between the work, to the consumer's hand; the bare loop's delay taken off."""
    repeats_p50_ms: tuple[float, ...]
    """Median of `own_ms` in each repeat: how far the machine lets it be told."""
    late_frames: int = 0
    """Of the bare loop, that were not done when the next one was due: it fell behind, and the
    differences say little."""


class OwnCost(Part):
    """What the pipeline itself costs a frame."""

    definition: str
    bar_ms: float = 1.0
    cases: tuple[OwnCostCase, ...]

    @property
    def is_within_bar(self) -> bool:
        """The median of each case is below the bar."""
        return all(case.own_ms.p50 < self.bar_ms for case in self.cases)


class Series(Record):
    """One quantity over time."""

    at_seconds: tuple[float, ...]
    values: tuple[float, ...]

    def after(self, seconds: float) -> "Series":
        """Return what was sampled from then on."""
        pairs = zip(self.at_seconds, self.values, strict=True)
        kept = [pair for pair in pairs if pair[0] >= seconds]
        return Series(at_seconds=tuple(a for a, _ in kept), values=tuple(v for _, v in kept))

    @property
    def slope(self) -> float:
        """By least squares, a second; 0 where there are fewer than two samples."""
        count = len(self.values)
        if count < 2:
            return 0.0
        mean_at, mean = sum(self.at_seconds) / count, sum(self.values) / count
        pairs = zip(self.at_seconds, self.values, strict=True)
        above = sum((at - mean_at) * (value - mean) for at, value in pairs)
        below = sum((at - mean_at) ** 2 for at in self.at_seconds)
        return above / below if below else 0.0

    @property
    def growth(self) -> float:
        """What the slope makes of the time it was sampled over."""
        return self.slope * (self.at_seconds[-1] - self.at_seconds[0]) if self.values else 0.0


class Overloaded(Part):
    """Frames that come three times as fast as the model takes them."""

    seconds: float
    source_fps: float
    model_ms: float
    max_staleness_ms: float
    age_ms: Quantiles
    """Of frames when they were handed to the sink."""
    arrived: int
    delivered: int
    in_flight: int
    drops: dict[str, int]
    """"stage: cause" -> frames."""
    rss_bytes: Series
    warm_up_seconds: float
    """At the start, that memory is not judged by."""

    @property
    def is_conserved(self) -> bool:
        """Every frame came out, or was dropped with a cause, or was under way at the end."""
        return self.arrived == self.delivered + sum(self.drops.values()) + self.in_flight

    @property
    def is_fresh(self) -> bool:
        """No frame was shown that was older than it may be."""
        return self.age_ms.worst <= self.max_staleness_ms

    @property
    def is_memory_flat(self) -> bool:
        """It grew by less than a fiftieth."""
        found = self.rss_bytes.after(self.warm_up_seconds)
        return bool(found.values) and found.growth < max(found.values) / 50


class OverlapPair(Record):
    """The stages one after another, then each in a thread of its own."""

    sequential_seconds: float
    sequential_cpu_seconds: float
    threaded_seconds: float
    stage_ms: dict[str, float]
    """Mean of each stage, one after another."""
    threaded_stage_ms: dict[str, float]
    """The same with threads: longer where they take each other's cores."""


class OverlapCase(Record):
    """One choice of stages."""

    name: str
    frames: int
    cores: int
    proved_frames: int
    """That both ways gave the same answers for, before anything was timed."""
    pairs: tuple[OverlapPair, ...]

    @property
    def gains(self) -> list[float]:
        """How many times as fast the threads were, in each pair."""
        return [pair.sequential_seconds / pair.threaded_seconds for pair in self.pairs]

    @property
    def by_stages(self) -> list[float]:
        """sum(stage) / max(stage) of each pair: no overlap can gain more."""
        return [sum(p.stage_ms.values()) / max(p.stage_ms.values()) for p in self.pairs]

    @property
    def by_cores(self) -> list[float]:
        """What the cores allow: all of them busy with the same work."""
        return [self.cores * p.sequential_seconds / p.sequential_cpu_seconds for p in self.pairs]

    @property
    def is_of_stages(self) -> bool:
        """The cores allow what the stages do."""
        return median(self.by_stages) <= median(self.by_cores)

    @property
    def share(self) -> float:
        """Median of gain / sum(stage)/max(stage); the bar is 0.9 where the cores allow it."""
        return median(g / b for g, b in zip(self.gains, self.by_stages, strict=True))


class Overlap(Part):
    """What threads gain."""

    cases: tuple[OverlapCase, ...]


class Recovery(Record):
    """What one way made of a server that fell silent, and of one that was killed and restarted."""

    way: str
    failure: str | None = None
    """Why there is nothing of it."""
    first_picture_seconds: float | None = None
    """From asking the server until the first frame was shown."""
    noticed_seconds: tuple[float | None, ...] = ()
    """From SIGSTOP until it said that nothing comes; None: not before SIGCONT."""
    resumed_seconds: tuple[float | None, ...] = ()
    """From SIGCONT until a frame was shown; None: not before the next event."""
    age_after_stall_ms: tuple[float | None, ...] = ()
    """Median age of the frames that were shown in the last half second before the next event."""
    again_seconds: tuple[float | None, ...] = ()
    """From when the restarted server listened until a frame of it was shown."""


class Recovering(Part):
    """RTSP from a real server."""

    noticed_bar_seconds: float = 2.0
    again_bar_seconds: float = 2.0
    """Beyond the first picture."""
    found: tuple[Recovery, ...]


class Shown(Record):
    """What one way showed of a stream."""

    way: str
    failure: str | None = None
    versions: dict[str, str] = Field(default_factory=dict)
    proved_frames: int = 0
    """Whose pixels are those of the frame that their number names."""
    frames: int = 0
    """Shown after the warm-up."""
    per_second: float = 0.0
    age_ms: Quantiles | None = None
    """When the answer is there, by the sender's clock."""


class Streaming(Record):
    """All ways on the same stream."""

    model_ms: float
    """0: as quick as it is."""
    seconds: float
    warm_up_seconds: float
    shown: tuple[Shown, ...]


class Rivals(Part):
    """headrace beside loops as people write them, over RTSP."""

    keeping_up: Streaming
    overloaded: Streaming
    recovery: tuple[Recovery, ...]
    left_out: dict[str, str] = Field(default_factory=dict)
    """Who could not take part -> why."""


class LiveResult(Result):
    """All parts that were measured; each says itself where it comes from."""

    own_cost: OwnCost | None = None
    overload: Overloaded | None = None
    overlap: Overlap | None = None
    rtsp: Recovering | None = None
    rivals: Rivals | None = None

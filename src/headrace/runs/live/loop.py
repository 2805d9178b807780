"""The loop of one's own over what comes live: `for result in headrace.live(source, model): ...`."""

import os
import warnings
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any, Final, cast

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.decode.protocol import OnError
from headrace.errors import ConfigError
from headrace.live.address import FileAddress, addresses_of
from headrace.live.clip_windows import clip_shape
from headrace.live.drop_policy import DropPolicy, OverloadName
from headrace.live.source import LiveSource
from headrace.models.catalogue import task_of
from headrace.models.compute import Compute, Device
from headrace.models.evaluation_mode import evaluation_mode, is_training
from headrace.models.load import load_classifier, load_clip_classifier, with_clip_length
from headrace.models.model import Model
from headrace.models.precision_support import check_available
from headrace.models.prepare import prepare
from headrace.runs.live.flow import LiveFlow, LivePlan
from headrace.runs.live.live_batches import ModelRunner, View
from headrace.runs.live.live_sources import open_sources
from headrace.runs.run_options import FlowOptions, PaceName
from headrace.runs.stages import Transfer
from headrace.runtime.clock import SYSTEM_CLOCK, Clock, WallTime, wall_time
from headrace.units import check_integers

AnyModel = str | Model[Any] | Callable[[torch.Tensor], Any]
AnySource = str | int | os.PathLike[str] | LiveSource
"""An address, a path, the number of a camera, or a source of one's own."""
_TRAINING: Final = (
    "the model is in training mode, in which Dropout and BatchNorm give other results; it is run "
    "in evaluation mode, and has its own mode back when the loop ends; call model.eval() before "
    "headrace.live, or give a function that calls the model to run it in the mode it has"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class LiveResult:
    """What a model gave for one frame or clip. Of a clip, all but `frames` is of its newest one."""

    output: Any
    """What the model gave for it: `Labels` of one picture; of a model of your own, its entry. Its
    tensors are made in `torch.inference_mode`: `.clone()` them to change or train on them."""
    frames: NDArray[np.uint8]
    """The picture, uint8 [H, W, 3], or the clip, uint8 [T, H, W, 3], RGB. Yours to keep."""
    source: int
    """Which of the sources it is from, from 0."""
    source_name: str
    """Without credentials."""
    number: int
    """Frames of this source before it, those that were dropped counted too."""
    pts: int
    """Presentation time in ticks of `time_base`, as the source gives it."""
    time_base: Fraction
    """Seconds per tick."""
    segment: int
    """Timeline that `pts` counts on, from 0: a reconnection begins the next one."""
    arrival_time: datetime
    """When it came, or was due: wall time, UTC, by this machine's clock as it was when the loop
    began."""
    arrived_ns: int
    """By `time.perf_counter_ns`: when it came, or was due; for differences only."""
    latency_ms: float | None
    """From there until the model was done; None for a file at full speed, which has none."""
    captured_seconds: float | None
    """Unix time of its capture, by the sender's own clock; None where it tells none."""

    @property
    def pts_seconds(self) -> float:
        """Presentation time in seconds."""
        return float(self.pts * self.time_base)

    @property
    def capture_time(self) -> datetime | None:
        """`captured_seconds` as a wall time, UTC."""
        return None if self.captured_seconds is None else wall_time(self.captured_seconds)


def live(
    source: AnySource | Sequence[AnySource],
    model: AnyModel,
    *,
    weights: str = "DEFAULT",
    device: Device = "cpu",
    batch_size: int = 1,
    clip_len: int | None = None,
    clip_stride: int = 1,
    clip_hop: int | None = None,
    pace: PaceName = "realtime",
    overload: OverloadName = "auto",
    max_staleness: str | None = None,
    on_error: OnError = "raise",
    clock: Clock = SYSTEM_CLOCK,
) -> Generator[LiveResult, None, None]:
    """Yield what a model says of frames as they come: `for result in live("rtsp://...", model)`.

    Reading, preprocessing and the model have a thread each; leaving the loop ends them. Frames
    that come faster than your loop takes them make room for newer ones.

    Args:
        source: An address, a path, a camera's number, a source of your own; or several.
        model: A name of torchvision; a model of headrace; or any callable, given pictures uint8
            [N, 3, H, W], or, with `clip_len`, clips uint8 [N, T, 3, H, W], RGB, on `device`; it
            gives one entry for each. A module runs in evaluation mode, a function as it is.
        weights: Of a name: DEFAULT, none, or the path of a checkpoint.
        device: Where a named model runs; where a callable finds its batches.
        batch_size: Frames that go through the model together, at most.
        clip_len: Frames of a clip; None: single frames, or what a video model was made for.
        clip_stride: 1 means consecutive frames.
        clip_hop: Frames from the start of a clip to that of the next; None: without overlap.
        pace: Of files: "realtime", "offline" (full speed), "auto" (full speed if all are files).
        overload: "keep-all", "keep-last", or "auto": every frame only offline.
        max_staleness: Age from which a frame is dropped, such as "200ms".
        on_error: Damaged frames of a file: "raise", "skip", or, offline, "conceal".
        clock: What measures.

    Raises:
        ConfigError: an argument is not possible, or the model gives not one entry for each.
        BackendError, MediaError: the device is missing; a source cannot be opened or decoded.
        StageError: the model raised; `__cause__` is what it raised.
    """
    check_integers(1, batch_size=batch_size, clip_len=clip_len)
    check_integers(1, clip_stride=clip_stride, clip_hop=clip_hop)
    flow = FlowOptions(pace=pace, max_staleness=max_staleness)
    sources = _sources(source, flow.pace, on_error)
    age, is_live = flow.max_staleness_seconds, any(map(_is_live, sources))
    chosen = DropPolicy.chosen(overload, is_live=is_live, max_staleness_seconds=age)
    model = _loaded(model, weights, device, clip_len, batch_size)
    engine, length = _engine_of(model, device, clip_len)
    plan = LivePlan(
        sources=sources,
        engine=engine,
        overload=chosen,
        batch_size=batch_size,
        clips=clip_shape(length, stride=clip_stride, hop=clip_hop),
        carrier=None if engine.device == "cpu" else Transfer(engine.device),
    )
    return _results(plan, _module_of(model), clock)


def _engine_of(
    model: Model[Any] | Callable[[torch.Tensor], Any], device: Device, clip_len: int | None
) -> tuple[ModelRunner, int | None]:
    """Return what runs the model, and the frames of its clips, if it takes clips."""
    if is_training(_module_of(model)):
        warnings.warn(_TRAINING, stacklevel=3)
    if isinstance(model, Model):
        fitted = with_clip_length(model, clip_len)
        return ModelRunner.of_model(fitted), fitted.input.num_frames
    if not callable(model):
        raise ConfigError(
            f"a model is a name, a headrace Model or a callable, got {type(model).__name__}"
        )
    check_available(Compute(device=device))
    return ModelRunner.of_callable(model, device), clip_len


def _module_of(model: AnyModel) -> Any:
    return model.module if isinstance(model, Model) else model


def _results(plan: LivePlan, module: Any, clock: Clock) -> Generator[LiveResult, None, None]:
    wall = WallTime.of(clock)
    with evaluation_mode(module), LiveFlow(plan, clock) as flow:
        for item in flow:
            done_ns = item.spans[-1].end_ns
            answered = item.value
            for view, output in zip(answered.gathered.views, answered.outputs, strict=True):
                yield _result(plan, view, output, done_ns, wall)
        flow.conserved()


def _result(plan: LivePlan, view: View, output: Any, done_ns: int, wall: WallTime) -> LiveResult:
    newest, source = view[-1], plan.sources[view[-1].source]
    is_clip = plan.clips is not None
    return LiveResult(
        output=output,
        frames=np.stack([frame.pixels for frame in view]) if is_clip else newest.pixels,
        source=newest.source,
        source_name=source.name,
        number=newest.number,
        pts=newest.pts,
        time_base=newest.time_base,
        segment=newest.segment,
        arrival_time=wall.at(newest.arrived_ns),
        arrived_ns=newest.arrived_ns,
        latency_ms=None if source.base == "full_speed" else (done_ns - newest.arrived_ns) / 1e6,
        captured_seconds=newest.captured_seconds,
    )


def _sources(
    source: AnySource | Sequence[AnySource], pace: PaceName, on_error: OnError
) -> tuple[LiveSource, ...]:
    is_several = isinstance(source, Sequence) and not isinstance(source, str | bytes)
    named = [_address(each) for each in (cast(Sequence[Any], source) if is_several else [source])]
    if not named:
        raise ConfigError("a source is needed, got none")
    if pace == "auto" and any(map(_comes_by_itself, named)):
        pace = "realtime"
    found: list[LiveSource] = []
    for each in named:
        found += open_sources([each], pace, on_error=on_error) if isinstance(each, str) else [each]
    return tuple(found)


def _address(source: Any) -> str | LiveSource:
    """Return what is typed for a source, or the source that it is."""
    is_number = isinstance(source, int) and not isinstance(source, bool) and source >= 0
    if isinstance(source, str | os.PathLike) or is_number:
        return str(source)
    if not (hasattr(source, "frames") and hasattr(source, "base") and hasattr(source, "name")):
        raise ConfigError(
            "a source is an address, a path, the number of a camera, or an object with name, base "
            f"and frames, got {source!r}"
        )
    own: LiveSource = source
    return own


def _comes_by_itself(source: str | LiveSource) -> bool:
    if isinstance(source, str):
        return not all(isinstance(each, FileAddress) for each in addresses_of([source]))
    return _is_live(source)


def _is_live(source: LiveSource) -> bool:
    return source.base != "full_speed"


def _loaded(
    name: AnyModel, weights: str, device: Device, clip_len: int | None, batch_size: int
) -> Model[Any] | Callable[[torch.Tensor], Any]:
    if not isinstance(name, str):
        return name
    loader = load_clip_classifier if task_of(name) == "video" else load_classifier
    ready = prepare(
        lambda: with_clip_length(loader(name, weights), clip_len),
        Compute(device=device),
        batch_size=batch_size,
    )
    return ready.model

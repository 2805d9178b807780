"""Live inference as a Python loop: `for result in headrace.live(source, model): ...`."""

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
from headrace.live.address import FileAddress, parse_addresses
from headrace.live.drop_policy import DropPolicy, OverloadName
from headrace.live.live_source import LiveSource, clip_window_of
from headrace.models.catalogue import task_of
from headrace.models.compute import Compute, Device
from headrace.models.device import check_available
from headrace.models.evaluation_mode import evaluation_mode, is_training
from headrace.models.load import load_classifier, load_clip_classifier, with_clip_length
from headrace.models.model import Model, prepare
from headrace.runs.live.live_batches import ModelRunner, View
from headrace.runs.live.live_pipeline import LivePipeline, LivePlan
from headrace.runs.live.live_sources import open_sources
from headrace.runs.run_options import FlowOptions, PaceName
from headrace.runs.run_stages import Transfer
from headrace.runtime.clock import SYSTEM_CLOCK, Clock, WallTime, wall_time
from headrace.units import check_integers

AnyModel = str | Model[Any] | Callable[[torch.Tensor], Any]
AnySource = str | int | os.PathLike[str] | LiveSource
"""Address, path, camera number, or custom source."""
_TRAINING: Final = (
    "the model is in training mode, in which Dropout and BatchNorm give other results; it runs "
    "in evaluation mode, and its mode is restored after the loop; call model.eval() before "
    "headrace.live, or pass a function that calls the model to keep its mode"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class LiveResult:
    """Model output of a frame or clip; other fields than `frames` are of the newest frame."""

    output: Any
    """`Labels`; for a custom model, its entry of the batch output. Tensors are created in
    `torch.inference_mode`: `.clone()` them to change them or train on them."""
    frames: NDArray[np.uint8]
    """Frame uint8 [H, W, 3] or clip uint8 [T, H, W, 3], RGB; owned by the caller."""
    source: int
    """0-based index of the source."""
    source_name: str
    """Name of the source, without credentials."""
    number: int
    """0-based number of the frame in its source; dropped frames count."""
    pts: int
    """Presentation time, in ticks of `time_base`."""
    time_base: Fraction
    """Seconds per tick."""
    segment: int
    """0-based timeline of `pts`; each reconnection starts the next one."""
    arrival_time: datetime
    """Arrival or due time, UTC, by this machine's clock at the start of the loop."""
    arrived_ns: int
    """Arrival or due time by `time.perf_counter_ns`, for differences."""
    latency_ms: float | None
    """Time from arrival to the end of the model call; None: a file at full speed."""
    captured_seconds: float | None
    """Unix time of the capture, by the sender's clock; None: not sent."""
    dropped: int
    """Dropped frames of all sources since the start of the loop."""

    @property
    def pts_seconds(self) -> float:
        """Presentation time in seconds."""
        return float(self.pts * self.time_base)

    @property
    def capture_time(self) -> datetime | None:
        """`captured_seconds` as UTC time."""
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
    """Yield the model outputs of live frames: `for result in live("rtsp://...", model)`.

    Three threads read, preprocess and infer; if the loop is slow, newer frames replace older ones.

    Args:
        source: Address, path, camera number or custom `LiveSource`; or several of them.
        model: Name of a torchvision model, or a callable. A callable takes frames uint8
            [N, 3, H, W] or, with `clip_len`, clips uint8 [N, T, 3, H, W], RGB at the size of the
            video, on `device`, and returns one entry for each. A module runs in evaluation mode.
        weights: For a named model: DEFAULT, none, or the path of a checkpoint.
        device: Device of a named model, or of the batches of a callable.
        batch_size: Max frames per model call.
        clip_len: Frames per clip; None: single frames, or the default of a video model.
        clip_stride: Distance between frames of a clip; 1: consecutive frames.
        clip_hop: Frames from the start of a clip to the start of the next; None: no overlap.
        pace: For files: "realtime", "offline" (full speed), "auto" (full speed if all are files).
        overload: "keep-all", "keep-last", or "auto": "keep-all" only offline.
        max_staleness: Age above which a frame is dropped: "200ms".
        on_error: Handling of damaged frames of a file: "raise", "skip" or, offline, "conceal".
        clock: Clock of the run.

    Raises:
        ConfigError: an argument is out of range, or the model returns a wrong number of entries.
        BackendError, MediaError: the device is missing; a source cannot be opened or decoded.
        StageError: the model raised; `__cause__` is its exception.
    """
    check_integers(1, batch_size=batch_size, clip_len=clip_len)
    check_integers(1, clip_stride=clip_stride, clip_hop=clip_hop)
    flow = FlowOptions(pace=pace, max_staleness=max_staleness)
    sources = _sources(source, flow.pace, on_error)
    is_live, max_age = any(map(_is_live, sources)), flow.max_staleness_seconds
    policy = DropPolicy.from_name(overload, is_live=is_live, max_staleness_seconds=max_age)
    if isinstance(model, str):
        model = _load(model, weights, device, clip_len, batch_size)
    model_runner, num_frames = _model_runner(model, device, clip_len)
    plan = LivePlan(
        sources=sources,
        model_runner=model_runner,
        overload=policy,
        batch_size=batch_size,
        clips=clip_window_of(num_frames, stride=clip_stride, hop=clip_hop),
        transfer=None if model_runner.device == "cpu" else Transfer(model_runner.device),
    )
    return _results(plan, _module_of(model), clock)


def _model_runner(
    model: Model[Any] | Callable[[torch.Tensor], Any], device: Device, clip_len: int | None
) -> tuple[ModelRunner, int | None]:
    """Return the runner of a model, and the frames per clip; None: single frames."""
    if is_training(_module_of(model)):
        warnings.warn(_TRAINING, stacklevel=3)
    if isinstance(model, Model):
        model = with_clip_length(model, clip_len)
        return ModelRunner.of_model(model), model.input.num_frames
    if not callable(model):
        raise ConfigError(
            f"model must be a name, a headrace Model or a callable, got {type(model).__name__}"
        )
    check_available(Compute(device=device))
    return ModelRunner.of_callable(model, device), clip_len


def _module_of(model: AnyModel) -> Any:
    return model.module if isinstance(model, Model) else model


def _results(plan: LivePlan, module: Any, clock: Clock) -> Generator[LiveResult, None, None]:
    wall = WallTime.of(clock)
    with evaluation_mode(module), LivePipeline(plan, clock) as pipeline:
        for item in pipeline:
            done_ns, dropped = item.spans[-1].end_ns, sum(pipeline.run.flow().dropped.values())
            for view, output in zip(item.value.views, item.value.outputs, strict=True):
                yield _result(plan, view, output, done_ns, wall, dropped)
        pipeline.conserved()


def _result(
    plan: LivePlan, view: View, output: Any, done_ns: int, wall: WallTime, dropped: int
) -> LiveResult:
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
        dropped=dropped,
    )


def _sources(
    source: AnySource | Sequence[AnySource], pace: PaceName, on_error: OnError
) -> tuple[LiveSource, ...]:
    is_several = isinstance(source, Sequence) and not isinstance(source, str | bytes)
    checked = list(map(_check_source, cast(Sequence[Any], source) if is_several else [source]))
    if not checked:
        raise ConfigError("no source is given; give one or more")
    if pace == "auto" and any(map(_is_realtime, checked)):
        pace = "realtime"
    opened: list[LiveSource] = []
    for item in checked:
        opened += open_sources([item], pace, on_error=on_error) if isinstance(item, str) else [item]
    return tuple(opened)


def _check_source(source: Any) -> str | LiveSource:
    """Return the address of a source as text, or the custom source."""
    is_number = isinstance(source, int) and not isinstance(source, bool) and source >= 0
    if isinstance(source, str | os.PathLike) or is_number:
        return str(source)
    if not (hasattr(source, "frames") and hasattr(source, "base") and hasattr(source, "name")):
        raise ConfigError(
            "source must be an address, a path, a camera number, or an object with name, base and "
            f"frames, got {source!r}"
        )
    custom: LiveSource = source
    return custom


def _is_realtime(source: str | LiveSource) -> bool:
    if isinstance(source, str):
        return not all(isinstance(address, FileAddress) for address in parse_addresses([source]))
    return _is_live(source)


def _is_live(source: LiveSource) -> bool:
    return source.base != "full_speed"


def _load(
    name: str, weights: str, device: Device, clip_len: int | None, batch_size: int
) -> Model[Any]:
    loader = load_clip_classifier if task_of(name) == "video" else load_classifier
    return prepare(
        lambda: with_clip_length(loader(name, weights), clip_len),
        Compute(device=device),
        batch_size=batch_size,
    )

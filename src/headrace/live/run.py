"""One run: decode -> preprocess -> model -> annotated video, recorded as a Session."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

from headrace.decode.open import open_index
from headrace.errors import ConfigError, HeadraceError
from headrace.live.batches import FileBatches
from headrace.live.overlay import Overlay
from headrace.live.sinks import VideoFile
from headrace.models.load import Classifier, load_classifier
from headrace.models.predict import Prediction, predict, warm_up
from headrace.preprocess.levels import PrepLevel, Preprocess, build_preprocess
from headrace.profiling.machine import describe_machine, versions
from headrace.profiling.session import (
    DamagedFrame,
    DecodeCounters,
    GopLengths,
    QueueRecord,
    Session,
    SourceSummary,
    StageRecord,
)
from headrace.profiling.steps import Step, Steps
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.pipeline import Pipeline, Run
from headrace.runtime.stage import Item, Stage
from headrace.video.frames import FrameBatch
from headrace.video.source import Source
from headrace.video.stream_index import StreamIndex


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """What to run, on what, and where results go."""

    source: str
    """Path of a video file."""
    model_name: str = "mobilenet_v2"
    """A classification model of torchvision."""
    weights: str = "DEFAULT"
    """`DEFAULT` (torchvision's own), `none` (random), or the path of a checkpoint."""
    batch_size: int = 16
    """Frames in a step."""
    prep_level: PrepLevel = "medium"
    """How much preprocessing is done: see headrace.preprocess.levels."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where the model runs."""
    stride: int = 1
    """1 means every frame."""
    max_steps: int | None = None
    """Where to stop; None means at the end of the video."""
    on_error: Literal["raise", "skip"] = "raise"
    """What damaged frames do: end the run, or be left out, counted and listed."""
    out: Path = Path("headrace_run")
    """Folder of the results; made when missing."""

    def __post_init__(self) -> None:
        for name in ("batch_size", "stride"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be >= 1, got {getattr(self, name)}")
        if self.max_steps is not None and self.max_steps < 1:
            raise ConfigError(f"max_steps must be >= 1, got {self.max_steps}")


Outcome = Literal["complete", "interrupted", "failed"]


class _Result(NamedTuple):
    frames: FrameBatch
    prediction: Prediction | None
    tensor: torch.Tensor | None


class _Done(NamedTuple):
    first_index: int
    frames: int


@dataclass(kw_only=True)
class Runner:
    """One run, ready to start: the source is indexed, the model loaded and warm."""

    config: RunConfig
    index: StreamIndex
    classifier: Classifier
    command: tuple[str, ...] = ()
    """The command line, for the record."""
    clock: Clock = SYSTEM_CLOCK
    steps: list[Step] = field(default_factory=list)
    """What was done so far."""

    @classmethod
    def prepare(cls, config: RunConfig, *, command: Sequence[str] = ()) -> "Runner":
        """Check everything that can be checked before the first frame.

        Raises:
            ConfigError: unknown model, weights that do not fit, a folder that cannot be written.
            BackendError: the device is missing.
            MediaError: the source cannot be opened as video.
        """
        _make_folder(config.out)
        index = open_index(Source.of(config.source))
        classifier = load_classifier(config.model_name, config.weights, config.device)
        return cls(config=config, index=index, classifier=classifier, command=tuple(command))

    @property
    def frames_planned(self) -> int:
        """Frames the run will go through, damage aside."""
        return self._batches().planned

    def run(self, on_step: Callable[[Step], None] = lambda step: None) -> Session:
        """Run to the end, and record it; an interrupt or an error ends it early, recorded too.

        Args:
            on_step: Called in the caller's thread after each step, for progress.

        Returns:
            The session; its `outcome` tells how the run ended, `error` why it failed. What was
            written until then is whole and playable.
        """
        config, created = self.config, datetime.fromtimestamp(self.clock.wall_seconds(), UTC)
        outcome: Outcome = "complete"
        error: str | None = None
        batches = self._batches()
        preprocess = build_preprocess(config.prep_level, self.classifier.input)
        warm_up(self.classifier, config.batch_size)
        start_ns = self.clock.now_ns()
        with VideoFile(config.out / "annotated.mp4", self.index.frame_rate) as video:
            stages = self._stages(preprocess, video)
            pipeline = Pipeline(source=batches, stages=stages, source_name="decode")
            with pipeline.run(clock=self.clock) as run:
                try:
                    for item in run:
                        self.steps.append(_step(item, len(self.steps), start_ns))
                        on_step(self.steps[-1])
                except KeyboardInterrupt:
                    outcome = "interrupted"
                except HeadraceError as failure:
                    outcome, error = "failed", str(failure)
        wall_seconds = (self.clock.now_ns() - start_ns) / 1e9
        return Session(
            headrace=version("headrace"),
            created=created,
            command=self.command,
            configuration=configuration(config),
            versions=versions(),
            machine=describe_machine(),
            source=summarize(self.index),
            outcome=outcome,
            error=error,
            wall_seconds=wall_seconds,
            warmup_steps=1 if len(self.steps) > 2 else 0,
            steps=Steps.of(self.steps),
            **_recorded(run),
            decode=DecodeCounters(**vars(batches.counters)),
            damaged=_damaged(batches, self.index),
            outputs=("annotated.mp4",),
        )

    def _batches(self) -> FileBatches:
        config = self.config
        return FileBatches(
            index=self.index,
            batch_size=config.batch_size,
            stride=config.stride,
            max_batches=config.max_steps,
            skips_damage=config.on_error == "skip",
        )

    def _stages(self, preprocess: Preprocess, video: VideoFile) -> list[Stage[Any, Any]]:
        classifier, overlay = self.classifier, Overlay(self.index.info.upright_size[0])

        def prepare(batch: FrameBatch) -> _Result:
            return _Result(batch, None, preprocess(batch.frames))

        def infer(result: _Result) -> _Result:
            assert result.tensor is not None
            return _Result(result.frames, predict(classifier, result.tensor), None)

        def write(result: _Result) -> _Done:
            assert result.prediction is not None
            batch = result.frames
            for k, frame in enumerate(batch.frames):
                text = f"#{batch.index[k]}  {result.prediction.caption(k)}"
                seconds = batch.pts_seconds[k] - self.index.seconds(0)
                video.write(overlay.draw(frame, text), seconds)
            return _Done(int(batch.index[0]), len(batch))

        return [
            Stage(name="preprocess", function=prepare),
            Stage(name="model", function=infer),
            Stage(name="sink", function=write),
        ]


def _step(item: Item[_Done], number: int, start_ns: int) -> Step:
    spans = {span.stage: span for span in item.spans}
    started_ns, ended_ns = item.spans[0].start_ns, item.spans[-1].end_ns
    milliseconds = {name: (s.end_ns - s.start_ns) / 1e6 for name, s in spans.items()}
    return Step(
        step=number,
        first_index=item.value.first_index,
        frames=item.value.frames,
        started_ms=(started_ns - start_ns) / 1e6,
        read_ms=milliseconds["decode"],
        prep_ms=milliseconds["preprocess"],
        exec_ms=milliseconds["model"],
        sink_ms=milliseconds["sink"],
        total_ms=(ended_ns - started_ns) / 1e6,
    )


def _recorded(run: Run) -> dict[str, Any]:
    stages, queues = run.stages(), run.queues()
    feeds: list[Any] = [*(stage.name for stage in stages[1:]), None]
    return {
        "stages": tuple(StageRecord.of(stage) for stage in stages),
        "queues": tuple(
            QueueRecord.of(queue, feeds=stage) for queue, stage in zip(queues, feeds, strict=True)
        ),
    }


def configuration(config: RunConfig) -> dict[str, str | int | float | bool | None]:
    """Return every option in force, defaults included, as a session records it."""
    options = {**asdict(config), "out": str(config.out)}
    return {"model": options.pop("model_name"), **options}


def _damaged(batches: FileBatches, index: StreamIndex) -> tuple[DamagedFrame, ...]:
    return tuple(
        DamagedFrame(index=number, pts_seconds=index.seconds(number), reason=str(error))
        for number, error in batches.damaged
    )


def summarize(index: StreamIndex) -> SourceSummary:
    """Return what a report says of a video."""
    lengths, info = index.gop_lengths, index.info
    return SourceSummary(
        path=str(index.source),
        codec=info.codec,
        height=info.height,
        width=info.width,
        frame_rate=index.frame_rate,
        frames=len(index),
        duration_seconds=index.duration_seconds,
        gop=GopLengths(
            minimum=int(lengths.min()),
            mean=float(lengths.mean()),
            maximum=int(lengths.max()),
        ),
        has_b_frames=info.reorders,
        is_vfr=index.is_vfr,
        rotation=info.orientation.rotation_degrees,
        counted_by=index.counted_by,
    )


def _make_folder(folder: Path) -> None:
    """Make the folder of the results, and prove that it can be written to."""
    probe = folder / ".headrace-write-test"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise ConfigError(
            f"cannot write to the output folder {folder}: {(error.strerror or str(error)).lower()};"
            " give another one with --out"
        ) from error

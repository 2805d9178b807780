"""One run: decode -> preprocess -> model -> annotated video, recorded as a Session."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

from headrace.decode.index_store import IndexStore
from headrace.decode.open import open_index
from headrace.decode.protocol import OnError
from headrace.errors import ConfigError, HeadraceError
from headrace.live.batches import FileBatches
from headrace.live.recording import damaged_frames, stages_and_queues, step_of, summarize
from headrace.live.sinks import VideoFile
from headrace.live.stages import stages_of
from headrace.models.compute import Compute, Device
from headrace.models.load import load_classifier
from headrace.models.model import Model
from headrace.models.prepare import prepare
from headrace.models.results import Labels
from headrace.preprocess.levels import build_preprocess
from headrace.preprocess.operations import PrepLevel
from headrace.profiling.machine import provenance
from headrace.profiling.session import DecodeCounters, Session
from headrace.profiling.steps import Step, Steps
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.pipeline import Pipeline
from headrace.video.source import Source
from headrace.video.stream_index import StreamIndex

ANNOTATED = "annotated.mp4"
"""Name of the annotated video in the folder of a run."""

Outcome = Literal["complete", "interrupted", "failed"]

_CHOICES = {"prep_level": PrepLevel, "device": Device, "on_error": OnError}


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
    """Frames in a step. Up to ten batches of full-size frames are in memory at a time: 1.0 GB at
    1920x1080 and 16."""
    prep_level: PrepLevel = "medium"
    """How much preprocessing is done: see headrace.preprocess.levels."""
    device: Device = "cpu"
    """Where the model runs."""
    stride: int = 1
    """1 means every frame."""
    max_steps: int | None = None
    """Where to stop; None means at the end of the video."""
    on_error: OnError = "raise"
    """What damaged frames do: end the run; be left out, counted and listed; or come as FFmpeg shows
    them, counted and listed."""
    out: Path = Path("headrace_run")
    """Folder of the results; made when missing."""

    def __post_init__(self) -> None:
        for name in ("batch_size", "stride"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be >= 1, got {getattr(self, name)}")
        if self.max_steps is not None and self.max_steps < 1:
            raise ConfigError(f"max_steps must be >= 1, got {self.max_steps}")
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in get_args(choices):
                raise ConfigError(
                    f"{name} must be one of {', '.join(get_args(choices))}, "
                    f"got {getattr(self, name)!r}"
                )


def configuration(config: RunConfig) -> dict[str, str | int | float | bool | None]:
    """Return every option in force, defaults included, as a session records it."""
    options = {**asdict(config), "out": str(config.out)}
    return {"model": options.pop("model_name"), **options}


@dataclass(frozen=True, kw_only=True)
class Runner:
    """One run, ready to start: the source is indexed, the model loaded and warm."""

    config: RunConfig
    index: StreamIndex
    classifier: Model[Labels]
    command: tuple[str, ...] = ()
    """The command line, for the record."""
    clock: Clock = SYSTEM_CLOCK

    @classmethod
    def prepare(
        cls, config: RunConfig, *, command: Sequence[str] = (), store: IndexStore | None = None
    ) -> "Runner":
        """Check everything that can be checked before the first frame.

        Args:
            config: What to run.
            command: The command line, for the record.
            store: Where indexes are kept; None means the user's cache folder.

        Raises:
            ConfigError: unknown model, weights that do not fit, a folder that cannot be written.
            BackendError: the device is missing, or the model cannot run there.
            MediaError: the source cannot be opened as video.
        """
        index = open_index(Source.of(config.source), store)
        _claim(config.out, index.source.path)
        ready = prepare(
            lambda: load_classifier(config.model_name, config.weights),
            Compute(device=config.device),
            batch_size=min(config.batch_size, _batches(config, index).planned),
        )
        return cls(config=config, index=index, classifier=ready.model, command=tuple(command))

    @property
    def frames_planned(self) -> int:
        """Frames the run will go through, damage aside."""
        return _batches(self.config, self.index).planned

    def run(self, on_step: Callable[[Step], None] = lambda step: None) -> Session:
        """Run to the end, and record it; an interrupt or an error ends it early, recorded too.

        Args:
            on_step: Called in the caller's thread after each step, for progress.

        Returns:
            The session; its `outcome` tells how the run ended, `error` why it failed. What was
            written until then is whole and playable.

        Raises:
            ConfigError: the annotated video cannot be written.
        """
        made = provenance(configuration(self.config), self.command, self.clock)
        start_ns = self.clock.now_ns()
        outcome: Outcome = "complete"
        error: str | None = None
        steps: list[Step] = []
        batches = _batches(self.config, self.index)
        video = VideoFile(self.config.out / ANNOTATED, self.index.frame_rate)
        preprocess = build_preprocess(self.config.prep_level, self.classifier.input)
        stages = stages_of(self.index, preprocess, self.classifier, video)
        run = Pipeline(source=batches, stages=stages, source_name="decode").run(clock=self.clock)
        try:
            with video, run:
                for item in run:
                    steps.append(step_of(item, len(steps), start_ns))
                    on_step(steps[-1])
        except KeyboardInterrupt:
            outcome = "interrupted"
        except HeadraceError as failure:
            outcome, error = "failed", str(failure).splitlines()[0]
        stage_records, queue_records = stages_and_queues(run)
        return Session(
            provenance=made,
            source=summarize(self.index),
            outcome=outcome,
            error=error,
            wall_seconds=(self.clock.now_ns() - start_ns) / 1e9,
            warmup_steps=1 if len(steps) > 2 else 0,
            steps=Steps.of(steps),
            stages=stage_records,
            queues=queue_records,
            decode=DecodeCounters(**vars(batches.counters)),
            damaged=damaged_frames(batches, self.index),
            outputs=(ANNOTATED,) if video.path.exists() else (),
        )


def _batches(config: RunConfig, index: StreamIndex) -> FileBatches:
    return FileBatches(
        index=index,
        batch_size=config.batch_size,
        stride=config.stride,
        max_batches=config.max_steps,
        on_error=config.on_error,
    )


def _claim(folder: Path, source: Path) -> None:
    """Make the folder of the results; prove that it can be written to, and not over the source."""
    probe = folder / ".headrace-write-test"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"")
        probe.unlink()
        is_source = (folder / ANNOTATED).exists() and (folder / ANNOTATED).samefile(source)
    except OSError as error:
        raise ConfigError(
            f"cannot write to the output folder {folder}: {(error.strerror or str(error)).lower()};"
            " give another one with --out"
        ) from error
    if is_source:
        raise ConfigError(
            f"the annotated video would replace its source {source}; give another folder with --out"
        )

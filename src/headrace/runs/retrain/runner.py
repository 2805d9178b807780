"""One training, step by step: labelled batches in, a head and a recorded session out."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from headrace.decode.index_store import IndexStore
from headrace.errors import ConfigError, HeadraceError, first_line
from headrace.profiling.input_records import with_content
from headrace.profiling.machine import provenance
from headrace.profiling.run_records import Accuracy, StartUpPart
from headrace.profiling.session import Outcome, Session
from headrace.profiling.steps import Step
from headrace.profiling.usage import ProcessorShare
from headrace.runs.checkpoints import Checkpoints, OnRecord
from headrace.runs.outputs import HEAD, claim
from headrace.runs.place import computing_place
from headrace.runs.retrain.evaluation import accuracy
from headrace.runs.retrain.learner import Learner, ready_learner
from headrace.runs.retrain.material import Material
from headrace.runs.retrain.options import RetrainOptions
from headrace.runs.retrain.recording import Ended, session_of
from headrace.runs.retrain.trainer import DATA
from headrace.runs.start import StartWatch
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.training.loader import FrameLoader


@dataclass(frozen=True, kw_only=True)
class RetrainRunner:
    """One training, ready to start: videos labelled and split, the model loaded and warm."""

    options: RetrainOptions
    material: Material
    learner: Learner
    command: tuple[str, ...] = ()
    """The command line, for the record."""
    startup: tuple[StartUpPart, ...] = ()
    """What was done until here."""
    before_start: Callable[[], None] = field(default=lambda: None)
    """Called right before the first step is timed."""
    on_record: OnRecord | None = None
    """Called in the thread that runs with the record so far, now and then; None: never."""
    clock: Clock = SYSTEM_CLOCK

    @classmethod
    def prepare(
        cls,
        options: RetrainOptions,
        *,
        command: Sequence[str] = (),
        store: IndexStore | None = None,
        imports_seconds: float | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> "RetrainRunner":
        """Check everything that can be checked before the first step.

        Args:
            options: What to train, on what and how.
            command: The command line, for the record.
            store: Where indexes are kept; None means the user's cache folder.
            imports_seconds: How long the program took to get here, for the record.
            clock: What measures.

        Raises:
            ConfigError: labels, model, weights or layers that do not fit; a folder that cannot be
                written.
            BackendError: the device is missing, or the model cannot be trained there.
            MediaError: a video cannot be read, and bad media is not to be skipped.
        """
        watch = StartWatch(clock, imports_seconds)
        with watch.part("index"):
            material = Material.open(options.input, options.training.seed, store)
        claim(options.out)
        _check_kept(Path(options.compute.weights), options.out / HEAD)
        learner = ready_learner(
            options.compute,
            options.training,
            material.examples.classes,
            compute=options.compute.compute(),
            batch_size=min(options.compute.batch_size, material.frames),
            watch=watch,
            clock=clock,
        )
        return cls(
            options=options,
            material=material,
            learner=learner,
            command=tuple(command),
            startup=tuple(watch.parts),
            clock=clock,
        )

    @property
    def steps_planned(self) -> int:
        """Steps of the whole training."""
        training, batch_size = self.options.training, self.options.compute.batch_size
        steps = training.epochs * -(-self.material.frames // batch_size)
        return min(steps, training.max_steps or steps)

    def run(self, on_step: Callable[[Step], None] = lambda step: None) -> Session:
        """Train to the end, save the head, hold it against the videos that were held out.

        An interrupt or an error ends it early, recorded too; the head as it then is is saved.

        Args:
            on_step: Called after each step, for progress.

        Returns:
            The session; its `outcome` tells how the training ended, `error` why it failed.
        """
        with computing_place(self.options.compute):
            return self._run(on_step)

    def _run(self, on_step: Callable[[Step], None]) -> Session:
        made = provenance(self.options.configuration(), self.command, self.clock)
        self.before_start()
        start_ns, share = self.clock.now_ns(), ProcessorShare()
        steps: list[Step] = []
        head: str | None = None
        found: Accuracy | None = None
        batch_size, ending = self.options.compute.batch_size, _Ending()
        loader = self.material.training_loader(
            batch_size, epochs=self.options.training.epochs, clock=self.clock
        )

        def record() -> Session:
            ended = Ended(
                outcome=ending.outcome,
                error=ending.error,
                wall_seconds=(self.clock.now_ns() - start_ns) / 1e9,
                others_cpu_share=share.of_others(),
                usage=share.used(),
                head=head,
                accuracy=found,
            )
            return session_of(
                self.options, self.material, self.learner, loader, steps, ended, made, self.startup
            )

        checkpoints = Checkpoints(self.on_record, self.clock)

        def stepped(step: Step) -> None:
            on_step(step)
            checkpoints.look(record)

        with ending.noted(), loader:
            self._train(loader, steps, start_ns, stepped)
        with ending.noted():
            head = self._save(steps)
        if ending.outcome == "complete" and self.material.held_out:
            with ending.noted():
                found = accuracy(
                    self.learner, self.material, batch_size=batch_size, clock=self.clock
                )
        session = record()
        return session.model_copy(update={"inputs": with_content(session.inputs)})

    def _train(
        self,
        loader: FrameLoader,
        steps: list[Step],
        start_ns: int,
        on_step: Callable[[Step], None],
    ) -> None:
        for _ in range(self.options.training.epochs):
            batches = iter(loader)
            while len(steps) < self.steps_planned:
                began_ns = self.clock.now_ns()
                batch = next(batches, None)
                if batch is None:
                    break
                waited_ms = (self.clock.now_ns() - began_ns) / 1e6
                videos = [self.material.trained_on[video] for video in batch.video.tolist()]
                places = zip(videos, batch.index.tolist(), strict=True)
                truth = [int(self.material.examples.of_frame[v][k]) for v, k in places]
                done = self.learner.trainer.step(
                    batch.frames.movedim(1, -1), torch.from_numpy(np.array(truth, np.int64))
                )
                step = Step(
                    step=len(steps),
                    input=videos[0],
                    first_index=int(batch.index[0]),
                    frames=len(batch),
                    started_ms=(began_ns - start_ns) / 1e6,
                    work_ms={DATA: waited_ms, **done.work_ms},
                    total_ms=(self.clock.now_ns() - began_ns) / 1e6,
                    loss=done.loss,
                )
                steps.append(step)
                on_step(step)
                if not math.isfinite(done.loss):
                    raise ConfigError(
                        f"the loss is {done.loss} in step {step.step}: the weights ran away; use a "
                        f"smaller --learning-rate than {self.options.training.learning_rate:g}"
                    )

    def _save(self, steps: Sequence[Step]) -> str | None:
        """Save the head as it is; not one without a step, or that ran away."""
        if not steps or not math.isfinite(steps[-1].loss or 0.0):
            return None
        self.learner.head(self.material.examples.classes).save(self.options.out / HEAD)
        return HEAD


class _Ending:
    """How a training ends: by the first thing that ends it early, if there is one."""

    outcome: Outcome = "complete"
    error: str | None = None

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note an interrupt or an error that ends the block."""
        try:
            yield
        except KeyboardInterrupt:
            self._note("interrupted", None)
        except HeadraceError as failure:
            self._note("failed", first_line(failure))

    def _note(self, outcome: Outcome, error: str | None) -> None:
        if self.outcome == "complete":
            self.outcome, self.error = outcome, error


def _check_kept(weights: Path, head: Path) -> None:
    """Raise ConfigError where the head would replace the weights that it is trained on."""
    if weights.exists() and head.exists() and weights.samefile(head):
        raise ConfigError(
            f"the head would replace the weights {weights} that it is trained on; give another "
            "folder with --out"
        )

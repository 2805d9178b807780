"""Training: its preparation, and its steps, recorded as a session."""

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from headrace.decode.index_store import IndexStore
from headrace.errors import ConfigError
from headrace.models.device import transfer
from headrace.profiling.input_records import DecodeStats, LostFrame, lost_frame, summarize_all
from headrace.profiling.recorder import Recorder
from headrace.profiling.run_records import Accuracy, StageRecord, TrainingRecord
from headrace.profiling.session import Kind, Step
from headrace.runs.model_setup import StartupTimer, precision_notes, run_setup
from headrace.runs.output_folder import HEAD, prepare_folder
from headrace.runs.retrain.labelled_dataset import LabelledDataset
from headrace.runs.retrain.learner import DATA, PARTS, Learner, load_learner
from headrace.runs.retrain.retrain_options import RetrainOptions
from headrace.runs.run_session import BaseRunner, StepSource
from headrace.runtime.clock import SYSTEM_CLOCK, Clock


@dataclass(frozen=True, kw_only=True)
class RetrainRunner(BaseRunner):
    """Training, ready to start: videos labelled and split, model loaded and warm."""

    options: RetrainOptions
    dataset: LabelledDataset
    learner: Learner
    _kind: ClassVar[Kind] = "retrain"

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
        """Load the model and check all options before the first step.

        Args:
            options: Options of the training.
            command: The command line, for the record.
            store: Cache of indexes; None: the user's cache folder.
            imports_seconds: Seconds from the start of the process, for the record.
            clock: Clock of the training.

        Raises:
            ConfigError: labels, model, weights or layers do not fit; the output folder cannot be
                written.
            BackendError: the device is missing, or cannot train the model.
            MediaError: a video cannot be read, and `on_error` is `raise`.
        """
        timer = StartupTimer(clock, imports_seconds)
        with timer.part("index"):
            dataset = LabelledDataset.open(options.input, options.training.seed, store)
        prepare_folder(options.out)
        _check_not_replaced(Path(options.compute.weights), options.out / HEAD)
        learner = load_learner(
            options.compute,
            options.training,
            dataset.labels.classes,
            batch_size=min(options.compute.batch_size, dataset.frames),
            timer=timer,
        )
        return cls(
            options=options,
            dataset=dataset,
            learner=learner,
            command=tuple(command),
            startup=tuple(timer.parts),
            clock=clock,
        )

    @property
    def steps_planned(self) -> int:
        """Steps of the training."""
        training, batch_size = self.options.training, self.options.compute.batch_size
        steps = training.epochs * -(-self.dataset.frames // batch_size)
        return min(steps, training.max_steps or steps)

    @property
    def out(self) -> Path:
        """Output folder."""
        return self.options.out

    def _step_source(self, recorder: Recorder) -> "TrainingSteps":
        return TrainingSteps(self, recorder)


class TrainingSteps(StepSource):
    """Steps of a training.

    After the last step the head is saved. After a complete training, its accuracy on the held-out
    videos is measured.
    """

    def __init__(self, runner: RetrainRunner, recorder: Recorder) -> None:
        """Open the loader of the training videos."""
        options = runner.options
        self._runner, self._recorder, self._dataset = runner, recorder, runner.dataset
        self._batch_size = options.compute.batch_size
        self._loader = runner.dataset.training_loader(
            self._batch_size, epochs=options.training.epochs, clock=runner.clock
        )
        self._head: str | None = None
        self._accuracy: Accuracy | None = None

    def open(self) -> AbstractContextManager[object]:
        """See `StepSource.open`."""
        return self._loader

    def steps(self) -> Iterator[Step]:
        """See `StepSource.steps`.

        Raises:
            ConfigError: the loss is not finite.
        """
        runner, dataset, clock = self._runner, self._dataset, self._runner.clock
        number = 0
        for _ in range(runner.options.training.epochs):
            batches = iter(self._loader)
            while number < runner.steps_planned:
                start_ns = clock.now_ns()
                batch = next(batches, None)
                if batch is None:
                    break
                waited_ms = (clock.now_ns() - start_ns) / 1e6
                videos, truth = dataset.truth(dataset.training_videos, batch)
                frames = batch.frames.movedim(1, -1)
                loss, work_ms = runner.learner.step(frames, torch.from_numpy(truth))
                yield Step(
                    step=number,
                    input=videos[0],
                    first_index=int(batch.index[0]),
                    frames=len(batch),
                    started_ms=(start_ns - self._recorder.start_ns) / 1e6,
                    work_ms={DATA: waited_ms, **work_ms},
                    total_ms=(clock.now_ns() - start_ns) / 1e6,
                    loss=loss,
                )
                if not math.isfinite(loss):
                    rate = runner.options.training.learning_rate
                    raise ConfigError(
                        f"the training diverged: the loss is {loss} in step {number}; use a "
                        f"smaller --learning-rate than {rate:g}"
                    )
                number += 1

    def finish(self) -> None:
        """See `StepSource.finish`. Saves no head without a step or with an infinite loss."""
        runner, recorder = self._runner, self._recorder
        steps = list(recorder.steps)
        with recorder.ending():
            if steps and math.isfinite(steps[-1].loss or 0.0):
                head = runner.learner.head(self._dataset.labels.classes)
                head.save(runner.options.out / HEAD)
                self._head = HEAD
        if recorder.outcome == "complete" and self._dataset.held_out:
            with recorder.ending():
                self._accuracy = self._measure_accuracy()

    def parts(self) -> dict[str, Any]:
        """See `StepSource.parts`."""
        options, learner, dataset = self._runner.options, self._runner.learner, self._dataset
        sources = (error.source for error in dataset.skipped)
        inputs, positions = summarize_all(dataset.indexes, sources)
        skipped = (
            LostFrame(input=positions[e.source], index=None, pts_seconds=None, cause=str(e))
            for e in dataset.skipped
        )
        lost = (lost_frame(loss, positions[loss.source]) for loss in self._loader.quarantined)
        origin, stride = self._recorder.provenance, options.input.stride
        return {
            "setup": run_setup(
                options.compute, learner.model, origin, stride=stride, draws_video=False
            ),
            "inputs": inputs,
            "stages": tuple(self._stages()),
            "decode": DecodeStats(**vars(self._loader.decode_counters)),
            "lost": (*skipped, *lost),
            "notes": precision_notes(options.compute),
            "training": TrainingRecord(
                classes=dataset.labels.classes,
                is_dummy=dataset.labels.is_dummy,
                videos=len(dataset.training_videos),
                frames=dataset.frames,
                held_out_videos=len(dataset.held_out),
                trained_parameters=learner.num_trained,
                accuracy=self._accuracy,
                not_measured=None if self._accuracy else self._not_measured(),
                head=self._head,
            ),
            "outputs": (self._head,) if self._head else (),
        }

    def _stages(self) -> Iterator[StageRecord]:
        """Yield the parts of a step as stages, which run one after the other, without queues."""
        steps, moved = list(self._recorder.steps), self._runner.learner.moved_bytes
        for name in steps[0].work_ms if steps else ():
            is_transfer = PARTS[name] == "transfer"
            yield StageRecord(
                name=name,
                role=PARTS[name],
                workers=1,
                items=len(steps),
                busy_seconds=sum(step.work_ms[name] for step in steps) / 1e3,
                starved_seconds=0.0,
                blocked_seconds=0.0,
                moved_bytes=moved if is_transfer else 0,
                moved_to="cuda" if moved and is_transfer else None,
            )

    def _measure_accuracy(self) -> Accuracy | None:
        """Return the accuracy on some frames of each held-out video; None: no frame can be read.

        Runs the model as `headrace run` does.

        Raises:
            MediaError: a frame cannot be read, and `on_error` is `raise`.
        """
        learner, dataset = self._runner.learner, self._dataset
        model, classes = learner.model, dataset.labels.classes
        correct, counts = 0, np.zeros(len(classes), np.int64)
        with dataset.held_out_loader(self._batch_size, self._runner.clock) as loader:
            for batch in loader:
                tensor = learner.preprocess(batch.frames.movedim(1, -1))
                predictions = model.run(transfer(tensor, model.compute.device))
                _, truth = dataset.truth(dataset.held_out_videos, batch)
                predicted = [classes.index(names[0]) for names in predictions.names]
                correct += int(sum(truth == predicted))
                np.add.at(counts, truth, 1)
        if not counts.any():
            return None
        return Accuracy(frames=int(counts.sum()), right=correct, most_frequent=int(counts.max()))

    def _not_measured(self) -> str:
        dataset = self._dataset
        if dataset.labels.is_dummy:
            return "the labels are random dummies; give real labels with --labels"
        if not self._runner.options.input.held_out:
            return "no video is held out; leave out --held-out 0"
        if not dataset.held_out:
            return (
                "no class has a second video to hold out, and frames of one video are too similar "
                "for a test; label two or more videos of each class"
            )
        if self._recorder.outcome != "complete":
            return "the training did not complete"
        return "no frame of the held-out videos could be read"


def _check_not_replaced(weights: Path, head: Path) -> None:
    """Raise ConfigError if the saved head would overwrite the initial weights."""
    if weights.exists() and head.exists() and weights.samefile(head):
        raise ConfigError(
            f"the saved head would replace the initial weights {weights}; give another folder with "
            "--out"
        )

"""One training, step by step: labelled batches in, a head and a recorded session out."""

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headrace.decode.index_store import IndexStore
from headrace.errors import ConfigError
from headrace.models.transfer import transfer
from headrace.profiling.input_records import DecodeStats, LostFrame, lost_frame, summarize_all
from headrace.profiling.recorder import Recorder
from headrace.profiling.run_records import Accuracy, TrainingRecord
from headrace.profiling.session import Kind
from headrace.profiling.stage_records import StageRecord
from headrace.profiling.steps import Step
from headrace.runs.model_setup import StartWatch, notes_on, setup_of
from headrace.runs.outputs import HEAD, claim
from headrace.runs.retrain.labelled_dataset import LabelledDataset
from headrace.runs.retrain.learner import Learner, ready_learner
from headrace.runs.retrain.retrain_options import RetrainOptions
from headrace.runs.retrain.trainer import DATA, PARTS
from headrace.runs.runner import AnyRunner
from headrace.runtime.clock import SYSTEM_CLOCK, Clock


@dataclass(frozen=True, kw_only=True)
class RetrainRunner(AnyRunner["Training"]):
    """One training, ready to start: videos labelled and split, the model loaded and warm."""

    options: RetrainOptions
    material: LabelledDataset
    learner: Learner

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
            material = LabelledDataset.open(options.input, options.training.seed, store)
        claim(options.out)
        _check_kept(Path(options.compute.weights), options.out / HEAD)
        learner = ready_learner(
            options.compute,
            options.training,
            material.examples.classes,
            compute=options.compute.compute(),
            batch_size=min(options.compute.batch_size, material.frames),
            watch=watch,
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

    @property
    def out(self) -> Path:
        """Folder of its results."""
        return self.options.out

    @property
    def _kind(self) -> Kind:
        return "retrain"

    def _feed(self, recorder: Recorder) -> "Training":
        return Training(self, recorder)


class Training:
    """Labelled batches that a model learns from: a `Feed`.

    Behind the last step the head is saved as it then is, and held against the videos that were
    held out where the training came to its end.
    """

    def __init__(self, runner: RetrainRunner, recorder: Recorder) -> None:
        """Train nothing yet."""
        options = runner.options
        self._runner, self._recorder, self._material = runner, recorder, runner.material
        self._batch_size = options.compute.batch_size
        self._loader = runner.material.training_loader(
            self._batch_size, epochs=options.training.epochs, clock=runner.clock
        )
        self._head: str | None = None
        self._accuracy: Accuracy | None = None

    def open(self) -> AbstractContextManager[object]:
        """See `Feed.open`."""
        return self._loader

    def steps(self) -> Iterator[Step]:
        """See `Feed.steps`.

        Raises:
            ConfigError: the weights ran away.
        """
        runner, material, clock = self._runner, self._material, self._runner.clock
        number = 0
        for _ in range(runner.options.training.epochs):
            batches = iter(self._loader)
            while number < runner.steps_planned:
                began_ns = clock.now_ns()
                batch = next(batches, None)
                if batch is None:
                    break
                waited_ms = (clock.now_ns() - began_ns) / 1e6
                videos, truth = material.truth(material.trained_on, batch)
                done = runner.learner.trainer.step(
                    batch.frames.movedim(1, -1), torch.from_numpy(truth)
                )
                yield Step(
                    step=number,
                    input=videos[0],
                    first_index=int(batch.index[0]),
                    frames=len(batch),
                    started_ms=(began_ns - self._recorder.start_ns) / 1e6,
                    work_ms={DATA: waited_ms, **done.work_ms},
                    total_ms=(clock.now_ns() - began_ns) / 1e6,
                    loss=done.loss,
                )
                if not math.isfinite(done.loss):
                    rate = runner.options.training.learning_rate
                    raise ConfigError(
                        f"the loss is {done.loss} in step {number}: the weights ran away; use a "
                        f"smaller --learning-rate than {rate:g}"
                    )
                number += 1

    def finish(self) -> None:
        """See `Feed.finish`. No head is saved without a step, or where the weights ran away."""
        runner, recorder = self._runner, self._recorder
        steps = list(recorder.steps)
        with recorder.ending():
            if steps and math.isfinite(steps[-1].loss or 0.0):
                head = runner.learner.head(self._material.examples.classes)
                head.save(runner.options.out / HEAD)
                self._head = HEAD
        if recorder.outcome == "complete" and self._material.held_out:
            with recorder.ending():
                self._accuracy = self._measured()

    def parts(self) -> dict[str, Any]:
        """See `Feed.parts`."""
        options, learner, material = self._runner.options, self._runner.learner, self._material
        sources = (error.source for error in material.left_out)
        inputs, places = summarize_all(material.indexes, sources)
        left_out = (
            LostFrame(input=places[each.source], index=None, pts_seconds=None, cause=str(each))
            for each in material.left_out
        )
        lost = (lost_frame(loss, places[loss.source]) for loss in self._loader.quarantined)
        made, stride = self._recorder.provenance, options.input.stride
        return {
            "setup": setup_of(
                options.compute, learner.model, made, stride=stride, draws_video=False
            ),
            "inputs": inputs,
            "stages": tuple(self._stages()),
            "decode": DecodeStats(**vars(self._loader.decode_counters)),
            "lost": (*left_out, *lost),
            "notes": notes_on(options.compute),
            "training": TrainingRecord(
                classes=material.examples.classes,
                is_dummy=material.examples.is_dummy,
                videos=len(material.trained_on),
                frames=material.frames,
                held_out_videos=len(material.held_out),
                trained_parameters=learner.num_trained,
                accuracy=self._accuracy,
                not_measured=None if self._accuracy else self._not_measured(),
                head=self._head,
            ),
            "outputs": (self._head,) if self._head else (),
        }

    def _stages(self) -> Iterator[StageRecord]:
        """Yield the parts of a step as stages: each waits while the others work, for no queue."""
        steps, moved = list(self._recorder.steps), self._runner.learner.trainer.moved_bytes
        for name in steps[0].work_ms if steps else ():
            carries = PARTS[name] == "transfer"
            yield StageRecord(
                name=name,
                role=PARTS[name],
                workers=1,
                items=len(steps),
                busy_seconds=sum(step.work_ms[name] for step in steps) / 1e3,
                starved_seconds=0.0,
                blocked_seconds=0.0,
                moved_bytes=moved if carries else 0,
                moved_to="cuda" if moved and carries else None,
            )

    def _measured(self) -> Accuracy | None:
        """Return how often the model is right on some frames of each video that was held out.

        It is run as `headrace run` runs it. None where none of the frames can be read.

        Raises:
            MediaError: a frame cannot be read, and bad media is not to be skipped.
        """
        learner, material = self._runner.learner, self._material
        model, classes = learner.model, material.examples.classes
        right, seen = 0, np.zeros(len(classes), np.int64)
        with material.held_out_loader(self._batch_size, self._runner.clock) as loader:
            for batch in loader:
                pictures = learner.preprocess(batch.frames.movedim(1, -1))
                found = model.run(transfer(pictures, model.compute.device).tensor)
                _, truth = material.truth(material.looked_at, batch)
                right += int(sum(truth == [classes.index(names[0]) for names in found.names]))
                np.add.at(seen, truth, 1)
        if not seen.any():
            return None
        return Accuracy(frames=int(seen.sum()), right=right, most_frequent=int(seen.max()))

    def _not_measured(self) -> str:
        material = self._material
        if material.examples.is_dummy:
            return "the labels are dummies, drawn at random; give real ones with --labels"
        if not self._runner.options.input.held_out:
            return "no video was held out; leave out --held-out 0"
        if not material.held_out:
            return (
                "no class has a video to spare, and frames of one video are too alike to tell; "
                "label two videos or more of each class"
            )
        if self._recorder.outcome != "complete":
            return "the training did not come to its end"
        return "no frame of the videos held out could be read"


def _check_kept(weights: Path, head: Path) -> None:
    """Raise ConfigError where the head would replace the weights that it is trained on."""
    if weights.exists() and head.exists() and weights.samefile(head):
        raise ConfigError(
            f"the head would replace the weights {weights} that it is trained on; give another "
            "folder with --out"
        )

"""How often a model is right on videos that it was not trained on."""

import numpy as np

from headrace.models.transfer import transfer
from headrace.profiling.run_records import Accuracy
from headrace.runs.retrain.learner import Learner
from headrace.runs.retrain.material import Material
from headrace.runtime.clock import Clock


def accuracy(
    learner: Learner, material: Material, *, batch_size: int, clock: Clock
) -> Accuracy | None:
    """Return how often the model is right on some frames of each video that was held out.

    It is run as `headrace run` runs it. None where none of the frames can be read.

    Raises:
        MediaError: a frame cannot be read, and bad media is not to be skipped.
    """
    model, examples = learner.model, material.examples
    videos, classes = material.looked_at, examples.classes
    right, seen = 0, np.zeros(len(classes), np.int64)
    with material.held_out_loader(batch_size, clock) as loader:
        for batch in loader:
            pictures = learner.preprocess(batch.frames.movedim(1, -1))
            found = model.run(transfer(pictures, model.compute.device).tensor)
            places = zip(batch.video.tolist(), batch.index.tolist(), strict=True)
            truth = [int(examples.of_frame[videos[video]][index]) for video, index in places]
            answers = [classes.index(names[0]) for names in found.names]
            right += sum(each == answer for each, answer in zip(truth, answers, strict=True))
            np.add.at(seen, truth, 1)
    if not seen.any():
        return None
    return Accuracy(frames=int(seen.sum()), right=right, most_frequent=int(seen.max()))

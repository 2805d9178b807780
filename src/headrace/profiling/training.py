"""What a training learnt from, and how well."""

from pydantic import NonNegativeInt, PositiveInt

from headrace.profiling.provenance import Record, Text


class Accuracy(Record):
    """How often the head was right on frames of videos that it was not trained on."""

    frames: PositiveInt
    """Frames that were looked at."""
    right: NonNegativeInt
    """Frames whose likeliest class was their label."""
    most_frequent: NonNegativeInt
    """Frames of the class that most of them belong to: naming it always would be right so often."""


class TrainingRecord(Record):
    """What was learnt."""

    classes: tuple[Text, ...]
    is_dummy: bool = False
    """Whether labels were drawn at random; the head then means nothing."""
    videos: NonNegativeInt
    """Videos that were trained on."""
    frames: NonNegativeInt
    """Frames of an epoch."""
    held_out_videos: NonNegativeInt = 0
    """Videos that were kept for the accuracy."""
    trained_parameters: NonNegativeInt
    """Weights that moved, of `Setup.parameters`."""
    accuracy: Accuracy | None = None
    not_measured: Text | None = None
    """Why there is no accuracy, and what to do."""
    head: Text | None = None
    """The file of the head, relative to the folder; None where none was saved."""

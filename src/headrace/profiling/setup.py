"""How a session was set up: the options that set its pace, how long it took to start, what-ifs."""

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from headrace.profiling.provenance import Record, Scalar


class Setup(Record):
    """The options that set the pace of a session, as values that findings reason about."""

    batch_size: PositiveInt = 1
    """Frames in a step."""
    stride: PositiveInt = 1
    """1 means every frame."""
    device: str = "cpu"
    """Where the model runs: `cpu`, `cuda`, `cuda:1`."""
    model: str | None = None
    """Its name; None where there is none, or it is the user's own."""
    smaller_model: str | None = None
    """A model for the same task with less arithmetic, if one is known."""
    parameters: NonNegativeInt | None = None
    """Weights and biases of the model."""
    threads: PositiveInt | None = None
    """Threads of one operation of PyTorch on the CPU."""
    prep_level: str | None = None
    """`simple`, `medium`, `complex`; None where preprocessing is the user's own."""
    draws_video: bool = False
    """Whether an annotated video is written."""


class StartUpPart(Record):
    """One thing that was done before the first frame."""

    name: str
    """`imports`, `profiler`, `index`, `model`, `compile`, `warm-up`."""
    seconds: NonNegativeFloat


class Alternative(Record):
    """What another setting was measured to bring on this machine, in a moment after the session.

    All stages ran, as they did in the session.
    """

    option: str
    """As typed on the command line: `--batch-size 8`."""
    options: dict[str, Scalar]
    """The options of a run that make it, by their names."""
    ms_per_frame: PositiveFloat
    """Of the whole, once frames flowed."""
    baseline_ms_per_frame: PositiveFloat
    """The same with the session's own setting, measured in the same way."""

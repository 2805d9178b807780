"""How a session was set up: the options that set its pace, how long it took to start, what-ifs."""

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from headrace.profiling.provenance import Record


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
    """What another setting was measured to bring to the model, on this machine."""

    option: str
    """As typed on the command line: `--batch-size 8`."""
    ms_per_frame: NonNegativeFloat
    """Of the model, median."""
    baseline_ms_per_frame: NonNegativeFloat
    """Of the model as the session had it, measured in turns with the other."""

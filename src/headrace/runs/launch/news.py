"""What a worker tells the launch, as values that go there as text."""

from dataclasses import dataclass
from typing import Literal

from headrace.runtime.child import Json

ADDRESS = "HEADRACE_LAUNCH"
"""The variable of the environment that tells a run which launch it belongs to."""

State = Literal["loading", "ready", "running", "over"]


@dataclass(frozen=True, kw_only=True)
class News:
    """How one worker is."""

    worker: str
    state: State
    frames: int = 0
    """That came out so far."""
    seconds: float = 0.0
    """They took."""


def ready(pid: int) -> Json:
    """It is loaded and warm."""
    return {"ready": pid}


def began(at_ns: int) -> Json:
    """It goes on, at this moment of the clock."""
    return {"began": at_ns}


def progress(frames: int, seconds: float) -> Json:
    """So many frames came out in so many seconds."""
    return {"frames": frames, "seconds": seconds}

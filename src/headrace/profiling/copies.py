"""What was copied between the CPU and a GPU for each frame, as a session counted it."""

from dataclasses import dataclass
from typing import Self

from headrace.profiling.session import Session


@dataclass(frozen=True, kw_only=True)
class Copies:
    """Bytes for each frame that came out. The fewer the better: a copy is no work on a frame."""

    up_bytes: float
    """To a GPU: frames, or batches for the model."""
    down_bytes: float
    """From it: frames that were decoded there, or are shown; batches; not what a model found."""

    @classmethod
    def of(cls, session: Session) -> Self | None:
        """Return them; None where no GPU was used, or no frame came out."""
        carrying = [stage for stage in session.stages if stage.moved_bytes]
        frames = sum(session.steps.frames)
        decodes_there = ":cuda:" in str(session.provenance.configuration.get("decode"))
        brought_down = session.decode.brought_down_bytes
        if not frames or not (carrying or decodes_there or brought_down):
            return None
        down = sum(stage.moved_bytes for stage in carrying if stage.moved_to == "cpu")
        up = sum(stage.moved_bytes for stage in carrying) - down
        return cls(up_bytes=up / frames, down_bytes=(down + brought_down) / frames)

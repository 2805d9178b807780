"""What the GPU and the CPU decoded, where they share the work, and why it was the CPU."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class WayDone:
    """What was done on one way of decoding."""

    jobs: int = 0
    """Jobs that were ended there."""
    frames: int = 0
    """Frames that it delivered. Over all ways: each that was delivered, once."""
    seconds: float = 0.0
    """That threads were at it, added up; their wait for a turn is left out. Over `frames` it tells
    what a frame takes there while all are at work."""


@dataclass(frozen=True, kw_only=True)
class DecodedBy:
    """What each way of decoding did, of `Decoding(device="auto")`."""

    ways: Mapping[str, WayDone] = field(default_factory=dict)
    """`cpu`, and the GPU as in `cuda:0` if there is one, to what was done there."""
    no_gpu: str | None = None
    """Why no file goes to the GPU, or none any more; None: it takes part."""
    on_cpu: Mapping[str, str] = field(default_factory=dict)
    """Each file that only the CPU decodes, and why, where others may go to the GPU."""

    def __str__(self) -> str:
        """Return it in one line; of the files on the CPU alone the first."""
        said = [
            f"{way}: {done.jobs} jobs, {done.frames} frames, {done.seconds:.2f} s"
            for way, done in self.ways.items()
        ]
        if self.no_gpu is not None:
            said.append(f"the CPU alone, as {self.no_gpu}")
        for file, reason in [*self.on_cpu.items()][:1]:
            said.append(f"{len(self.on_cpu)} of the files by the CPU alone, as {file}: {reason}")
        return "; ".join(said)

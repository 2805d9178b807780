"""What came of a chunk, without its features: what a run needs to know of those before it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.extraction.features.result import ChunkResult, Lost


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a chunk, without its features."""

    came: int
    """Samples that have one."""
    lost: tuple[Lost, ...] = ()
    concealed: tuple[int, ...] = ()
    """First frames of samples that are damaged, and were taken as FFmpeg shows them."""

    @classmethod
    def of(cls, result: ChunkResult) -> "Outcome":
        """Return the outcome that a result tells of."""
        samples = result.samples
        return cls(
            came=len(samples),
            lost=result.lost,
            concealed=tuple(samples.index[samples.is_concealed].tolist()),
        )

    def plain(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        lost = [[each.index, each.cause] for each in self.lost]
        return {"came": self.came, "lost": lost, "concealed": list(self.concealed)}

    @classmethod
    def of_plain(cls, plain: Mapping[str, Any]) -> "Outcome":
        """Return what `plain` told."""
        return cls(
            came=plain["came"],
            lost=tuple(Lost(index=index, cause=cause) for index, cause in plain["lost"]),
            concealed=tuple(plain["concealed"]),
        )

"""Counts of frames by what became of them, and the first few in words."""

from dataclasses import dataclass, field

MOST_EXAMPLES = 8
MOST_LETTERS = 400


@dataclass(kw_only=True, eq=False)
class Tally:
    """What one way made of the frames it was asked for; they become the fields of a verdict."""

    right: int = 0
    wrong: int = 0
    refused_with: int = 0
    refused_without: int = 0
    examples: list[str] = field(default_factory=list)
    reason: str = ""

    def is_right(self) -> None:
        """Count a frame that is what it should be."""
        self.right += 1

    def is_wrong(self, example: str) -> None:
        """Count one that is not."""
        self.wrong += 1
        self._show(example)

    def is_refused(self, example: str, *, is_complained_of: bool) -> None:
        """Count one that was refused, by whether FFmpeg complains too."""
        if is_complained_of:
            self.refused_with += 1
        else:
            self.refused_without += 1
            self._show(example)

    def say(self, reason: object) -> None:
        """Keep the first reason that was given."""
        self.reason = self.reason or str(reason)[:MOST_LETTERS]

    def _show(self, example: str) -> None:
        if len(self.examples) < MOST_EXAMPLES:
            self.examples.append(example)

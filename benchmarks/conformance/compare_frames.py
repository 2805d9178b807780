"""Holds frames of headrace against the plain decode, one by one, and counts what comes out."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.conformance.align import align
from benchmarks.conformance.process import Ending
from benchmarks.conformance.reference import Reference, digest
from benchmarks.conformance.verdict import HEADRACE, Verdict
from headrace.decode.pixels import Array
from headrace.decode.protocol import DecodeJob, Decoder
from headrace.errors import DecodeError, HeadraceError

MOST_EXAMPLES = 8
MOST_LETTERS = 400
Outcome = Literal["right", "wrong", "refused_with", "refused_without"]
"""Of a frame: with or without a complaint of FFmpeg's."""


@dataclass(eq=False)
class Tally:
    """What one way made of the frames it was asked for."""

    counts: Counter[str] = field(default_factory=Counter)
    """Fields of a verdict."""
    examples: list[str] = field(default_factory=list)
    reason: str = ""

    def add(self, outcome: Outcome, example: str = "") -> None:
        """Count a frame; what is no fault gives no example."""
        self.counts[outcome] += 1
        if outcome in ("wrong", "refused_without") and len(self.examples) < MOST_EXAMPLES:
            self.examples.append(example)

    def explain(self, reason: object) -> None:
        """Keep the first reason that was given."""
        self.reason = self.reason or str(reason)[:MOST_LETTERS]

    def verdict(self, party: str, way: str, ending: Ending = "done", reason: str = "") -> Verdict:
        """Return what was counted so far."""
        return Verdict(
            party=party,
            way=way,
            ending=ending,
            examples=tuple(self.examples),
            reason=reason or self.reason,
            **self.counts,
        )


class Judge:
    """Counts what one way gives for the frames of an index."""

    def __init__(self, reference: Reference, index_pts: NDArray[np.int64]) -> None:
        self.reference = reference
        self.alignment = align(index_pts, reference.pts, is_whole=reference.is_whole)
        self.tally = Tally()

    def __len__(self) -> int:
        """How many frames of the index can be judged."""
        return len(self.alignment)

    def share_a_size(self, indices: Iterable[int]) -> bool:
        """Whether the plain decode gives these frames in one size."""
        sizes = self.reference.sizes
        found = {tuple(sizes[r]) for n in indices for r in self._range(n)}
        return len(found) < 2

    def picture(self, index: int, picture: NDArray[np.uint8], *, is_small: bool = False) -> None:
        """Judge a picture, uint8 [H, W, 3], that came as frame `index`.

        With `is_small` it was asked for in the small size of the plain decode.
        """
        if index >= len(self):
            return  # the plain decode ended before
        found = digest(picture)
        hashes = self.reference.small if is_small else self.reference.own
        if any(hashes[r] == found for r in self._range(index)):
            self.tally.add("right")
            return
        near = int(self.alignment.first[index])
        other = self.reference.find(found, near, is_small=is_small)
        what = "differs from every frame" if other is None else f"is frame {other}"
        if not self._range(index):
            what = f"{what}, and the plain decode has no such frame"
        elif other is not None:
            what = f"is frame {other} of the plain decode, not {self._range(index)[0]}"
        self.tally.add("wrong", f"{index} {what}")

    def refused(self, indices: Iterable[int], error: Exception | str) -> None:
        """Note that frames of the index were refused, each by name."""
        self.tally.explain(error)
        for index in indices:
            if index < len(self):
                self._refused(self._range(index), str(index))

    def left_out(self, indices: Iterable[int]) -> None:
        """Note that frames of the index neither came nor were refused."""
        for index in indices:
            if index < len(self):
                self.tally.add("wrong", f"{index} is left out without a word")

    def unindexed(self) -> None:
        """Note the frames of the plain decode that the index lacks: nobody can ask for them."""
        for r in self.alignment.unindexed:
            self._refused(range(r, r + 1), f"the plain decode's {r}, which the index lacks,")

    def verdict(self, way: str, ending: Ending = "done", reason: str = "") -> Verdict:
        """Return what was counted so far."""
        return self.tally.verdict(HEADRACE, way, ending, reason)

    def _range(self, index: int) -> range:
        if index >= len(self):
            return range(0)
        return range(int(self.alignment.first[index]), int(self.alignment.stop[index]))

    def _refused(self, frames: Sequence[int], name: str) -> None:
        reached = self.reference.is_complained_of
        # What is lost for the plain decode, too, was lost with whatever complaint there is.
        is_told = any(reached[r] for r in frames) if frames else len(self.reference.complaints)
        outcome: Outcome = "refused_with" if is_told else "refused_without"
        self.tally.add(outcome, f"{name} is refused")


def run_job(decoder: Decoder[Array], job: DecodeJob, judge: Judge) -> None:
    """Run one job and judge every frame of it: what came, what was refused, what was left out."""
    left = list(job.wanted)
    try:
        for index, picture in decoder.run(job):
            if index in left:
                left.remove(index)
            judge.picture(index, picture)
    except HeadraceError as error:
        missing = error.missing if isinstance(error, DecodeError) and error.missing else left
        judge.refused(missing, error)
        left = [index for index in left if index not in missing]
    judge.left_out(left)

"""Comparison of headrace's frames with the plain decode, frame by frame.

An index counts presented frames, including frames that a plain decode loses with a complaint. A
faulty index may lack frames. If both have the same number of frames, frames are matched by index.
Otherwise, frames with a unique time on both sides are matched by it, and the frames between them in
order. If several matches are possible, each is accepted.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.conformance.reference import NO_PTS, Reference, digest
from benchmarks.conformance.verdict import HEADRACE, Ending, Verdict
from headrace import DecodeError, DecodeJob, Decoder, HeadraceError
from headrace.decode.frame_outputs import Array

_Times = NDArray[np.int64]
_MIN_MATCHED = 0.9
"""Min share of frames with matching times for a match by times if the counts are equal."""
MAX_EXAMPLES = 8
MAX_REASON = 400
"""Max characters of a reason."""
Outcome = Literal["right", "wrong", "refused_with", "refused_without"]
"""Outcome of a frame; `_with`, `_without`: with or without a complaint of FFmpeg."""


@dataclass(eq=False)
class Tally:
    """Outcomes of one variant's requested frames."""

    counts: Counter[str] = field(default_factory=Counter)
    """Outcome → number of frames."""
    examples: list[str] = field(default_factory=list)
    reason: str = ""

    def add(self, outcome: Outcome, example: str = "") -> None:
        """Count a frame; only faults are kept as examples."""
        self.counts[outcome] += 1
        if outcome in ("wrong", "refused_without") and len(self.examples) < MAX_EXAMPLES:
            self.examples.append(example)

    def explain(self, reason: object) -> None:
        """Keep the first reason."""
        self.reason = self.reason or str(reason)[:MAX_REASON]

    def verdict(self, party: str, way: str, ending: Ending = "done", reason: str = "") -> Verdict:
        """Return the counts so far."""
        outcomes: Any = {"examples": tuple(self.examples), **self.counts}
        return Verdict(
            party=party, way=way, ending=ending, reason=reason or self.reason, **outcomes
        )


class Judge:
    """Comparison of one variant's frames with the plain decode, by frames of the index."""

    def __init__(self, reference: Reference, index_pts: _Times) -> None:
        self.reference = reference
        self._ranges = align(index_pts, reference.pts, is_whole=reference.is_whole)
        self.tally = Tally()

    def __len__(self) -> int:
        """Number of frames of the index that can be compared."""
        return len(self._ranges)

    @property
    def loose(self) -> int:
        """Number of frames of the index with several possible matches."""
        return sum(len(frame_range) > 1 for frame_range in self._ranges)

    @property
    def lacking(self) -> list[int]:
        """Frames of the plain decode without a match in the index."""
        return sorted(set(range(len(self.reference))).difference(*self._ranges))

    def share_a_size(self, indices: Iterable[int]) -> bool:
        """Return whether these frames have one size in the plain decode."""
        frames = [r for n in indices for r in self._range(n)]
        return len({tuple(self.reference.sizes[r]) for r in frames}) < 2

    def picture(self, index: int, picture: NDArray[np.uint8], *, is_small: bool = False) -> None:
        """Compare the image, uint8 [H, W, 3], that was delivered as frame `index`.

        With `is_small`, it was requested in the small size of the plain decode.
        """
        if index >= len(self):
            return  # beyond the end of the plain decode
        code = digest(picture)
        codes = self.reference.small if is_small else self.reference.own
        if any(codes[r] == code for r in self._range(index)):
            self.tally.add("right")
            return
        near = self._ranges[index].start
        other = self.reference.find(code, near, is_small=is_small)
        what = "differs from every frame" if other is None else f"is frame {other}"
        if not self._range(index):
            what = f"{what}, and the plain decode has no such frame"
        elif other is not None:
            what = f"is frame {other} of the plain decode, not {self._range(index)[0]}"
        self.tally.add("wrong", f"{index} {what}")

    def pictures(self, indices: Iterable[int], pictures: Any, *, is_small: bool) -> None:
        """Compare the images, uint8 [N, H, W, 3], that were delivered as frames `indices`."""
        for index, picture in zip(indices, pictures, strict=True):
            self.picture(index, picture, is_small=is_small)

    def refused(self, indices: Iterable[int], error: Exception | str) -> None:
        """Count refused frames of the index."""
        self.tally.explain(error)
        for index in indices:
            if index < len(self):
                self._refused(self._range(index), str(index))

    def left_out(self, indices: Iterable[int]) -> None:
        """Count frames of the index that were neither delivered nor refused."""
        for index in indices:
            if index < len(self):
                self.tally.add("wrong", f"{index} is missing without an error")

    def unindexed(self) -> None:
        """Count frames that the index lacks as refused, because they cannot be requested."""
        for r in self.lacking:
            self._refused(range(r, r + 1), f"frame {r} of the plain decode, not in the index,")

    def verdict(self, way: str) -> Verdict:
        """Return the counts so far."""
        return self.tally.verdict(HEADRACE, way)

    def _range(self, index: int) -> range:
        return self._ranges[index] if index < len(self) else range(0)

    def _refused(self, frames: Sequence[int], name: str) -> None:
        affected = self.reference.is_complained_of
        # A frame that the plain decode lost, too, is excused by any complaint.
        is_excused = any(affected[r] for r in frames) if frames else len(self.reference.complaints)
        outcome: Outcome = "refused_with" if is_excused else "refused_without"
        self.tally.add(outcome, f"{name} is refused")


def run_job(decoder: Decoder[Array], job: DecodeJob, judge: Judge) -> None:
    """Run one job and count each of its frames as delivered, refused or left out."""
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


def align(index: _Times, reference: _Times, *, is_whole: bool = True) -> list[range]:
    """Return the range of possible frames of the plain decode for each frame of an index.

    A range is empty if the plain decode lacks the frame. If the plain decode covers only the first
    frames, the index ends with it.

    Args:
        index: Times of the index, ascending.
        reference: Times of the plain decode, in output order.
        is_whole: Whether the plain decode covers the whole file.
    """
    pairs = _anchors(index, reference)
    if not is_whole:
        count = int(pairs[-1, 0]) + 1 if len(pairs) else min(len(index), len(reference))
        index = index[:count]
    if len(index) == len(reference) and len(pairs) < _MIN_MATCHED * len(index):
        pairs = np.zeros((0, 2), np.int64)
    ranges: list[range] = []
    begin = 0
    for position, anchor in [*pairs.tolist(), [len(index), len(reference)]]:
        frames, decoded = position - len(ranges), anchor - begin
        lost, lacked = max(0, frames - decoded), max(0, decoded - frames)
        ranges += [
            range(begin + max(0, n - lost), begin + min(n + lacked, decoded - 1) + 1)
            for n in range(frames)
        ]
        if position < len(index):
            ranges.append(range(anchor, anchor + 1))
        begin = anchor + 1
    return ranges


def _anchors(index: _Times, reference: _Times) -> NDArray[np.int64]:
    """Return matched indices of both, ascending, int64 [N, 2]; empty if times are unreliable."""
    none = np.zeros((0, 2), np.int64)
    if (reference == NO_PTS).any():
        return none
    once = np.intersect1d(_once(index), _once(reference))
    if 2 * len(once) < min(len(index), len(reference)):
        return none
    ours, theirs = (np.flatnonzero(np.isin(times, once)) for times in (index, reference))
    is_one_order = np.array_equal(index[ours], reference[theirs])
    return np.stack([ours, theirs], axis=1) if is_one_order else none


def _once(times: _Times) -> _Times:
    values, counts = np.unique(times, return_counts=True)
    once: _Times = values[counts == 1]
    return once

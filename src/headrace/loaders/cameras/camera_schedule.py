"""Lanes: every camera of every slot is read in order, a few frames at a time, into its batches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Generic

import numpy as np
from numpy.typing import NDArray

from headrace.decode.frame_outputs import Pixels
from headrace.decode.protocol import DecodeJob
from headrace.errors import MediaError
from headrace.loaders.cameras.augment import Framing
from headrace.loaders.cameras.camera_batch import Ragged, SlotCell
from headrace.loaders.cameras.camera_memory import PictureMemory
from headrace.loaders.cameras.camera_set import CameraSet
from headrace.loaders.cameras.camera_view import CameraViews
from headrace.runtime.synchronization import CapacityLimiter
from headrace.sampling.moment_windows import MISSING
from headrace.sampling.slots import EndlessPlan, SlotPlan
from headrace.video.random_access import RandomAccess
from headrace.video.stream_index import StreamIndex

_SEEK: Final = 2
"""Frames that might be decoded in the time of a seek, about: see `planning/chunks.py`."""


def stream_jobs(
    index: StreamIndex, wanted: Sequence[int], following: int | None
) -> Iterator[DecodeJob]:
    """Yield jobs for frames of one camera, cut where a seek costs less than what lies between.

    So a GOP of which none is wanted is not decoded, nor more than two frames behind the last one
    that is wanted of a GOP; and the codec is left to read on only where it will.

    Args:
        index: The frames there are.
        wanted: Those to deliver, ascending, none twice.
        following: The first that is wanted behind them, by a job that comes later; None: none is.
    """
    part: list[int] = []
    for frame, after in pairwise([*wanted, following]):
        assert frame is not None
        part.append(frame)
        is_cut = after is None or _is_far(index, frame, after)
        if is_cut or after == following:
            # Where no seek finds the way, whoever stands nowhere begins again at the first packet.
            goes_on = after is not None and not (is_cut and index.is_seekable)
            yield DecodeJob(tuple(part), goes_on=goes_on, following=None if is_cut else after)
            part = []


def first_behind(frames: NDArray[np.int64], frame: int) -> int | None:
    """Return the first of a camera's `frames`, int64 [moments], that is shown after `frame`."""
    behind = frames[frames > frame]
    return int(behind[0]) if len(behind) else None


def _is_far(index: StreamIndex, frame: int, after: int) -> bool:
    """Return whether to seek from a frame to one behind it costs less than to read on."""
    next_gop = index.gop_of(frame) + 1
    gop = index.gop_of(after)
    if gop != next_gop:
        return gop > next_gop
    if index.gop_trust[gop] == RandomAccess.DOUBTFUL:
        return False  # Whoever seeks there may have to go back further.
    start = int(index.gop_start[gop])
    between = start - frame - 1
    if index.can_skip:
        between -= int(np.count_nonzero(index.is_droppable[frame + 1 : start]))
    return between > _SEEK


def cell_at(
    plan: SlotPlan | EndlessPlan, sequences: NDArray[np.int64], slot: int, step: int, *, seed: int
) -> SlotCell:
    """Return what a slot shows in a step; `sequences` are int64 [n, 3]: (clip, first row, end)."""
    sequence, offset = plan.at(slot, step)
    if sequence < 0:
        return SlotCell(slot=slot, clip=-1, row=-1, is_first=False)
    clip, first, _ = sequences[sequence].tolist()
    return SlotCell(
        slot=slot,
        clip=clip,
        row=first + offset,
        is_first=offset == 0,
        epoch=plan.epoch_at(slot, step),
        seed=seed,
    )


@dataclass(kw_only=True, eq=False)
class CameraStep(Generic[Pixels]):
    """A batch that is being made: decoders write its pixels where they belong."""

    number: int
    cells: tuple[SlotCell, ...]
    pixels: Pixels | list[list[Pixels]]
    """uint8 [N, C, H, W, 3], or N lists of C pictures [H, W, 3]; of any content until they are
    decoded, black where nothing will be."""
    sizes: NDArray[np.int64]
    """int64 [N, C, 2]."""
    is_lost: NDArray[np.bool_]
    """bool [N, C]: could not be decoded."""
    errors: list[MediaError] = field(default_factory=list)
    """Why; none where nothing is lost."""

    def picture(self, place: int, camera: int) -> Pixels:
        """Return where the pixels of one camera belong, uint8 [H, W, 3]."""
        height, width = self.sizes[place, camera].tolist()
        whole: Pixels = self.pixels[place][camera]
        return whole[:height, :width]


@dataclass(frozen=True, kw_only=True, eq=False)
class LaneJob(Generic[Pixels]):
    """Some frames of one camera of one slot, one after the other."""

    lane: tuple[int, int]
    """(place of the slot in this rank's batch, camera)."""
    turn: int
    """How many jobs of the lane come before."""
    clip: int
    framing: Framing
    """What becomes of its pictures."""
    wanted: dict[int, list[CameraStep[Pixels]]]
    """Frame → the batches that show it, at the lane's place; ascending."""
    goes_on: bool
    """Whether the next job of the lane is of this sequence."""
    next_frame: int | None
    """The first that the sequence may want of this camera behind these; None: it wants none."""
    keeps_last: bool
    """Whether it begins with the frame that this one ends with."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CameraSchedule(Generic[Pixels]):
    """What one rank reads in an epoch, as jobs and batches."""

    cameras: CameraSet
    sequences: NDArray[np.int64]
    """int64 [sequences, 3]: (clip, first row, end row)."""
    plan: SlotPlan | EndlessPlan
    slots: range
    """Those of this rank."""
    views: CameraViews
    """What becomes of pictures."""
    seed: int
    """What chance in them follows from."""
    ragged: Ragged | None
    """What becomes of cameras of different sizes; None where there are none."""
    chunk: int
    """Frames of a job, at most."""
    memory: PictureMemory[Pixels]
    """Of batches, and what decodes into it."""

    def cells(self, step: int) -> tuple[SlotCell, ...]:
        """Return what each slot shows in a step."""
        return tuple(
            cell_at(self.plan, self.sequences, slot, step, seed=self.seed) for slot in self.slots
        )

    def work(
        self, first_step: int, room: CapacityLimiter
    ) -> Iterator[LaneJob[Pixels] | CameraStep[Pixels]]:
        """Yield, for every step, the jobs that it still needs, then the batch itself.

        A job is asked for when the first of its frames is due, and fills the batches behind as
        well. Every batch takes a place in `room`.
        """
        covered = [first_step] * len(self.slots)
        turns = [0] * len(self.slots)
        begun: dict[int, CameraStep[Pixels]] = {}
        for step in range(first_step, self.plan.num_steps):
            for place in range(len(self.slots)):
                if covered[place] > step:
                    continue
                until = self._covered_until(self.slots[place], step)
                for number in range(step, until):
                    if number not in begun:
                        room.acquire(1)
                        begun[number] = self._begin(number)
                covered[place] = until
                if begun[step].cells[place].clip >= 0:
                    steps = [begun[k] for k in range(step, until)]
                    yield from self._jobs(place, steps, turns[place])
                    turns[place] += 1
            yield begun.pop(step)

    def _covered_until(self, slot: int, step: int) -> int:
        """Return the step that a job which begins at `step` does not reach."""
        sequence, offset = self.plan.at(slot, step)
        if sequence < 0:
            return step + 1
        length = int(self.sequences[sequence, 2] - self.sequences[sequence, 1])
        return min(step + self.chunk, step + length - offset, self.plan.num_steps)

    def _jobs(
        self, place: int, steps: Sequence[CameraStep[Pixels]], turn: int
    ) -> Iterator[LaneJob[Pixels]]:
        """Yield a job for each camera of a slot, for consecutive steps of one sequence."""
        cells = [each.cells[place] for each in steps]
        clip = self.cameras.clips[cells[0].clip]
        following = steps[-1].number + 1
        reads_on = following < self.plan.num_steps
        goes_on = reads_on and not self._is_border(self.slots[place], following)
        behind = clip.frames[cells[-1].row + 1 :] if goes_on else clip.frames[:0]
        for camera in range(len(self.cameras.cameras)):
            wanted: dict[int, list[CameraStep[Pixels]]] = {}
            for cell, step in zip(cells, steps, strict=True):
                frame = int(clip.frames[cell.row, camera])
                if frame != MISSING:
                    wanted.setdefault(frame, []).append(step)
            yield LaneJob(
                lane=(place, camera),
                turn=turn,
                clip=cells[0].clip,
                framing=self.views.framing(cells[0], camera),
                wanted=wanted,
                goes_on=goes_on,
                next_frame=first_behind(behind[:, camera], max(wanted, default=MISSING)),
                keeps_last=goes_on and int(behind[0, camera]) in wanted,
            )

    def _is_border(self, slot: int, step: int) -> bool:
        """Return whether another sequence begins, or none goes on, in a step."""
        return self.plan.at(slot, step)[1] <= 0

    def _begin(self, step: int) -> CameraStep[Pixels]:
        cells = self.cells(step)
        sizes = np.array([self._sizes(cell) for cell in cells], np.int64)
        count = len(self.cameras.cameras)
        pixels: Pixels | list[list[Pixels]]
        if self.ragged == "list":
            black = self.memory.black
            pixels = [[black((height, width)) for height, width in row] for row in sizes.tolist()]
        else:
            height, width = self.views.widest
            pixels = self.memory.batch((len(cells), count, height, width, 3))
            is_uncovered = self._is_uncovered(cells, (sizes != (height, width)).any(-1))
            for place, camera in np.argwhere(is_uncovered).tolist():
                pixels[place, camera] = 0
        return CameraStep(
            number=step,
            cells=cells,
            pixels=pixels,
            sizes=sizes,
            is_lost=np.zeros((len(cells), count), bool),
        )

    def _is_uncovered(
        self, cells: tuple[SlotCell, ...], is_padded: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Return bool [N, C]: pictures of which decoders do not write every pixel."""
        uncovered = is_padded.copy()
        for place, cell in enumerate(cells):
            if cell.clip >= 0:
                uncovered[place] |= self.cameras.clips[cell.clip].frames[cell.row] == MISSING
        return uncovered

    def _sizes(self, cell: SlotCell) -> list[tuple[int, int]]:
        count = len(self.cameras.cameras)
        if cell.clip < 0:
            return [(0, 0)] * count
        return [self.views.size(cell.clip, camera) for camera in range(count)]

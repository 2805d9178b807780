"""Camera streams for a stock DataLoader: each worker keeps its slots, and decodes them once."""

import os
import warnings
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils import data

from headrace.decode.decoding import Decoding
from headrace.decode.index_store import IndexStore
from headrace.decode.pool import DecoderPool
from headrace.decode.protocol import DecodeJob
from headrace.decode.reading import read
from headrace.errors import ConfigError
from headrace.runtime.limits import files_to_keep_open
from headrace.sampling.alignment import MISSING
from headrace.sampling.slots import SlotSchedule, Tail
from headrace.sizes import check_integers
from headrace.training.cameras.batch import CameraBatch, Cell
from headrace.training.cameras.camera_set import Alignment, CameraSet
from headrace.training.cameras.lanes import cell_at
from headrace.training.cameras.options import layout_for
from headrace.training.collate import Collate
from headrace.training.decoding_dataset import DecodingDataset
from headrace.training.devices import check_gpu
from headrace.training.ranks import agreement, shard_of
from headrace.training.transforms import Transform, check_transforms, transformed_one
from headrace.video.camera_layout import CameraLayout
from headrace.video.fitting import Fit
from headrace.video.shape import FrameShape, Interpolation
from headrace.video.stream_index import StreamIndex


class CameraStreamDataset(DecodingDataset[dict[str, Any]]):
    """Moments of synchronized cameras; batches come from a `CameraStreamSampler`.

        cameras = CameraStreamDataset("index_frame.json", num_of_set=4, size=(256, 704))
        sampler = CameraStreamSampler(cameras, group_num=4, num_workers=2)
        for batch in DataLoader(cameras, batch_sampler=sampler, num_workers=2): ...

    An item is a dict of the tensors of one slot, as `CameraBatch` names them, which the DataLoader
    stacks: frames uint8 [C, 3, H, W], sizes, valid, first_frame, slot, clip, index, pts_seconds,
    error_ms. Decoders are opened by the process that uses them, under fork and spawn.

    Args:
        layout: The clips; or the path of an index file `{video_dir: {clip: frame_count}}`.
        num_of_set: Clips whose decoders a process keeps open: those that its batches go round.
            With fewer, a decoder starts again at a keyframe for each frame, with a warning.
        num_of_file: Files that a process keeps open; None: `num_of_set` times the cameras, as far
            as half the system's limit goes.
        cameras: Names of the cameras to read, in this order, of an index file; None: all, by name.
        size: (height, width) of the frames; None keeps that of the cameras, which must be one.
        alignment: Which frames belong together; None means those of the same index.
        transform: Called with the frames of each item, or `WithSample`.
        skip_bad: Leave out clips with a camera that cannot be opened. Ranks of torch.distributed
            then compare what they opened, when they make their samplers.
        gpu: Number of the NVIDIA GPU that decodes; None: the CPU does. Frames come down to the
            CPU, the same bit by bit. Workers of the DataLoader must be spawned then.
        store: Where indexes are kept; None means the user's cache folder.

    Raises:
        BackendError: there is no such GPU, or it does not decode such video.
        ConfigError: an argument is out of range, or sizes differ and none is given.
        OpenError, ScanError, DecodeError: a camera cannot be read or aligned.
    """

    def __init__(
        self,
        layout: CameraLayout | str | os.PathLike[str],
        *,
        num_of_set: int = 4,
        num_of_file: int | None = None,
        cameras: Iterable[str] | None = None,
        size: tuple[int, int] | None = None,
        fit: Fit = "stretch",
        interpolation: Interpolation = "area",
        alignment: Alignment | None = None,
        transform: Transform | None = None,
        skip_bad: bool = False,
        gpu: int | None = None,
        store: IndexStore | None = None,
    ) -> None:
        """Open the index of every camera; decodes nothing yet."""
        check_gpu(gpu)
        check_transforms(transform)
        check_integers(1, num_of_set=num_of_set, num_of_file=num_of_file)
        layout = layout_for(layout, cameras)
        self.cameras = CameraSet.open(layout, alignment, skip_bad=skip_bad, store=store)
        self._size = self.cameras.common_size() if size is None else size
        files = num_of_set * len(self.cameras.cameras)
        most = files_to_keep_open(files, num_of_file)
        decoding = Decoding.on_gpu(gpu)
        shape = FrameShape(size=size, fit=fit, interpolation=interpolation)
        pool = DecoderPool(shape, most, keeps_codecs=True, decoding=decoding)
        super().__init__(pool)
        self._collate = Collate()
        self._transform = transform
        self._kept: dict[tuple[int, int], tuple[int, int, NDArray[np.uint8]]] = {}
        self._num_of_set = num_of_set
        self._keeps_sets = most == files
        self._at: dict[int, Cell] = {}
        self._gaps = 0
        self._is_warned = False
        self.skips_bad = skip_bad
        """Whether clips with a camera that cannot be opened are left out."""

    def __len__(self) -> int:
        """How many moments there are, over all clips."""
        return sum(map(len, self.cameras.clips))

    def __getitem__(self, cell: Cell) -> dict[str, Any]:
        """Return one slot of a batch.

        Raises:
            ConfigError: it is asked for by a number.
            DecodeError: a frame is damaged. Names file and pts.
        """
        if not isinstance(cell, Cell):
            raise ConfigError(
                f"moments of cameras are asked for by a sampler, not by number, got {cell!r}: "
                "DataLoader(cameras, batch_sampler=CameraStreamSampler(cameras, ...))"
            )
        self._watch(cell)
        pixels = np.zeros((1, len(self.cameras.cameras), *self._size, 3), np.uint8)
        if cell.clip >= 0:
            clip = self.cameras.clips[cell.clip]
            for camera, frame in enumerate(clip.frames[cell.row].tolist()):
                if frame != MISSING:
                    self._show(cell, camera, frame, pixels[0, camera])
        sizes = np.broadcast_to(self._size if cell.clip >= 0 else (0, 0), (*pixels.shape[:2], 2))
        is_lost = np.zeros(pixels.shape[:2], bool)
        pictures = self._collate.pictures(pixels)
        batch = CameraBatch.of(self.cameras, [cell], pictures, sizes.copy(), is_lost)
        item = batch.sample(0)
        if self._transform is not None:
            item["frames"] = transformed_one(self._transform, item["frames"], item)
        return item

    def _watch(self, cell: Cell) -> None:
        """Warn, once, where slots come to this process so that frames are decoded again."""
        last = self._at.get(cell.slot)
        self._at[cell.slot] = cell
        if self._is_warned or cell.clip < 0:
            return
        goes_on = last is not None and (cell.clip, cell.row) == (last.clip, last.row + 1)
        if last is not None and not cell.is_first:
            self._gaps += not goes_on
        if self._gaps > len(self._at):  # each slot may have one, where training goes on
            self._warn(
                f"slot {cell.slot} came to this process with gaps, so the frames between are "
                "decoded for nothing; give CameraStreamSampler the num_workers of the DataLoader"
            )
        elif goes_on and self._keeps_sets and self._was_closed(cell):
            self._warn(
                f"this process reads more slots than the {self._num_of_set} whose decoders it "
                "keeps, so that they start again at a keyframe; raise num_of_set"
            )

    def _was_closed(self, cell: Cell) -> bool:
        """Return whether decoders of a slot that goes on were closed for those of other slots."""
        clip = self.cameras.clips[cell.clip]
        were_open = [
            camera
            for camera, frame in enumerate(clip.frames[cell.row - 1].tolist())
            if frame != MISSING and frame + 1 < len(clip.indexes[camera])
        ]
        return bool(were_open) and not any(
            self._pool.holds((cell.slot, camera)) for camera in were_open
        )

    def _warn(self, message: str) -> None:
        self._is_warned = True
        warnings.warn(message, stacklevel=4)

    def _show(self, cell: Cell, camera: int, frame: int, out: NDArray[np.uint8]) -> None:
        """Write a frame to `out`; one that the slot shows again is decoded once."""
        clip, reader = self.cameras.clips[cell.clip], (cell.slot, camera)
        clip_of_kept, kept, pixels = self._kept.pop(reader, (-1, -1, out))
        if (clip_of_kept, kept) == (cell.clip, frame):
            out[...] = pixels
        else:
            self._decode(clip.indexes[camera], reader, frame, out)
        if cell.row + 1 < len(clip) and clip.frames[cell.row + 1, camera] == frame:
            self._kept[reader] = cell.clip, frame, out.copy()

    def _decode(
        self, index: StreamIndex, reader: tuple[int, int], frame: int, out: NDArray[np.uint8]
    ) -> None:
        goes_on = frame + 1 < len(index)
        decoder = self._pool.decoder(index, reader)
        read(decoder, DecodeJob((frame,), goes_on=goes_on), [out]).check()
        if not goes_on:
            self._pool.drop(index, reader)


class CameraStreamSampler(data.Sampler[list[Cell]]):
    """Batches of `group_num` clips at one moment each, so that workers decode each frame once.

    A DataLoader hands batches to its workers in turn. So that a clip stays with one worker, each
    worker of each rank has `group_num` slots of its own, and batches of workers alternate: batch k
    is of worker k mod `num_workers`. `slot` says which clips continue in a batch.

    Args:
        cameras: What is sampled.
        group_num: Clips in a batch.
        num_workers: As the DataLoader has; 0 counts as 1. With another number frames are decoded
            again, which the dataset warns of.
        tail: What happens when slots run out of clips: see `Tail`.
        seq_split: Parts that each clip is cut into, read by themselves.
        shuffle: Read clips in another random order in each epoch: see `set_epoch`.
        seed: Another one gives other orders.
        rank: This process among `num_replicas`; None asks torch.distributed, if it is initialised,
            and is the only one otherwise.
        num_replicas: Processes that share an epoch; None as for `rank`.

    Raises:
        ConfigError: an argument is out of range, there are fewer clips than the tail needs, or
            ranks opened other clips.
    """

    def __init__(
        self,
        cameras: CameraStreamDataset | CameraSet,
        *,
        group_num: int = 4,
        num_workers: int = 0,
        tail: Tail = "pad",
        seq_split: int = 1,
        shuffle: bool = False,
        seed: int = 0,
        rank: int | None = None,
        num_replicas: int | None = None,
    ) -> None:
        """Plan nothing yet."""
        found = cameras.cameras if isinstance(cameras, CameraStreamDataset) else cameras
        skips_bad = isinstance(cameras, CameraStreamDataset) and cameras.skips_bad
        with agreement(rank is None and skips_bad) as opened:
            check_integers(1, group_num=group_num)
            check_integers(0, num_workers=num_workers)
            self._sequences = found.sequences(seq_split)
            shard = shard_of(rank, num_replicas, drop_last=False)
            self._groups = max(1, num_workers)
            self._group_num = group_num
            self._first_slot = shard.rank * self._groups * group_num
            self._schedule = SlotSchedule(
                lengths=self._sequences[:, 2] - self._sequences[:, 1],
                slots=shard.ranks * self._groups * group_num,
                group=group_num,
                tail=tail,
                shuffle=shuffle,
                seed=seed,
            )
            self._epoch = 0
            self._skipped = 0
            opened.checksum = zlib.crc32(self._sequences.tobytes(), found.checksum)
            opened.left_out = found.num_lost

    def set_epoch(self, epoch: int, *, skip: int = 0) -> None:
        """Choose the epoch that the next pass yields, without its first `skip` batches.

        To resume: as many as the training loop was given before.
        """
        check_integers(0, epoch=epoch, skip=skip)
        most = self._schedule.plan(epoch).num_steps * self._groups
        if skip > most:
            raise ConfigError(f"skip must be at most {most}, the batches of an epoch; got {skip}")
        self._epoch, self._skipped = epoch, skip

    def __len__(self) -> int:
        """How many batches a pass has; the same for every rank."""
        return self._schedule.plan(self._epoch).num_steps * self._groups - self._skipped

    def __iter__(self) -> Iterator[list[Cell]]:
        """Yield the batches of one epoch, or what is left of it; the next pass is the next."""
        plan = self._schedule.plan(self._epoch)
        for number in range(self._skipped, plan.num_steps * self._groups):
            step, group = divmod(number, self._groups)
            first = self._first_slot + group * self._group_num
            yield [
                cell_at(plan, self._sequences, slot, step)
                for slot in range(first, first + self._group_num)
            ]
        self._epoch, self._skipped = self._epoch + 1, 0

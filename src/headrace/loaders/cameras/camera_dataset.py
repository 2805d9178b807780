"""CameraStreamDataset and its sampler: camera clips for a stock DataLoader, decoded once."""

import os
import warnings
import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils import data

from headrace.argument_names import answers_names
from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.index_store import IndexStore
from headrace.decode.open_decoder import DecoderPool
from headrace.decode.protocol import run_job
from headrace.decode.spilled_decoder import open_spill
from headrace.errors import BackendError, ConfigError, NoLengthError
from headrace.loaders.augment import ClipAugment
from headrace.loaders.cameras.camera_alignment import Alignment
from headrace.loaders.cameras.camera_batch import CameraBatch, SlotCell, concatenate_batches
from headrace.loaders.cameras.camera_engine import first_after, stream_jobs
from headrace.loaders.cameras.camera_options import layout_for
from headrace.loaders.cameras.camera_set import CameraSet
from headrace.loaders.cameras.camera_view import CameraView, CameraViews, check_views
from headrace.loaders.cameras.moment_table import MetadataOf, check_metadata
from headrace.loaders.collate import Collate, Transform, apply_transform, check_transforms
from headrace.loaders.datasets import DecodingDataset
from headrace.loaders.epochs import agreement, shard_of
from headrace.loaders.loader_options import check_decoding
from headrace.runtime.posix import files_to_keep_open
from headrace.sampling.moments import MISSING, Moments
from headrace.sampling.slots import NO_LENGTH, SlotSchedule, Tail
from headrace.units import check_integers
from headrace.video.camera_layout import CameraLayout
from headrace.video.frame_format import Fit, Interpolation


@answers_names
class CameraStreamDataset(DecodingDataset[dict[str, Any]]):
    """Moments of synchronized cameras; batches come from a `CameraStreamSampler`.

        cameras = CameraStreamDataset("index_frame.json", num_of_set=4, size=(256, 704))
        sampler = CameraStreamSampler(cameras, group_num=4, num_workers=2, interleaved=True)
        for batch in sampler.joined(DataLoader(cameras, batch_sampler=sampler, num_workers=2)): ...

    An item is a dict of one slot's values in a `CameraBatch`, without the dimension N: the
    DataLoader stacks tensors; `metadata`, if given, becomes a list. Each worker opens its own
    decoders, whether forked or spawned.

    Args:
        layout: The clips; or the path of an index file `{video_dir: {clip: frame_count}}`.
        num_of_set: Clips whose decoders a process keeps open; at least the number of slots of its
            batches. With fewer, a decoder seeks back to a keyframe for each frame, with a warning.
        num_of_file: Max open files per process; None: `num_of_set` times the cameras, up to half
            the system's limit.
        cameras: Names of the cameras to read from an index file, in the order of a batch; None:
            all, by name.
        size: (height, width) of the frames; None: the size of the cameras, which must be equal.
        view: In place of `size`: a `CameraView`, or a dict with one for each camera. All output
            sizes must be equal.
        augment: Random geometry of a clip's frames: a `ClipAugment`, drawn once per pass of a clip,
            from the sampler's seed.
        alignment: Assignment of frames to moments; None: frames of the same index.
        metadata: Metadata of each moment: a function of the clip's name and a `ClipMoment` that
            returns a mapping, or a `MomentTable`. Called in the worker.
        moments: Moments of each clip to deliver; None: all.
        transform: Function of the frames of each item, or `WithSample`.
        skip_bad: Skip clips with a camera that cannot be opened. Dataset and sampler then compare
            the clips of all ranks of torch.distributed, so every rank must create both.
        decoding: Backend and device; None: PyAV on the CPU. Frames of a GPU are copied to the CPU,
            and workers of the DataLoader must be spawned.
        gpu: Index of the NVIDIA GPU that decodes: `DecoderConfig.on_gpu(gpu)`, with equal bits.
        index_store: Store of the indexes; None: the user's cache folder.
        spill: Folder of decoded frames on a local disk, for all loaders; not with `augment`.

    Raises:
        BackendError: the GPU is missing or cannot decode these videos, or `decoding` keeps frames
            on the device.
        ConfigError: an argument is out of range, or sizes differ and `size` is None.
        OpenError, ScanError, DecodeError: a camera cannot be read or aligned.
    """

    _collate = Collate()
    _num_gaps = 0
    _is_warned = False

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
        view: CameraView | Mapping[str, CameraView] | None = None,
        augment: ClipAugment | None = None,
        alignment: Alignment | None = None,
        metadata: MetadataOf | None = None,
        moments: Moments | None = None,
        transform: Transform | None = None,
        skip_bad: bool = False,
        decoding: DecoderConfig | None = None,
        gpu: int | None = None,
        index_store: IndexStore | None = None,
        spill: str | os.PathLike[str] | None = None,
    ) -> None:
        """Open the index of every camera. Decodes nothing."""
        decoding = _checked_decoding(decoding, gpu)
        check_transforms(transform)
        check_metadata(metadata)
        check_integers(1, num_of_set=num_of_set, num_of_file=num_of_file)
        with agreement(skip_bad) as opened:
            check_views(view, augment, size=size, fit=fit)
            layout = layout_for(layout, cameras)
            self.cameras = CameraSet.open(
                layout, alignment, moments=moments, skip_bad=skip_bad, index_store=index_store
            )
            self._views = CameraViews.of(
                self.cameras,
                size=size,
                fit=fit,
                interpolation=interpolation,
                view=view,
                augment=augment,
            )
            self._size = self._views.common_size()
            opened.checksum, opened.skipped = self.cameras.checksum, self.cameras.num_lost
        files = num_of_set * len(self.cameras.cameras)
        max_open = files_to_keep_open(files, num_of_file)
        store = open_spill(spill, decoding, is_augmented=augment is not None)
        plain = self._views.plain
        super().__init__(
            DecoderPool(plain, max_open, keeps_codecs=True, decoding=decoding, spill=store)
        )
        self._transform, self._metadata = transform, metadata
        self._last_frames: dict[tuple[int, int], tuple[tuple[int, int, int], Any]] = {}
        """Stream → (clip, epoch, frame), and its pixels if the next moment repeats them."""
        self._num_of_set = num_of_set
        self._keeps_sets = max_open == files
        self._last_cells: dict[int, SlotCell] = {}
        self.skips_bad = skip_bad
        """Whether clips with a camera that cannot be opened are skipped."""

    def __len__(self) -> int:
        """Number of moments, over all clips."""
        return sum(map(len, self.cameras.clips))

    def __getitem__(self, cell: SlotCell) -> dict[str, Any]:
        """Return one slot of a batch.

        Raises:
            ConfigError: `cell` is not an item of a `CameraStreamSampler`.
            DecodeError: a frame is damaged; names file and pts.
        """
        if not isinstance(cell, SlotCell):
            raise ConfigError(
                f"a CameraStreamDataset takes items of its sampler, not indices, got {cell!r}; use "
                "DataLoader(cameras, batch_sampler=CameraStreamSampler(cameras, ...))"
            )
        self._check_order(cell)
        pixels = np.zeros((1, len(self.cameras.cameras), *self._size, 3), np.uint8)
        for camera, frame in enumerate(self.cameras.frame[cell.row].tolist()):
            if frame != MISSING:
                self._read_frame(cell, camera, frame, pixels[0, camera])
        item = CameraBatch.of(
            self.cameras,
            [cell],
            self._collate.to_frames(pixels),
            np.full((*pixels.shape[:2], 2), self._size if cell.clip >= 0 else 0),
            np.zeros(pixels.shape[:2], bool),
            self._views.matrices([cell]),
            self._metadata,
        ).sample(0)
        if self._transform is not None:
            item["frames"] = apply_transform(self._transform, item["frames"], item)
        return item

    def _check_order(self, cell: SlotCell) -> None:
        """Warn once if the order of slots makes this process decode frames again."""
        last = self._last_cells.get(cell.slot)
        self._last_cells[cell.slot] = cell
        if self._is_warned or cell.clip < 0:
            return
        goes_on = last is not None and (cell.clip, cell.row) == (last.clip, last.row + 1)
        if last is not None and not cell.is_first:
            self._num_gaps += not goes_on
        if self._num_gaps > len(self._last_cells):  # after a resume, each slot has one
            problem = (
                f"this process reads slot {cell.slot} with gaps, and decodes the skipped frames "
                "for nothing; give CameraStreamSampler the num_workers of the DataLoader"
            )
        elif goes_on and self._keeps_sets and self._was_closed(cell):
            problem = (
                f"this process reads more slots than the {self._num_of_set} whose decoders stay "
                "open, so decoders restart at keyframes; raise num_of_set"
            )
        else:
            return
        self._is_warned = True
        warnings.warn(problem, stacklevel=3)

    def _was_closed(self, cell: SlotCell) -> bool:
        """Return whether the pool closed all decoders that a continuing slot still needs."""
        needed = [
            (cell.slot, camera)
            for camera, frame in enumerate(self.cameras.frame[cell.row - 1].tolist())
            if frame != MISSING and self._next_frame(cell, camera, frame) is not None
        ]
        return bool(needed) and not any(map(self._pool.holds, needed))

    def _next_frame(self, cell: SlotCell, camera: int, frame: int) -> int | None:
        """Return a camera's next frame after `frame` from moment `cell` on; None: no more."""
        end = self.cameras.clip_start[cell.clip + 1]
        return first_after(self.cameras.frame[cell.row : end, camera], frame)

    def _read_frame(self, cell: SlotCell, camera: int, frame: int, out: NDArray[np.uint8]) -> None:
        """Write a frame to `out`; a frame that consecutive moments repeat is decoded once."""
        stream, key = (cell.slot, camera), (cell.clip, cell.epoch, frame)
        last_key, pixels = self._last_frames.pop(stream, (None, out))
        if last_key == key:
            out[...] = pixels
        else:
            index = self.cameras.clips[cell.clip].indexes[camera]
            geometry = self._views.slot_geometry(cell, camera)
            following = self._next_frame(cell, camera, frame)
            decoder = self._pool.decoder(index, stream, geometry.shape)
            for job in stream_jobs(index, [frame], following):
                run_job(decoder, job, [out]).check()
            if following is None:
                self._pool.drop(index, stream)
            geometry.finish(out)
        rest = self.cameras.frame[cell.row + 1 : self.cameras.clip_start[cell.clip + 1], camera]
        if frame in rest[:1]:
            self._last_frames[stream] = key, out.copy()


def _checked_decoding(decoding: DecoderConfig | None, gpu: int | None) -> DecoderConfig:
    """Return the decoder; BackendError: it is not available, or keeps frames on the device."""
    check_integers(0, gpu=gpu)
    resolved = DecoderConfig.resolve(decoding, gpu)
    if resolved.keeps_on_device:
        raise BackendError(
            f"frames of a CameraStreamDataset cannot stay on {resolved.device}: DataLoader workers "
            "pass CPU memory only; use CameraLoader, or leave out keeps_on_device"
        )
    check_decoding(resolved)
    return resolved


@answers_names
class CameraStreamSampler(data.Sampler[list[SlotCell]]):
    """Batches of `group_num` clips, ordered so that workers decode each frame once.

    A DataLoader distributes batches to its workers in turn. To keep a clip in one worker, each
    worker of each rank has its own `group_num` slots, and batch k is for worker k mod
    `num_workers`. So with several workers, position k of consecutive batches has different clips,
    and a model with state by position would mix them. Two remedies: `joined` concatenates batches
    of all workers into one with stable positions, and `SlotMemory` stores state by slot.

    Args:
        cameras: The dataset.
        group_num: Clips in a batch.
        num_workers: Number of workers of the DataLoader; 0 counts as 1. With a wrong number, frames
            are decoded again, and the dataset warns.
        interleaved: Must be True with several workers: confirms that the training loop handles
            alternating batches, with `joined` or `SlotMemory`.
        tail: Rule for the end of an epoch, when slots run out of clips: see `CameraLoader`.
        seq_split: Number of parts that each clip is cut into; each part is a sequence.
        shuffle: Whether clips are read in a new random order in each epoch: see `set_epoch`.
        seed: Seed of the order and of the dataset's `augment`.
        rank: Rank of this process among `num_replicas`; None: its rank in torch.distributed, or 0.
        num_replicas: Processes that share an epoch; None as for `rank`.

    Raises:
        ConfigError: an argument is out of range, the tail needs more clips, ranks opened different
            clips, or `interleaved` is false with several workers.
    """

    def __init__(
        self,
        cameras: CameraStreamDataset | CameraSet,
        *,
        group_num: int = 4,
        num_workers: int = 0,
        interleaved: bool = False,
        tail: Tail = "pad",
        seq_split: int = 1,
        shuffle: bool = False,
        seed: int = 0,
        rank: int | None = None,
        num_replicas: int | None = None,
    ) -> None:
        """Check the arguments; epochs are planned when they are iterated."""
        camera_set = cameras.cameras if isinstance(cameras, CameraStreamDataset) else cameras
        if not isinstance(camera_set, CameraSet):
            raise ConfigError(
                f"cameras must be a CameraStreamDataset, got {type(camera_set).__name__}; give the "
                "dataset of the DataLoader"
            )
        self._cameras = camera_set
        skips_bad = isinstance(cameras, CameraStreamDataset) and cameras.skips_bad
        with agreement(rank is None and skips_bad) as opened:
            check_integers(1, group_num=group_num)
            check_integers(0, num_workers=num_workers)
            if num_workers > 1 and not interleaved:
                raise ConfigError(
                    f"batches of {num_workers} workers alternate: position k of consecutive "
                    "batches has different clips, and a model with state by position would mix "
                    "them; iterate sampler.joined(DataLoader(...)), where positions are stable, or "
                    "store state by slot with headrace.SlotMemory, and set interleaved=True; or "
                    "use CameraLoader"
                )
            self._sequences = camera_set.sequences(seq_split)
            shard = shard_of(rank, num_replicas, drop_last=False)
            self._num_workers = max(1, num_workers)
            self._group_num = group_num
            slots_of_rank = self._num_workers * group_num
            self._slots = range(shard.rank * slots_of_rank, (shard.rank + 1) * slots_of_rank)
            self._schedule = SlotSchedule(
                lengths=np.diff(self._sequences[:, 1:])[:, 0],
                slots=shard.ranks * slots_of_rank,
                group=group_num,
                tail=tail,
                shuffle=shuffle,
                seed=seed,
            )
            self._epoch = 0
            self._skipped = 0
            opened.checksum = zlib.crc32(self._sequences.tobytes(), camera_set.checksum)
            opened.skipped = camera_set.num_lost

    def set_epoch(self, epoch: int, *, skip: int = 0) -> None:
        """Set the epoch of the next iteration, without its first `skip` batches.

        To resume, skip the batches that the training loop has consumed.

        Raises:
            ConfigError: an argument is out of range.
        """
        check_integers(0, epoch=epoch, skip=skip)
        num_batches = self._schedule.plan(epoch).num_steps * self._num_workers
        if skip > num_batches:
            raise ConfigError(
                f"skip must be at most {num_batches}, the batches of an epoch, got {skip}"
            )
        self._epoch, self._skipped = epoch, skip

    def __len__(self) -> int:
        """Number of batches of the next iteration; the same for every rank.

        Raises:
            NoLengthError: `tail` is `endless`.
        """
        if self._schedule.tail == "endless":
            raise NoLengthError(f"a CameraStreamSampler {NO_LENGTH}")
        return self._schedule.plan(self._epoch).num_steps * self._num_workers - self._skipped

    def __iter__(self) -> Iterator[list[SlotCell]]:
        """Yield the batches of the current epoch, or its rest; the next iteration is the next."""
        plan, seed = self._schedule.plan(self._epoch), self._schedule.seed
        for number in range(self._skipped, plan.num_steps * self._num_workers):
            step, worker = divmod(number, self._num_workers)
            yield [
                SlotCell.at(self._cameras, plan, self._sequences, slot, step, seed)
                for slot in self._slots[worker * self._group_num :][: self._group_num]
            ]
        self._epoch, self._skipped = self._epoch + 1, 0

    def joined(self, batches: Iterable[Mapping[str, Any]]) -> Iterator[CameraBatch]:
        """Yield one batch per step, with the slots of all workers at stable positions.

        Each has `group_num` times `num_workers` clips; position k is the same slot in all of them.
        Copies the frames if there are several workers.

        Args:
            batches: The DataLoader with this sampler, from its first batch on.

        Raises:
            ConfigError: the batches do not start or end with a complete step of all workers.
        """
        remaining, slots = iter(batches), [*self._slots]
        while parts := [*islice(remaining, self._num_workers)]:
            if len(parts) < self._num_workers:
                raise self._step_error(f"got only {len(parts)} for the last step")
            step = concatenate_batches(parts)
            if step["slot"].tolist() != slots:
                raise self._step_error(f"got slots {step['slot'].tolist()} instead of {slots}")
            parts.clear()
            yield step

    def _step_error(self, problem: str) -> ConfigError:
        return ConfigError(
            f"a step of all workers needs {self._num_workers} batches, {problem}; pass all batches "
            "of the DataLoader to joined(), its num_workers to the sampler, and skip whole steps"
        )

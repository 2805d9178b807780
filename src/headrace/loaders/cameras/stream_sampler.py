"""CameraStreamSampler: batches of slots; each worker of a DataLoader has its own slots."""

import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
from torch.utils import data

from headrace.argument_names import answers_names
from headrace.errors import ConfigError, NoLengthError
from headrace.loaders.cameras.camera_batch import CameraBatch, SlotCell, concatenate_batches
from headrace.loaders.cameras.camera_dataset import CameraStreamDataset
from headrace.loaders.cameras.camera_set import CameraSet
from headrace.loaders.epochs import agreement, shard_of
from headrace.sampling.slots import NO_LENGTH, SlotSchedule, Tail
from headrace.units import check_integers


@answers_names
class CameraStreamSampler(data.Sampler[list[SlotCell]]):
    """Batches of `group_num` clips, ordered so that workers decode each frame once.

    A DataLoader distributes batches to its workers in turn. To keep a clip in one worker, each
    worker of each rank has its own `group_num` slots, and batch k is for worker k mod
    `num_workers`. So with several workers, position k of consecutive batches has different clips,
    and a model with state by position would mix them. There are two remedies: `joined` concatenates
    the batches of all workers into one with stable positions, and `SlotMemory` stores state by
    slot.

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
        rank: Rank of this process among `num_replicas`; None: its rank in torch.distributed if that
            is initialized, otherwise 0.
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

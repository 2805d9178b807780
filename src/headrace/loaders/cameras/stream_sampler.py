"""CameraStreamSampler: batches of slots, so that each worker keeps its own."""

import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch.utils import data

from headrace.argument_names import answers_names
from headrace.errors import ConfigError, NoLengthError
from headrace.loaders.cameras.camera_batch import CameraBatch, SlotCell
from headrace.loaders.cameras.camera_dataset import CameraStreamDataset
from headrace.loaders.cameras.camera_schedule import cell_at
from headrace.loaders.cameras.camera_set import CameraSet
from headrace.loaders.ranks import agreement, shard_of
from headrace.sampling.slots import NO_LENGTH, SlotSchedule, Tail
from headrace.units import check_integers


@answers_names
class CameraStreamSampler(data.Sampler[list[SlotCell]]):
    """Batches of `group_num` clips at one moment each, so that workers decode each frame once.

    A DataLoader hands batches to its workers in turn. So that a clip stays with one worker, each
    worker of each rank has `group_num` slots of its own, and batches of workers alternate: batch k
    is of worker k mod `num_workers`. So with several workers place k of a batch shows another clip
    than place k of the next, and a model that remembers by place mixes clips: `joined` brings the
    batches of all workers together, in which places stay, and `SlotMemory` remembers by slot.

    Args:
        cameras: What is sampled.
        group_num: Clips in a batch.
        num_workers: As the DataLoader has; 0 counts as 1. With another number frames are decoded
            again, which the dataset warns of.
        interleaved: Must be said with several workers: that batches take turns is expected, as they
            are joined, or memory is kept by slot.
        tail: What happens when slots run out of clips: see `Tail`.
        seq_split: Parts that each clip is cut into, read by themselves.
        shuffle: Read clips in another random order in each epoch: see `set_epoch`.
        seed: Another one gives other orders.
        rank: This process among `num_replicas`; None asks torch.distributed, if it is initialised,
            and is the only one otherwise.
        num_replicas: Processes that share an epoch; None as for `rank`.

    Raises:
        ConfigError: an argument is out of range, there are fewer clips than the tail needs, ranks
            opened other clips, or there are several workers and `interleaved` is not said.
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
        """Plan nothing yet."""
        found = cameras.cameras if isinstance(cameras, CameraStreamDataset) else cameras
        if not isinstance(found, CameraSet):
            raise ConfigError(
                f"a CameraStreamSampler samples a CameraStreamDataset, got {type(found).__name__}; "
                "give it the dataset that the DataLoader has"
            )
        skips_bad = isinstance(cameras, CameraStreamDataset) and cameras.skips_bad
        with agreement(rank is None and skips_bad) as opened:
            check_integers(1, group_num=group_num)
            check_integers(0, num_workers=num_workers)
            _check_turns(num_workers, interleaved)
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
            opened.skipped = found.num_lost

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
        """How many batches a pass has; the same for every rank.

        Raises:
            NoLengthError: `tail` is `endless`.
        """
        if self._schedule.tail == "endless":
            raise NoLengthError(f"a CameraStreamSampler {NO_LENGTH}")
        return self._schedule.plan(self._epoch).num_steps * self._groups - self._skipped

    def __iter__(self) -> Iterator[list[SlotCell]]:
        """Yield the batches of one epoch, or what is left of it; the next pass is the next."""
        plan = self._schedule.plan(self._epoch)
        for number in range(self._skipped, plan.num_steps * self._groups):
            step, group = divmod(number, self._groups)
            first = self._first_slot + group * self._group_num
            yield [
                cell_at(plan, self._sequences, slot, step, seed=self._schedule.seed)
                for slot in range(first, first + self._group_num)
            ]
        self._epoch, self._skipped = self._epoch + 1, 0

    def joined(self, batches: Iterable[Mapping[str, Any]]) -> Iterator[CameraBatch]:
        """Yield one batch of all slots for those of each worker in turn, so that places stay.

        Each has `group_num` times `num_workers` clips, place k the same slot in all of them. Costs
        a copy of the frames where there are several workers.

        Args:
            batches: What a DataLoader yields with this sampler, from its first batch on.

        Raises:
            ConfigError: they do not begin with a step of all workers, or end within one.
        """
        slots = list(range(self._first_slot, self._first_slot + self._groups * self._group_num))
        parts: list[Mapping[str, Any]] = []
        for batch in batches:
            parts.append(batch)
            if len(parts) < self._groups:
                continue
            step, parts = CameraBatch(_together(parts)), []
            if step["slot"].tolist() != slots:
                raise self._no_whole_step(f"slots {step['slot'].tolist()} came for {slots}")
            yield step
        if parts:
            raise self._no_whole_step(f"{len(parts)} came last")

    def _no_whole_step(self, found: str) -> ConfigError:
        return ConfigError(
            f"{self._groups} batches make a step of all workers, and {found}; give joined() all "
            "batches of the DataLoader, the sampler its num_workers, and skip whole steps"
        )


def _together(parts: list[Mapping[str, Any]]) -> dict[str, Any]:
    if len(parts) == 1:
        return dict(parts[0])
    return {name: _concatenated([part[name] for part in parts]) for name in parts[0]}


def _concatenated(values: list[Any]) -> Any:
    if isinstance(values[0], torch.Tensor):
        return torch.cat(values)
    return [each for value in values for each in value]


def _check_turns(num_workers: int, interleaved: bool) -> None:
    """Refuse workers that take turns unless that is said: ConfigError."""
    if num_workers > 1 and not interleaved:
        raise ConfigError(
            f"with {num_workers} workers their batches take turns, so that place k of a batch "
            "shows another clip than place k of the next, and memory kept by place would mix them; "
            "read sampler.joined(DataLoader(...)), where places stay, or keep memory by slot with "
            "headrace.SlotMemory, and say interleaved=True; or use CameraLoader"
        )

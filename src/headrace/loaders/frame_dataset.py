"""FrameDataset: single frames for a stock DataLoader; EpochSampler: the order of a sampler."""

import os
import warnings
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, TypedDict, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils import data

from headrace.argument_names import answers_names
from headrace.decode.decoder_config import ON_CPU, DecoderConfig
from headrace.decode.index_store import IndexStore
from headrace.decode.protocol import OnError
from headrace.errors import ConfigError
from headrace.loaders.collate import Transform, apply_transform, transform_samples
from headrace.loaders.datasets import ItemDataset
from headrace.loaders.epochs import STATE_VERSION, Position, check_identity, shard_of
from headrace.loaders.sampled_set import Given
from headrace.loaders.video_set import frames_checksum
from headrace.sampling.counter_rng import CounterRng, RngStream
from headrace.sampling.frame_samplers import ShuffledFrames
from headrace.sampling.population import Population
from headrace.sampling.sampler import (
    EpochOrder,
    Sampler,
    SamplerContext,
    bind_sampler,
    check_kind,
    check_order,
    check_samples,
)
from headrace.units import check_integers
from headrace.video.frame_format import Fit, FrameFormat, Interpolation, PixelType

_FEW_SINGLE_FRAMES = 64
"""Single-frame requests before the warning about their cost."""
_CHUNK_SLOTS = 1024
"""Slots whose frames are drawn together."""


class FrameItem(TypedDict):
    """A frame with its video, index and time."""

    frames: Any
    """The frame, uint8 [3, H, W] in [0, 255], RGB, upright; or the result of `transform`."""
    row: int
    """Position of the row in the manifest; for a list of videos, the same as `video`. The other
    columns of the row are entries too: `item["label"]`."""
    video: int
    """Position of the video in the given list, or in `manifest.videos`."""
    index: int
    """Index of the frame in presentation order."""
    pts_seconds: float
    """Presentation time of the frame, in seconds."""
    is_concealed: bool
    """Whether the frame is damaged and concealed by FFmpeg; only with `on_error="conceal"`."""


@answers_names
class FrameDataset(ItemDataset[FrameItem]):
    """Frames of all videos: `dataset[n]` is frame n, counted over all videos in order.

        frames = FrameDataset(videos, size=(256, 256))
        sampler = EpochSampler(frames, ShuffledFrames())
        for batch in DataLoader(frames, batch_size=128, sampler=sampler, num_workers=2): ...

    A DataLoader requests one batch at a time. Each GOP is then decoded once for all frames of the
    batch, up to the last of them; `FrameLoader` decodes it once for many batches. A dataset that
    wraps this one must forward `__getitems__`, as PyTorch's `Subset` does; otherwise a GOP is
    decoded again for each of its frames, with one warning.
    """

    def __init__(
        self,
        videos: Given,
        size: tuple[int, int] | None = (256, 256),
        transform: Transform | None = None,
        *,
        on_error: OnError = "raise",
        seed: int = 0,
        fit: Fit = "stretch",
        interpolation: Interpolation = "area",
        dtype: PixelType = "uint8",
        decoding: DecoderConfig = ON_CPU,
        index_store: IndexStore | None = None,
        max_open: int = 16,
        spill: str | os.PathLike[str] | None = None,
    ) -> None:
        """Open the index of every video. Decodes nothing.

        Args:
            videos: Paths of the videos; or a `Manifest`, whose rows are sampled like videos, and
                whose columns are entries of each item.
            size: (height, width) of the frames; None: each video's size.
            fit: Rule for a `size` with another aspect ratio: `stretch`, `cover` or `contain`.
            interpolation: `area`, or torchvision's antialiased `bilinear` or `bicubic`.
            dtype: `uint8`, or `uint16` for video of more than 8 bits.
            transform: Function of each frame, uint8 [3, H, W], or `WithSample`. Its random numbers
                from PyTorch, NumPy or `random` depend on (seed, epoch, frame) after the first
                `set_epoch`, which `EpochSampler` calls; before it, on the process's generators.
            on_error: Policy for bad media. `skip` skips a video that cannot be opened, and replaces
                a frame that cannot be decoded by another, drawn from (seed, epoch, frame), with its
                `video` and `index`. `conceal` delivers damaged frames as FFmpeg conceals them,
                marked in `is_concealed`.
            seed: Seed of transforms and replacements.
            decoding: Decoder and device. For a GPU, workers of a DataLoader must be spawned.
            index_store: Store of the indexes; None: the user's cache folder.
            max_open: Max open files per process.
            spill: Folder of decoded frames on a local disk, read and written: see `headrace.open`.

        Raises:
            ConfigError: there is no video, or an argument is out of range.
            OpenError, ScanError: a video cannot be read, and `on_error` is "raise".
        """
        super().__init__(
            videos,
            FrameFormat(size=size, fit=fit, interpolation=interpolation, dtype=dtype),
            transform,
            on_error=on_error,
            seed=seed,
            decoding=decoding,
            index_store=index_store,
            max_open=max_open,
            spill=spill,
        )
        self._single, self._decoded_for_single, self._is_warned = 0, 0, False

    @property
    def population(self) -> Population:
        """Population of frames: frame ids, their videos and GOPs."""
        return self._sampled.population

    def use(self, *, batch_size: int | None, ranks: int) -> SamplerContext:
        """Return the context for a sampler of its frames; arguments as for `SamplerContext`."""
        return self._sampled.sampler_context(seed=None, batch_size=batch_size, ranks=ranks)

    def timed_population(self) -> Population:
        """Return the population with durations, for uniform sampling in time; 8 bytes per frame."""
        return self._sampled.timed_population()

    @property
    def checksum(self) -> int:
        """Checksum of the videos and rows, in their order."""
        return self._sampled.checksum

    def __len__(self) -> int:
        """Number of frames of all videos or rows; a frame in two rows counts twice."""
        return self.population.num_frames

    def __getitem__(self, frame: int) -> FrameItem:
        """Return one frame. Raises as `__getitems__` does."""
        before = self.counters.frames_decoded
        [item] = self.__getitems__([frame])
        self._single += 1
        self._decoded_for_single += self.counters.frames_decoded - before
        is_costly = self._decoded_for_single >= 2 * self._single >= 2 * _FEW_SINGLE_FRAMES
        if is_costly and not self._is_warned:
            self._is_warned = True
            warnings.warn(
                f"{self._decoded_for_single} frames were decoded for {self._single} requests of "
                "single frames; a dataset that wraps this one must have `def __getitems__(self, "
                "ids)`, which calls this one's __getitems__, so that a batch decodes each GOP once",
                stacklevel=2,
            )
        return item

    def __getitems__(self, frames: Sequence[int]) -> list[FrameItem]:
        """Return frames by id, in the given order; ids may repeat.

        Raises:
            IndexError: an id is out of range.
            OpenError, DecodeError: a file has changed, or a frame cannot be decoded, and `on_error`
                is "raise". For a worker, a DataLoader raises RuntimeError with the same message.
        """
        wanted = np.asarray(frames) if len(frames) else np.zeros(0, np.int64)
        if wanted.dtype.kind not in "iu":
            raise ConfigError(f"frame ids must be integers, got {frames!r:.80}")
        for frame in wanted[(wanted < 0) | (wanted >= len(self))]:
            raise IndexError(f"frame {frame} is out of range: the dataset has {len(self)}")
        wanted = wanted.astype(np.int64)
        ids, frame_ids, decoded = self._decode_items(wanted, self._sampled.frames_of, len(self))
        video, index = self._videos.population.locate(frame_ids)
        entries = self._sampled.entries(ids)
        seconds = self._videos.pts_seconds(video, index)
        is_repeated = len(np.unique(frame_ids)) < len(frame_ids)
        items = []
        for k, frame in enumerate(frame_ids.tolist()):
            pixels, is_concealed = decoded[frame]
            # Items must not share memory: a transform may work in place.
            pixels = pixels.copy() if is_repeated else pixels
            item = {
                **entries[k],
                "frames": torch.from_numpy(pixels).movedim(-1, -3),
                "video": int(self._videos.number[video[k]]),
                "index": int(index[k]),
                "pts_seconds": float(seconds[k]),
                "is_concealed": is_concealed,
            }
            items.append(cast(FrameItem, item))
        return self._apply_transform(items, wanted)

    def _apply_transform(self, items: list[FrameItem], ids: NDArray[np.int64]) -> list[FrameItem]:
        if self._transform is None:
            return items
        frames = [item["frames"] for item in items]
        samples = [
            {name: value for name, value in item.items() if name != "frames"} for item in items
        ]
        epoch = self._current_epoch
        if epoch is None:
            pairs = zip(frames, samples, strict=True)
            results = [apply_transform(self._transform, *pair) for pair in pairs]
        else:
            draws = CounterRng(seed=self._seed, epoch=epoch, purpose=RngStream.TRANSFORM)
            seeds = [int(word) for word in draws.words(ids)]
            results = transform_samples(self._transform, frames, samples, seeds)
        for item, frame in zip(items, results, strict=True):
            item["frames"] = frame
        return items


@answers_names
class EpochSampler(data.Sampler[int]):
    """Frame ids of this rank, in the order of `sampling`; each pass is one epoch.

        sampler = EpochSampler(frames, ShuffledFrames(seed=0))
        for batch in DataLoader(frames, batch_size=128, sampler=sampler, num_workers=2): ...

    A pass that ends early is followed by the next epoch, because a sampler cannot know how much a
    DataLoader has prefetched. Each pass sets the epoch of the dataset. The frames of a step, over
    all ranks, are the same for any number of ranks.
    """

    def __init__(
        self,
        frames: FrameDataset | Population,
        sampling: Sampler | None = None,
        *,
        rank: int | None = None,
        num_replicas: int | None = None,
        drop_last: bool = False,
        batch_size: int | None = None,
    ) -> None:
        """Check that `sampling` suits the frames.

        Args:
            frames: Dataset or population to sample from.
            sampling: Choice and order of the frames; None: `ShuffledFrames()`.
            rank: Rank of this process among `num_replicas`; None: its rank in torch.distributed if
                that is initialized, otherwise 0.
            num_replicas: Processes that share an epoch; None as for `rank`.
            drop_last: Drop slots that do not divide evenly among ranks, instead of repeating the
                first ones.
            batch_size: Batch size of the DataLoader. Only `Bursts` needs it, to keep the frames of
                a burst out of one batch.

        Raises:
            ConfigError: `frames` has another type, `sampling` samples clips or does not suit these
                videos or batches, or the rank is out of range.
        """
        check_integers(1, batch_size=batch_size)
        if not isinstance(frames, FrameDataset | Population):
            raise ConfigError(
                f"EpochSampler needs a FrameDataset or a Population, got "
                f"{type(frames).__name__}; for a Manifest or a list of videos use FrameLoader"
            )
        self._frames = frames if isinstance(frames, FrameDataset) else None
        self._shard = shard_of(rank, num_replicas, drop_last=drop_last)
        sampling = ShuffledFrames() if sampling is None else sampling
        check_kind(
            sampling,
            "single frames",
            taker="EpochSampler",
            instead="use ClipLoader, or VideoDataset for one clip of each video",
        )
        ranks = self._shard.ranks
        if isinstance(frames, Population):
            videos = np.arange(frames.num_videos)
            context = SamplerContext(
                videos=videos, videos_given=len(videos), batch_size=batch_size, ranks=ranks
            )
            self._population, self._videos = frames, frames_checksum(frames)
        else:
            context = frames.use(batch_size=batch_size, ranks=ranks)
            self._population, self._videos = frames.population, frames.checksum
        self._sampling = bind_sampler(sampling, context)
        if isinstance(frames, FrameDataset) and self._sampling.traits.needs_durations:
            self._population = frames.timed_population()
        check_order(self._order(0), self._sampling, self._population)
        self._start = self._pass_start = Position()
        self._yielded = 0

    def __len__(self) -> int:
        """Number of frames of a rank in a whole epoch; the same for every rank."""
        return self._shard.count(len(self._order(0)))

    def __iter__(self) -> Iterator[int]:
        """Yield the frame ids of one epoch, or the rest of it after `load_state_dict`."""
        start = self._pass_start = self._start
        self._start = Position(epoch=start.epoch + 1)
        self._yielded = 0
        if self._frames is not None:
            self._frames.set_epoch(start.epoch)
        order = self._order(start.epoch)
        count = self._shard.count(len(order), start.offset)
        for first in range(0, count, _CHUNK_SLOTS):
            stop = min(first + _CHUNK_SLOTS, count)
            frames = order.at(self._shard.slots(first, stop, len(order), start.offset))
            check_samples(frames, self._sampling, self._population)
            for frame in frames.tolist():
                self._yielded += 1
                yield frame

    @property
    def epoch(self) -> int:
        """Epoch of the next pass."""
        return self._start.epoch

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next pass; a loaded position in that epoch is kept."""
        check_integers(0, epoch=epoch)
        if epoch != self._start.epoch:
            self._go_to(Position(epoch=epoch))

    def state_dict(self, taken: int | None = None) -> dict[str, int]:
        """Return the position: a few integers, valid for any number of ranks and workers.

        Args:
            taken: Samples that this rank's training loop has consumed in this pass. None: all that
                were yielded. With workers, pass the number: the DataLoader is ahead of the loop.

        Raises:
            ConfigError: `taken` is out of range.
        """
        check_integers(0, taken=taken)
        start = self._pass_start
        length = len(self._order(start.epoch))
        count = self._shard.count(length, start.offset)
        taken = self._yielded if taken is None else taken
        if not 0 <= taken <= count:
            raise ConfigError(
                f"taken must be from 0 to {count}, the samples of a pass, got {taken}"
            )
        is_done = taken == count
        return {
            "version": STATE_VERSION,
            **self._identity(),
            "epoch": start.epoch + is_done,
            "slot": 0 if is_done else start.offset + taken * self._shard.ranks,
        }

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Start the next pass at the position of `state`.

        Raises:
            ConfigError: the state belongs to another sampling, seed or set of videos.
        """
        check_identity(state, self._identity(), "videos in the same order, sampling and seed")
        self._go_to(Position.from_state(state, "slot"))

    def _go_to(self, position: Position) -> None:
        self._start = self._pass_start = position
        self._yielded = 0

    def _order(self, epoch: int) -> EpochOrder:
        return self._sampling.order(self._population, epoch)

    def _identity(self) -> dict[str, int]:
        """Return the state entries that must match; the checksum includes sampling and seed."""
        return {
            "videos": self._population.num_videos,
            "frames": self._population.num_frames,
            "checksum": zlib.crc32(self._sampling.traits.identity.encode(), self._videos),
        }

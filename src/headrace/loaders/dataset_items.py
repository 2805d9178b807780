"""Frames of one video for an item of a dataset, and what is done about bad ones."""

from typing import Any, Generic, Self, TypedDict, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.decoder_pool import DecoderPool
from headrace.decode.index_store import IndexStore
from headrace.decode.job_result import decode_stacked
from headrace.decode.protocol import DecodeCounters, DecodeJob, OnError, check_on_error
from headrace.errors import ConfigError, DecodeError, MediaError
from headrace.loaders.devices import check_comes_to_workers, check_decoding
from headrace.loaders.sampled_set import Given, SampledSet
from headrace.loaders.transforms import Transform, check_transforms
from headrace.planning.gop_ranges import split_ranges
from headrace.sampling.counter_rng import ATTEMPTS, CounterRng, RngStream
from headrace.units import check_integers
from headrace.video.frame_format import FrameFormat

_Item = TypeVar("_Item")


class DecodingDataset(Dataset[_Item]):
    """A dataset with a pool of decoders: counted, and closed with it."""

    def __init__(self, pool: DecoderPool) -> None:
        """Open nothing yet."""
        self._pool = pool

    @property
    def counters(self) -> DecodeCounters:
        """What decoding cost so far in this process; a worker of a DataLoader counts its own."""
        return self._pool.counters

    def close(self) -> None:
        """Close the files that this process has open; the dataset can be used again."""
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FrameItem(TypedDict):
    """One frame and where it is from."""

    frame: Any
    """uint8 [3, H, W] in [0, 255], RGB, upright; or what `transform` made of it."""
    row: int
    """Place of the row in the manifest that was given; of a list of videos, the same as `video`.
    The other columns of the row have their own names beside it: `item["label"]`."""
    video: int
    """Place of the video in the list that was given, or in `manifest.videos`."""
    index: int
    """Place of the frame in presentation order."""
    pts_seconds: float
    """Presentation time of the frame."""
    is_concealed: bool
    """It is damaged, and shown as FFmpeg shows it: only with `on_error="conceal"`."""


class ClipItem(TypedDict):
    """A clip of T frames and where it is from."""

    frames: Any
    """uint8 [T, 3, H, W] in [0, 255], RGB, upright, colour innermost in memory; or what `transform`
    made of it."""
    row: int
    """Place of the row in the manifest that was given; of a list of videos, the same as `video`.
    The other columns of the row have their own names beside it: `item["label"]`."""
    video: int
    """Place of the video in the list that was given, or in `manifest.videos`."""
    index: torch.Tensor
    """int64 [T]: place of each frame in presentation order."""
    pts_seconds: torch.Tensor
    """float64 [T]: presentation time of each frame."""
    is_concealed: torch.Tensor
    """bool [T]: as `FrameItem` has it."""


_NO_EPOCH = -1


class ItemDataset(DecodingDataset[_Item], Generic[_Item]):
    """Videos whose indexes are read once, here, and whose files each process opens for itself.

    Workers that are forked share the indexes, those that are spawned are sent them; none reads
    them from disk. No open file goes from one process to another. One thread per process.
    """

    def __init__(
        self,
        videos: Given,
        shape: FrameFormat,
        transform: Transform | None,
        *,
        on_error: OnError,
        seed: int,
        decoding: DecoderConfig,
        index_store: IndexStore | None,
        max_open: int,
    ) -> None:
        check_on_error(on_error)
        check_transforms(transform)
        check_integers(0, seed=seed)
        decoding = DecoderConfig.resolve(decoding)
        check_comes_to_workers(decoding)
        check_decoding(decoding)
        super().__init__(DecoderPool(shape, max_open, decoding=decoding))
        self._transform = transform
        self._on_error: OnError = on_error
        self._seed = seed
        self._sampled = SampledSet.open(
            videos, skip_bad=on_error != "raise", index_store=index_store
        )
        self._videos = self._sampled.videos
        self._videos.check_fit(shape.fit)
        # Shared memory, so that workers that live on are told of a new epoch as well.
        self._epoch = shared(torch.full((), _NO_EPOCH, dtype=torch.int64))

    @property
    def skipped_videos(self) -> tuple[MediaError, ...]:
        """Why videos that cannot be opened, and rows without a frame, are left out."""
        return self._sampled.skipped

    def set_epoch(self, epoch: int) -> None:
        """Draw by the chance of another epoch from now on, in workers too."""
        check_integers(0, epoch=epoch)
        self._epoch.fill_(epoch)

    @property
    def _epoch_said(self) -> int | None:
        epoch = int(self._epoch)
        return None if epoch == _NO_EPOCH else epoch

    def _read(
        self, video: int, wanted: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Return frames `wanted` (ascending, none twice) of a video, and which are concealed.

        They are uint8 [N, H, W, 3] and bool [N].

        Raises:
            MediaError: a frame cannot be decoded.
        """
        index = self._videos.indexes[video]
        conceals = self._on_error == "conceal"
        jobs = (
            DecodeJob(stretch.wanted, conceals=conceals)
            for stretch in split_ranges(video, index, wanted)
        )
        pixels, concealed = decode_stacked(self._pool.decoder(index), jobs)
        return pixels, np.isin(wanted, list(concealed))

    def _lost(self, video: int, wanted: NDArray[np.int64], error: MediaError) -> NDArray[np.bool_]:
        """Return which of `wanted` an error is about, bool [N]; raise it, if that is asked for."""
        if self._on_error == "raise":
            raise error
        self._pool.drop(self._videos.indexes[video], None)
        lost = np.isin(wanted, error.missing if isinstance(error, DecodeError) else ())
        return lost if lost.any() else np.ones(len(wanted), bool)

    def _substitute(self, number: int, attempt: int, count: int) -> int:
        """Return which of `count` items stands in for item `number`, which is bad."""
        if attempt == ATTEMPTS:
            raise ConfigError(
                f"item {number} and {ATTEMPTS} others drawn in its place cannot be decoded; "
                "look at the files with headrace index, and leave out those that are bad"
            )
        draws = CounterRng(
            seed=self._seed, epoch=self._epoch_said or 0, purpose=RngStream.SUBSTITUTE
        )
        return int(draws.integers(number * ATTEMPTS + attempt, count))


def shared(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor whose memory processes share that are forked or sent it."""
    return tensor.share_memory_()  # type: ignore[no-untyped-call,no-any-return]

"""Frames of one video for an item of a dataset, and what is done about bad ones."""

from typing import Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.decode.decoding import Decoding
from headrace.decode.index_store import IndexStore
from headrace.decode.pool import DecoderPool
from headrace.decode.protocol import DecodeJob, OnError, check_on_error
from headrace.decode.reading import read_whole
from headrace.errors import ConfigError, DecodeError, MediaError
from headrace.planning.stretches import stretches
from headrace.sampling.random import Draws, Purpose
from headrace.sampling.substitutes import ATTEMPTS
from headrace.sizes import check_integers
from headrace.training.decoding_dataset import DecodingDataset
from headrace.training.devices import check_comes_to_workers, check_decoding
from headrace.training.sampled_set import Given, SampledSet
from headrace.training.transforms import Transform, check_transforms
from headrace.video.shape import FrameShape

_Item = TypeVar("_Item")

_NO_EPOCH = -1


class ItemDataset(DecodingDataset[_Item], Generic[_Item]):
    """Videos whose indexes are read once, here, and whose files each process opens for itself.

    Workers that are forked share the indexes, those that are spawned are sent them; none reads
    them from disk. No open file goes from one process to another. One thread per process.
    """

    def __init__(
        self,
        videos: Given,
        shape: FrameShape,
        transform: Transform | None,
        *,
        on_error: OnError,
        seed: int,
        decoding: Decoding,
        store: IndexStore | None,
        max_open: int,
    ) -> None:
        check_on_error(on_error)
        check_transforms(transform)
        check_integers(0, seed=seed)
        decoding = Decoding.chosen(decoding)
        check_comes_to_workers(decoding)
        check_decoding(decoding)
        super().__init__(DecoderPool(shape, max_open, decoding=decoding))
        self._transform = transform
        self._on_error: OnError = on_error
        self._seed = seed
        self._sampled = SampledSet.open(videos, skip_bad=on_error != "raise", store=store)
        self._videos = self._sampled.videos
        self._videos.check_fit(shape.fit)
        # Shared memory, so that workers that live on are told of a new epoch as well.
        self._epoch = shared(torch.full((), _NO_EPOCH, dtype=torch.int64))

    @property
    def left_out(self) -> tuple[MediaError, ...]:
        """Why videos that cannot be opened, and rows without a frame, are left out."""
        return self._sampled.left_out

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
            for stretch in stretches(video, index, wanted)
        )
        pixels, concealed = read_whole(self._pool.decoder(index), jobs)
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
        draws = Draws(seed=self._seed, epoch=self._epoch_said or 0, purpose=Purpose.SUBSTITUTE)
        return int(draws.integers(number * ATTEMPTS + attempt, count))


def shared(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor whose memory processes share that are forked or sent it."""
    return tensor.share_memory_()  # type: ignore[no-untyped-call,no-any-return]

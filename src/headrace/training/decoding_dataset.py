"""DecodingDataset: a dataset whose files each process opens for itself."""

from typing import Self, TypeVar

from torch.utils.data import Dataset

from headrace.decode.pool import DecoderPool
from headrace.decode.protocol import DecodeCounters

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

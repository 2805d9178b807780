"""StockLoader: a resumable stock DataLoader of camera clips."""

from collections.abc import Iterator
from typing import Any

from torch import distributed
from torch.utils.data import DataLoader

from headrace import CameraStreamDataset, CameraStreamSampler
from headrace.errors import ConfigError


class StockLoader:
    """Stock DataLoader of camera clips, with a state."""

    def __init__(self, dataset: CameraStreamDataset, *, group_num: int, workers: int) -> None:
        self.cameras = dataset.cameras.cameras
        self._sampler = CameraStreamSampler(
            dataset,
            group_num=group_num,
            num_workers=workers,
            interleaved=True,  # memory is stored by slot
            shuffle=True,
        )
        self._batches = DataLoader(dataset, batch_sampler=self._sampler, num_workers=workers)
        self._identity = {
            "clips": dataset.cameras.checksum,
            "group_num": group_num,
            "workers": workers,
            "processes": distributed.get_world_size() if distributed.is_initialized() else 1,
        }
        self.epoch = 0
        self._taken = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the rest of the epoch."""
        self._sampler.set_epoch(self.epoch, skip=self._taken)
        remaining = len(self._sampler)
        for batch in self._batches:
            remaining, self._taken = remaining - 1, self._taken + 1
            if not remaining:
                self.epoch, self._taken = self.epoch + 1, 0
            yield batch

    def state_dict(self) -> dict[str, int]:
        """Return the position after the last batch that was yielded."""
        return {**self._identity, "epoch": self.epoch, "given": self._taken}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Resume after the batch at which `state` was taken; ConfigError for other slots."""
        for name, value in self._identity.items():
            if state.get(name) != value:
                raise ConfigError(
                    f"the checkpoint has {name} {state.get(name)}, got {value}; resume with the "
                    "same clips, loader, --group-num, --workers and number of processes"
                )
        self.epoch, self._taken = state["epoch"], state["given"]

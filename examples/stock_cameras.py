"""What examples read cameras with where a stock DataLoader is asked for: it can go on, too."""

from collections.abc import Iterator
from typing import Any

from torch import distributed
from torch.utils.data import DataLoader

from headrace import CameraStreamDataset, CameraStreamSampler
from headrace.errors import ConfigError


class StockLoader:
    """A stock DataLoader of the clips, which goes on after the batch it was left at."""

    def __init__(self, dataset: CameraStreamDataset, *, group_num: int, workers: int) -> None:
        self.cameras = dataset.cameras.cameras
        self._sampler = CameraStreamSampler(
            dataset,
            group_num=group_num,
            num_workers=workers,
            interleaved=True,  # memory is kept by slot
            shuffle=True,
        )
        self._batches = DataLoader(dataset, batch_sampler=self._sampler, num_workers=workers)
        self._made_for = {
            "clips": dataset.cameras.checksum,
            "group_num": group_num,
            "workers": workers,
            "processes": distributed.get_world_size() if distributed.is_initialized() else 1,
        }
        self.epoch = 0
        self._given = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield what is left of the epoch."""
        self._sampler.set_epoch(self.epoch, skip=self._given)
        left = len(self._sampler)
        for batch in self._batches:
            left, self._given = left - 1, self._given + 1
            if not left:
                self.epoch, self._given = self.epoch + 1, 0
            yield batch

    def state_dict(self) -> dict[str, int]:
        """Return where training stands after the last batch that was yielded."""
        return {**self._made_for, "epoch": self.epoch, "given": self._given}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on behind the batch that `state` was taken at; refuse other slots: ConfigError."""
        for name, mine in self._made_for.items():
            if state.get(name) != mine:
                raise ConfigError(
                    f"the checkpoint is of {name} {state.get(name)}, here it is {mine}; go on "
                    "with the same clips, loader, --group-num, --workers and number of processes"
                )
        self.epoch, self._given = state["epoch"], state["given"]

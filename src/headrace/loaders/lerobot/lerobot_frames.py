"""LeRobotFrames: items of a LeRobotDataset for a DataLoader, decoded batch by batch."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.argument_names import answers_names
from headrace.decode.decoder_config import ON_CPU, DecoderConfig
from headrace.decode.index_store import IndexStore
from headrace.decode.protocol import OnError
from headrace.errors import ConfigError
from headrace.loaders.datasets import NONE, ItemDataset
from headrace.loaders.lerobot.dataset_folder import DatasetFolder
from headrace.loaders.lerobot.dataset_layout import DepthUnit
from headrace.loaders.lerobot.episode_windows import EpisodeWindows, video_files
from headrace.video.frame_format import FrameFormat

_NEEDED: Final = ("root", "episodes", "delta_timestamps", "tolerance_s", "image_transforms")
"""Attributes that are read from a `LeRobotDataset`."""


@answers_names
class LeRobotFrames(ItemDataset[dict[str, Any]]):
    """Items of an existing `LeRobotDataset`: `frames[i]` equals `dataset[i]`.

        frames = LeRobotFrames(dataset)
        for batch in DataLoader(frames, batch_size=64, shuffle=True, num_workers=2): ...

    Episodes, windows, transforms and tolerance are taken from the dataset; frames equal those of
    its `pyav` backend. A DataLoader requests one batch at a time. Each GOP is then decoded once for
    all items of the batch; `LeRobotLoader` decodes it once for many batches, and can resume.
    `image_transforms` use the random state of the process.
    """

    def __init__(
        self,
        dataset: Any,
        *,
        size: tuple[int, int] | None = None,
        on_error: OnError = "raise",
        seed: int = 0,
        decoding: DecoderConfig = ON_CPU,
        index_store: IndexStore | None = None,
        max_open: int = 16,
    ) -> None:
        """Read the tables, and open the index of every video. Decodes nothing.

        Args:
            dataset: A `LeRobotDataset` of lerobot 0.4 or newer.
            size: (height, width) of all color frames; None: the size of each camera.
            on_error: Policy for bad media. `skip` replaces an item that cannot be decoded by
                another one, drawn from (seed, epoch, item).
            seed: Seed of replacements.
            decoding: Decoder and device. For a GPU, workers of a DataLoader must be spawned.
            index_store: Store of the indexes; None: the user's cache folder.
            max_open: Max open files per process.

        Raises:
            ConfigError: `dataset` is not a `LeRobotDataset`, an argument is out of range, or files
                of a camera have different sizes and `size` is None.
            BackendError: pyarrow is missing.
            OpenError, ScanError: a video cannot be read, and `on_error` is "raise".
        """
        lacking = [name for name in _NEEDED if not hasattr(dataset, name)]
        if lacking:
            raise ConfigError(
                f"dataset must be a LeRobotDataset, but {type(dataset).__name__} has no "
                f"{lacking[0]}; for a folder use LeRobotLoader"
            )
        folder = DatasetFolder.open(dataset.root, dataset.episodes)
        super().__init__(
            video_files(folder),
            FrameFormat(size=size),
            None,
            on_error=on_error,
            seed=seed,
            decoding=decoding,
            index_store=index_store,
            max_open=max_open,
            spill=None,
        )
        self._image_transforms = dataset.image_transforms
        self._as_float = not getattr(dataset, "_return_uint8", False)
        self._windows = EpisodeWindows.of(
            folder, self._videos, dataset.delta_timestamps, dataset.tolerance_s
        )
        self._unit: DepthUnit = getattr(dataset, "depth_output_unit", "mm")
        self._formats = self._windows.formats(FrameFormat(size=size), "rgb", decoding)

    def __len__(self) -> int:
        """Number of items: frames of all episodes."""
        return len(self._windows.folder)

    def __getitem__(self, item: int) -> dict[str, Any]:
        """Return an item. Raises as `__getitems__` does."""
        return self.__getitems__([item])[0]

    def __getitems__(self, items: Sequence[int]) -> list[dict[str, Any]]:
        """Return items, in the given order.

        Raises:
            IndexError: an item is out of range.
            OpenError, DecodeError: a file has changed, or a frame cannot be decoded or is off its
                timestamp, and `on_error` is "raise".
        """
        rows = np.array([*items], np.int64)
        for row in rows[(rows < -len(self)) | (rows >= len(self))]:
            raise IndexError(f"item {row} is out of range: the dataset has {len(self)}")
        rows, frames, decoded = self._decode_items(rows % len(self), self._frames_of, len(self))
        camera_frames = [
            torch.from_numpy(np.stack([[decoded[k][0] for k in ids] for ids in window.tolist()]))
            for window in self._windows.by_camera(frames)
        ]
        batch = self._windows.items(
            rows,
            [pixels.movedim(-1, -3) for pixels in camera_frames],
            unit=self._unit,
            as_float=self._as_float,
        )
        samples = [{name: values[k] for name, values in batch.items()} for k in range(len(rows))]
        if self._image_transforms is not None:
            for item in samples:
                for camera in self._windows.folder.cameras:
                    if camera.depth is None:
                        item[camera.key] = self._image_transforms(item[camera.key])
        return samples

    def _format(self, video: int) -> FrameFormat:
        return self._formats[int(self._windows.camera_of[video])]

    def _frames_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the frame ids of the items of `rows`, int64 [N, S]; `NONE` for items that are off.

        Raises DecodeError for these items if `on_error` is "raise".
        """
        if self._on_error == "raise":
            self._windows.check(rows)
        is_off = self._windows.is_off(rows)
        return np.where(is_off[:, None], NONE, self._windows.frames_of(rows))

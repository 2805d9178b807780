"""A dataset of features for PyTorch's DataLoader: windows of some that follow each other."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NotRequired, TypedDict

import numpy as np
import torch
from torch.utils.data import Dataset

from headrace.errors import ConfigError
from headrace.extraction.features.folder import FeatureFolder, ListedVideo
from headrace.extraction.features.name_list import name_list
from headrace.extraction.features.whole_video import WholeVideo, whole_video
from headrace.sizes import check_integers


class WindowItem(TypedDict):
    """Features that follow each other, and where they are from."""

    features: torch.Tensor
    """float32 or float16 [window, ...]."""
    label: NotRequired[Any]
    """Of the video; there where labels were given."""
    video: int
    """Place of the video in `names`."""
    index: torch.Tensor
    """int64 [window]: the first frame of each sample."""
    pts_seconds: torch.Tensor
    """float64 [window]: when that frame is shown."""


class FeatureWindows(Dataset[WindowItem]):
    """Windows of features, each of one video: a map-style dataset.

        windows = headrace.read_features("features").dataset(16, labels={"street": 0, "park": 1})
        for batch in DataLoader(windows, batch_size=32, shuffle=True): ...

    A window is `window` features of a video one after the other; the first begins at its first, the
    next `hop` later, as long as they fit: a video of fewer features has none. Samples that were
    lost are not there, so that a window may reach over a gap: `index` tells.

    A window reads its whole video, which is kept in memory as long as `held_bytes` allow, in each
    process. Without shuffling each video is read once.
    """

    def __init__(
        self,
        folder: FeatureFolder,
        *,
        window: int = 1,
        hop: int | None = None,
        labels: Mapping[str, Any] | None = None,
        videos: Iterable[str] | None = None,
        held_bytes: int = 1 << 30,
    ) -> None:
        """Count the windows; reads no features yet.

        Args:
            folder: Where the features are.
            window: Features of an item.
            hop: From the start of a window to that of the next; None: windows do not overlap.
            labels: Name or path of each video → its label, any value that a DataLoader can batch.
                What it says of other videos is ignored.
            videos: Names of those that are taken, as for training or for its evaluation; None: all.
            held_bytes: Of features that each process keeps in memory; one video is always kept.

        Raises:
            ConfigError: there is no such video, none has enough features, or one that has them has
                no label.
        """
        check_integers(1, window=window, hop=hop)
        check_integers(0, held_bytes=held_bytes)
        self._folder = folder
        self._window = window
        self._hop = window if hop is None else hop
        self.names = tuple(folder.videos if videos is None else dict.fromkeys(videos))
        """Videos by their places."""
        unknown = [name for name in self.names if name not in folder.videos]
        if unknown:
            raise ConfigError(
                f"{folder.folder} has no video {name_list(unknown)}; it has "
                f"{name_list(folder.videos)}"
            )
        taken = [folder.videos[name] for name in self.names]
        longest = max((video.n for video in taken), default=0)
        if longest < window:
            raise ConfigError(
                f"asked for windows of {window} features, and the longest video in "
                f"{folder.folder} has {longest}; ask for shorter ones"
            )
        counts = [max(0, (video.n - window) // self._hop + 1) for video in taken]
        self._ends = np.cumsum(counts)
        self._labels = None if labels is None else _labels(taken, labels, counts)
        self._held_bytes = held_bytes
        self._held: OrderedDict[int, WholeVideo] = OrderedDict()

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, number: int) -> WindowItem:
        """Return a window; reads its video unless that is in memory.

        Raises:
            IndexError: there is no such window.
            ConfigError: a table is damaged, or cannot be read.
        """
        if not -len(self) <= number < len(self):
            raise IndexError(f"window {number} of {len(self)}")
        number %= len(self)
        video = int(np.searchsorted(self._ends, number, "right"))
        before = int(self._ends[video - 1]) if video else 0
        start = (number - before) * self._hop
        found = self._video(video)
        window = slice(start, start + self._window)
        item = WindowItem(
            # Copies: a video that is held must not change with what is done to an item.
            features=torch.tensor(found.samples.features[window]),
            video=video,
            index=torch.tensor(found.samples.index[window]),
            pts_seconds=torch.tensor(found.seconds[window]),
        )
        if self._labels is not None:
            item["label"] = self._labels[video]
        return item

    def __getstate__(self) -> dict[str, Any]:
        """Another process reads for itself."""
        return {**vars(self), "_held": OrderedDict()}

    def _video(self, video: int) -> WholeVideo:
        if video not in self._held:
            found = whole_video(self._folder, self.names[video])
            held = sum(each.samples.features.nbytes for each in self._held.values())
            while self._held and held + found.samples.features.nbytes > self._held_bytes:
                held -= self._held.popitem(last=False)[1].samples.features.nbytes
            self._held[video] = found
        self._held.move_to_end(video)
        return self._held[video]


def _labels(
    videos: Sequence[ListedVideo], labels: Mapping[str, Any], counts: Sequence[int]
) -> list[Any]:
    """Return the label of each video; None where it has no window and no label."""
    keys = [next((key for key in (v.name, v.path) if key in labels), None) for v in videos]
    without = [
        video.name
        for video, key, count in zip(videos, keys, counts, strict=True)
        if count and key is None
    ]
    if without:
        raise ConfigError(
            f"the labels lack {name_list(without)}; give one for each name or path, or choose the "
            "videos that are taken"
        )
    return [None if key is None else labels[key] for key in keys]

"""Features of a folder for training: video by video, or as windows of equal length."""

import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from headrace.errors import ConfigError
from headrace.extraction.features.folder import (
    FeatureFolder,
    ListedVideo,
    WholeVideo,
    name_list,
    whole_video,
)
from headrace.extraction.features.table_columns import TableFacts
from headrace.extraction.journal import Lost
from headrace.units import check_integers


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


@dataclass(frozen=True, kw_only=True, eq=False)
class VideoFeatures:
    """All features of one video, in order of presentation."""

    name: str
    """What the video is called in the folder."""
    path: str
    """Where it lay."""
    features: torch.Tensor
    """float32 or float16 [n, ...], on the CPU: what the layer gave for each sample."""
    index: NDArray[np.int64]
    """int64 [n]: the first frame of each sample. Frames that were lost leave gaps."""
    pts: NDArray[np.int64]
    """int64 [n]: when that frame is shown, in ticks."""
    seconds: NDArray[np.float64]
    """float64 [n]: the same in seconds, presentation time."""
    is_concealed: NDArray[np.bool_]
    """bool [n]: a frame of the sample was damaged, and came as FFmpeg shows it."""
    lost: tuple[Lost, ...]
    """Samples that were asked for and did not come, by index."""
    errors: tuple[str, ...]
    """Why chunks failed as a whole, each reason once; they are among the gaps."""

    def __len__(self) -> int:
        return len(self.index)


def read_features(folder: str | os.PathLike[str]) -> "FeatureSet":
    """Open the features that `headrace extract features` left in a folder.

        features = headrace.read_features("features")
        features["street"].features  # tensor [n, ...] of the video called street

    Reads which chunks there are; the features of a video when it is asked for.

    Raises:
        BackendError: pyarrow is missing.
        ConfigError: there is no such folder, it holds no features or those of several extractions,
            or a table is damaged.
    """
    return FeatureSet(FeatureFolder(Path(folder)))


class FeatureSet(Mapping[str, VideoFeatures]):
    """Name of a video → its features, in the order the videos were asked for.

    Each look-up reads from disk, and nothing is kept. Holds no open file; for one thread at a time;
    may be sent to other processes.
    """

    def __init__(self, folder: FeatureFolder) -> None:
        """Take a folder that was opened: see `read_features`."""
        self._folder = folder

    @property
    def facts(self) -> TableFacts:
        """What was computed, and how: model, layer, shape of a feature."""
        return self._folder.facts

    @property
    def is_ended(self) -> bool | None:
        """Whether all that can be had is there: the last run ended well, and no table is gone. None
        where the folder does not tell."""
        return self._folder.is_ended

    def __getitem__(self, name: str) -> VideoFeatures:
        """Read the features of a video.

        Raises:
            KeyError: there is no such video.
            ConfigError: a table is damaged, or cannot be read.
        """
        if name not in self._folder.videos:
            raise KeyError(f"no video is called {name!r}; there are {name_list(self)}")
        return _as_tensors(whole_video(self._folder, name))

    def __contains__(self, name: object) -> bool:
        return name in self._folder.videos

    def __iter__(self) -> Iterator[str]:
        return iter(self._folder.videos)

    def __len__(self) -> int:
        return len(self._folder.videos)

    def dataset(
        self,
        window: int = 1,
        hop: int | None = None,
        *,
        labels: Mapping[str, Any] | None = None,
        videos: Iterable[str] | None = None,
        held_bytes: int = 1 << 30,
    ) -> FeatureWindows:
        """Return a dataset to train on: windows of features that follow each other.

        See `FeatureWindows` for the arguments, the items and what is raised.
        """
        return FeatureWindows(
            self._folder,
            window=window,
            hop=hop,
            labels=labels,
            videos=videos,
            held_bytes=held_bytes,
        )


def _as_tensors(found: WholeVideo) -> VideoFeatures:
    return VideoFeatures(
        name=found.video.name,
        path=found.video.path,
        features=torch.from_numpy(found.samples.features),
        index=found.samples.index,
        pts=found.samples.pts,
        seconds=found.seconds,
        is_concealed=found.samples.is_concealed,
        lost=found.lost,
        errors=found.errors,
    )

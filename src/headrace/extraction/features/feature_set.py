"""Features of a folder for training: whole videos, or windows of fixed length."""

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
from headrace.extraction.extraction_options import name_list
from headrace.extraction.features.feature_folder import (
    FeatureFolder,
    ListedVideo,
    WholeVideo,
    whole_video,
)
from headrace.extraction.journal import Lost
from headrace.units import check_integers


class WindowItem(TypedDict):
    """Consecutive features of a video, with their positions."""

    features: torch.Tensor
    """float32 or float16 [window, ...]."""
    label: NotRequired[Any]
    """Label of the video, if labels were given."""
    video: int
    """Position of the video in `names`."""
    index: torch.Tensor
    """int64 [window]: first frame of each sample."""
    pts_seconds: torch.Tensor
    """float64 [window]: presentation time of this frame."""


class FeatureWindows(Dataset[WindowItem]):
    """Windows of features, each of one video: a map-style dataset.

        windows = headrace.read_features("features").dataset(16, labels={"street": 0, "park": 1})
        for batch in DataLoader(windows, batch_size=32, shuffle=True): ...

    A window is `window` consecutive features of a video. The first window starts at the video's
    first feature, the next windows `hop` features later each, as long as they fit; shorter videos
    have no window. Lost samples have no feature, so a window may span a gap: see `index`.

    Reading a window reads its whole video, which stays in memory, up to `held_bytes` per process.
    Without shuffling, each video is read once.
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
        """Count the windows; read no features yet.

        Args:
            folder: Folder of the features.
            window: Features of an item.
            hop: Features from the start of a window to the start of the next; None: windows do not
                overlap.
            labels: Name or path of each video → its label, any value that a DataLoader can batch.
                Entries of other videos are ignored.
            videos: Names of the videos to use, for example the training set; None: all.
            held_bytes: Max bytes of features in memory per process; one video is always kept.

        Raises:
            ConfigError: a video is unknown, no video has enough features, or a video with enough
                features has no label.
        """
        check_integers(1, window=window, hop=hop)
        check_integers(0, held_bytes=held_bytes)
        self._folder = folder
        self._window = window
        self._hop = window if hop is None else hop
        self.names = tuple(folder.videos if videos is None else dict.fromkeys(videos))
        """Names of the videos, by position."""
        unknown = [name for name in self.names if name not in folder.videos]
        if unknown:
            raise ConfigError(
                f"{folder.folder} has no video {name_list(unknown)}; it has "
                f"{name_list(folder.videos)}"
            )
        selected = [folder.videos[name] for name in self.names]
        longest = max((video.n for video in selected), default=0)
        if longest < window:
            raise ConfigError(
                f"window is {window} features, but the longest video in {folder.folder} has "
                f"{longest}; give a shorter window"
            )
        counts = [max(0, (video.n - window) // self._hop + 1) for video in selected]
        self._ends = np.cumsum(counts)
        self._labels = None if labels is None else _labels(selected, labels, counts)
        self._held_bytes = held_bytes
        self._held: OrderedDict[int, WholeVideo] = OrderedDict()

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, number: int) -> WindowItem:
        """Return a window; reads its video unless it is in memory.

        Raises:
            IndexError: the number is out of range.
            ConfigError: a table is damaged, or cannot be read.
        """
        if not -len(self) <= number < len(self):
            raise IndexError(f"window {number} of {len(self)}")
        number %= len(self)
        video = int(np.searchsorted(self._ends, number, "right"))
        first = int(self._ends[video - 1]) if video else 0
        start = (number - first) * self._hop
        features = self._video(video)
        window = slice(start, start + self._window)
        item = WindowItem(
            # Copies, so that changes of an item do not change the video in memory.
            features=torch.tensor(features.samples.features[window]),
            video=video,
            index=torch.tensor(features.samples.index[window]),
            pts_seconds=torch.tensor(features.seconds[window]),
        )
        if self._labels is not None:
            item["label"] = self._labels[video]
        return item

    def __getstate__(self) -> dict[str, Any]:
        """Drop the videos in memory: another process reads them again."""
        return {**vars(self), "_held": OrderedDict()}

    def _video(self, video: int) -> WholeVideo:
        if video not in self._held:
            self._held[video] = whole_video(self._folder, self.names[video])
            held = sum(whole.samples.features.nbytes for whole in self._held.values())
            while len(self._held) > 1 and held > self._held_bytes:
                held -= self._held.popitem(last=False)[1].samples.features.nbytes
        self._held.move_to_end(video)
        return self._held[video]


def _labels(
    videos: Sequence[ListedVideo], labels: Mapping[str, Any], counts: Sequence[int]
) -> list[Any]:
    """Return the label of each video; None for videos without windows and label."""
    keys = [next((key for key in (v.name, v.path) if key in labels), None) for v in videos]
    without = [
        video.name
        for video, key, count in zip(videos, keys, counts, strict=True)
        if count and key is None
    ]
    if without:
        raise ConfigError(
            f"labels has no entry for {name_list(without)}; add one by name or path, or leave the "
            "video out with videos"
        )
    return [None if key is None else labels[key] for key in keys]


@dataclass(frozen=True, kw_only=True, eq=False)
class VideoFeatures:
    """All features of one video, in order of presentation."""

    name: str
    """Name of the video in the folder."""
    path: str
    """Path at the time of extraction."""
    features: torch.Tensor
    """float32 or float16 [n, ...], on the CPU: output of the layer for each sample."""
    index: NDArray[np.int64]
    """int64 [n]: first frame of each sample. Lost samples leave gaps."""
    pts: NDArray[np.int64]
    """int64 [n]: presentation time of this frame, in ticks."""
    seconds: NDArray[np.float64]
    """float64 [n]: the same in seconds."""
    is_concealed: NDArray[np.bool_]
    """bool [n]: whether a frame of the sample was damaged, with FFmpeg's error concealment."""
    lost: tuple[Lost, ...]
    """Samples without a feature, by index."""
    errors: tuple[str, ...]
    """Why the video was not opened, and reasons of failed chunks, each once; their samples are
    missing."""

    def __len__(self) -> int:
        return len(self.index)


def read_features(folder: str | os.PathLike[str]) -> "FeatureSet":
    """Open a folder written by `headrace extract features`.

        features = headrace.read_features("features")
        features["street"].features  # tensor [n, ...] of the video called street

    Reads the list of chunks; the features of a video are read on access.

    Raises:
        BackendError: pyarrow is missing.
        ConfigError: the folder does not exist, holds no features or features of several
            extractions, or a table is damaged.
    """
    return FeatureSet(FeatureFolder(Path(folder)))


class FeatureSet(Mapping[str, VideoFeatures]):
    """Mapping of video name to features, in the order of the extraction.

    Each access reads from disk; nothing is cached. Holds no open file. For one thread at a time;
    can be sent to other processes.
    """

    def __init__(self, folder: FeatureFolder) -> None:
        """Wrap an opened folder: see `read_features`."""
        self._folder = folder
        self.facts = folder.facts
        """Facts shared by all features: model, layer, shape of a feature."""
        self.is_ended = folder.is_ended
        """Whether the last run completed and all its tables exist; None: the folder has no
        record."""

    def __getitem__(self, name: str) -> VideoFeatures:
        """Read the features of a video.

        Raises:
            KeyError: the name is unknown.
            ConfigError: a table is damaged, or cannot be read.
        """
        if name not in self._folder.videos:
            raise KeyError(f"no video is called {name!r}; there are {name_list(self)}")
        video = whole_video(self._folder, name)
        return VideoFeatures(
            **vars(video.samples) | {"features": torch.from_numpy(video.samples.features)},
            name=video.video.name,
            path=video.video.path,
            seconds=video.seconds,
            lost=video.lost,
            errors=video.errors,
        )

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
        """Return a dataset for training: windows of consecutive features.

        See `FeatureWindows` for arguments, items and errors.
        """
        return FeatureWindows(
            self._folder,
            window=window,
            hop=hop,
            labels=labels,
            videos=videos,
            held_bytes=held_bytes,
        )

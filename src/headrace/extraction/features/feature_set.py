"""Features as tensors: `read_features` gives those of each video, read when they are asked for."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.extraction.features.folder import FeatureFolder
from headrace.extraction.features.name_list import name_list
from headrace.extraction.features.result import Lost
from headrace.extraction.features.table_facts import TableFacts
from headrace.extraction.features.whole_video import WholeVideo, whole_video
from headrace.extraction.features.windows import FeatureWindows


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

"""All features of one video, put together from its chunks."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from headrace.extraction.features.folder import FeatureFolder
from headrace.extraction.features.result import Lost, Samples
from headrace.extraction.features.table_row import VideoName


@dataclass(frozen=True, kw_only=True, eq=False)
class WholeVideo:
    """One video of a folder."""

    video: VideoName
    size: tuple[int, int]
    """(height, width), upright."""
    time_base: Fraction
    """Seconds of a tick."""
    samples: Samples
    """All that came, in order of presentation."""
    lost: tuple[Lost, ...]
    """Those that did not, by index; without those of chunks that failed."""
    errors: tuple[str, ...]
    """Why chunks failed as a whole, each reason once."""

    @property
    def seconds(self) -> NDArray[np.float64]:
        """float64 [n]: presentation time of each sample."""
        return self.samples.pts * self.time_base.numerator / self.time_base.denominator


def whole_video(folder: FeatureFolder, name: str) -> WholeVideo:
    """Read all features of a video into memory.

    Raises:
        ConfigError: a table is damaged, or cannot be read.
    """
    rows = list(folder.rows(name))
    empty = np.empty((0, *folder.facts.shape), folder.facts.dtype)
    features = [row.samples.features for row in rows if len(row.samples)]
    return WholeVideo(
        video=rows[0].video,
        size=rows[-1].size,
        time_base=rows[-1].time_base,
        samples=Samples(
            index=np.concatenate([row.samples.index for row in rows]),
            pts=np.concatenate([row.samples.pts for row in rows]),
            is_concealed=np.concatenate([row.samples.is_concealed for row in rows]),
            features=np.concatenate([empty, *features]),
        ),
        lost=tuple(
            sorted((lost for row in rows for lost in row.lost), key=lambda lost: lost.index)
        ),
        errors=tuple(dict.fromkeys(row.error for row in rows if row.error is not None)),
    )

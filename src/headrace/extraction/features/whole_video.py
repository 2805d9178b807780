"""All features of one video, put together from its chunks."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

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
    """(height, width), upright; (0, 0) where nothing came of it."""
    time_base: Fraction
    """Seconds of a tick; 1 where nothing came of it."""
    samples: Samples
    """All that came, in order of presentation."""
    lost: tuple[Lost, ...]
    """Those that did not, by index; without those of chunks that failed."""
    errors: tuple[str, ...]
    """Why chunks failed as a whole, each reason once."""

    @cached_property
    def seconds(self) -> NDArray[np.float64]:
        """float64 [n]: presentation time of each sample."""
        return self.samples.pts * self.time_base.numerator / self.time_base.denominator


def whole_video(folder: FeatureFolder, name: str) -> WholeVideo:
    """Read all features of a video into memory.

    Raises:
        ConfigError: a table is damaged, or cannot be read.
    """
    listed, rows = folder.videos[name], list(folder.rows(name))
    nothing = Samples(
        index=np.empty(0, np.int64),
        pts=np.empty(0, np.int64),
        is_concealed=np.empty(0, bool),
        features=np.empty((0, *folder.facts.shape), folder.facts.dtype),
    )
    parts = [nothing, *(row.samples for row in rows if len(row.samples))]
    lost = (lost for row in rows for lost in row.lost)
    errors = (row.error for row in rows if row.error is not None)
    unread = VideoName(name=name, path=listed.path, content=None)
    return WholeVideo(
        video=rows[-1].video if rows else unread,
        size=rows[-1].size if rows else (0, 0),
        time_base=rows[-1].time_base if rows else Fraction(1),
        samples=Samples(
            **{name: np.concatenate([vars(part)[name] for part in parts]) for name in vars(nothing)}
        ),
        lost=tuple(sorted(lost, key=lambda lost: lost.index)),
        errors=tuple(dict.fromkeys((*errors, *listed.failed))),
    )

"""What may be asked of a loader of samples: frames, or clips."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field

from headrace.decode.protocol import OnError
from headrace.training.manifest.manifest import Manifest
from headrace.training.planned_options import PlannedOptions
from headrace.video.source import Source


@dataclass(frozen=True, kw_only=True)
class SampleOptions(PlannedOptions):
    """What may be asked of a loader of frames or clips.

    Args:
        videos: Paths of the videos; or a `Manifest`, whose rows are sampled as if each were a
            video, and whose columns come with each batch.
    """

    videos: Iterable[Source | str | os.PathLike[str]] | Manifest = field(kw_only=False)
    on_error: OnError = "raise"

"""CameraPart: which moments of which clips an epoch of a camera experiment reads."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headrace.decode.index_store import IndexStore
from headrace.sampling.moments import Moments
from headrace.training.cameras.alignment import Alignment
from headrace.training.cameras.camera_set import CameraSet
from headrace.video.camera_layout import CameraLayout


@dataclass(frozen=True, kw_only=True)
class CameraPart:
    """All that is in a layout, or the first moments of its first clips; what every way is given."""

    layout: CameraLayout
    alignment: Alignment
    moments: Moments | None = None
    """Which are read; None means all."""

    def open(self, store: IndexStore) -> CameraSet:
        """Return its clips; 1 ms for a camera that was seen before.

        Raises:
            ConfigError: the index file disagrees with the files, or no clip is left.
            MediaError: a camera cannot be read or aligned.
        """
        return CameraSet.open(self.layout, self.alignment, moments=self.moments, store=store)

    def cut(self, found: CameraSet, moments: int, slots: int) -> "CameraPart":
        """Return about so many moments of it: equally many from the beginning of each clip.

        Args:
            found: What `open` returned.
            moments: Of all clips together.
            slots: Clips that are read at a time; where there are so many, none is without one.
        """
        lengths = np.cumsum([len(clip) for clip in found.clips])
        enough = int(np.searchsorted(lengths, moments)) + 1
        clips = found.clips[: max(slots, enough)]
        of_each = -(-moments // len(clips))
        listed: dict[str, NDArray[np.int64]] = {}
        for clip in clips:
            first = clip.moments[:of_each]
            # Clips of several folders may have one name, and a choice is by name.
            listed[clip.clip.name] = min(listed.get(clip.clip.name, first), first, key=len)
        kept = self.layout.clips[: clips[-1].number + 1]
        return replace(
            self, layout=replace(self.layout, clips=kept), moments=Moments.frames(listed)
        )

"""WindowPlan: which windows of a camera set there are."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.sampling.moments import Moments
from headrace.sampling.population import Population
from headrace.sampling.windows import RowsOf, at_deltas, history
from headrace.training.cameras.aligned import AlignedClip
from headrace.training.cameras.windows.moments import MomentRows


@dataclass(frozen=True, kw_only=True)
class WindowShape:
    """Which moments belong to a window, seen from its key moment."""

    num_moments: int
    """T."""
    stride: int
    delta_seconds: tuple[float, ...] | None
    """In place of a stride: times of the T moments, counted from the key."""
    tolerance_ms: float
    skips: bool
    """Whether windows that reach beyond their clip are left out, in place of padded."""
    keys: Moments | None
    """Which of the moments there are windows for; None: all."""

    def keys_of(self, clip: AlignedClip) -> NDArray[np.int64]:
        """Return the key moments of a clip, as places among those that are delivered.

        Raises:
            ConfigError: the clip does not have them.
        """
        if self.keys is None:
            return np.arange(len(clip))
        if self.keys.clips is not None and clip.clip.name not in self.keys.clips:
            return np.arange(0)
        numbers = self.keys.of(clip.clip.name, clip.reference_seconds, may_lack=clip.dropped > 0)
        return np.flatnonzero(np.isin(clip.moments, numbers))

    def rows_of(self, keys: NDArray[np.int64], seconds: NDArray[np.float64]) -> RowsOf:
        """Return the moments of the windows of `keys`, places in a clip with times `seconds`."""
        if self.delta_seconds is None:
            return history(keys, self.num_moments, self.stride)
        return at_deltas(keys, seconds, self.delta_seconds, self.tolerance_ms / 1000)


@dataclass(frozen=True, kw_only=True, eq=False)
class WindowPlan:
    """The windows of all clips: K of them, of T moments each."""

    table: MomentRows
    clip: NDArray[np.int64]
    """int64 [K], ascending: place of each window's clip in the camera set."""
    key_row: NDArray[np.int64]
    """int64 [K]: its key moment, as a row of the table."""
    rows: NDArray[np.int64]
    """int64 [K, T]: its moments."""
    is_pad: NDArray[np.bool_]
    """bool [K, T]: moments that stand in for others, which the clip does not have."""
    keys: Population
    """The key moments as if they were frames, and the clips that have any as if they were
    videos."""
    key_clips: NDArray[np.int64]
    """int64 [videos of `keys`]: places of those clips in the camera set."""

    @classmethod
    def of(cls, table: MomentRows, shape: WindowShape) -> "WindowPlan":
        """Return the windows of a shape.

        Raises:
            ConfigError: there is none, or keys are listed that are not there.
        """
        table.cameras.layout.check_clips("keys", shape.keys.clips if shape.keys else None)
        parts = []
        for clip, first in zip(table.cameras.clips, table.clip_start.tolist(), strict=False):
            keys = shape.keys_of(clip)
            rows, is_pad = shape.rows_of(keys, clip.moment_seconds)
            kept = ~is_pad.any(axis=1) if shape.skips else np.ones(len(keys), bool)
            parts.append((keys[kept] + first, rows[kept] + first, is_pad[kept]))
        counts = np.array([len(keys) for keys, _, _ in parts], np.int64)
        with_any = np.flatnonzero(counts)
        if not len(with_any):
            longest = int(np.diff(table.clip_start).max())
            raise ConfigError(
                f"no window of {shape.num_moments} moments fits into a clip; the longest has "
                f"{longest} moments; ask for fewer, a smaller stride, or boundary='pad'"
            )
        names = [str(table.cameras.clips[each].clip.folder) for each in with_any.tolist()]
        keys, rows, pads = (np.concatenate(each) for each in zip(*parts, strict=True))
        return cls(
            table=table,
            clip=np.repeat(np.arange(len(counts)), counts),
            key_row=keys,
            rows=rows,
            is_pad=pads,
            keys=Population.of([np.array([counts[each]]) for each in with_any], names=names),
            key_clips=with_any,
        )

    def __len__(self) -> int:
        return len(self.key_row)

    def name(self, window: int) -> str:
        """Return what the key moment of a window is called in an error."""
        clip = self.table.clip_names[self.clip[window]]
        return f"clip {clip}, moment {self.table.index[self.key_row[window]]}"

    def gop_lengths(self) -> NDArray[np.int64]:
        """Return how many frames of each GOP belong to windows, of those that have any."""
        ids = np.unique(self.table.frame_id[np.unique(self.rows)])
        return np.unique(self.table.videos.decoded_population.gop_of(ids), return_counts=True)[1]

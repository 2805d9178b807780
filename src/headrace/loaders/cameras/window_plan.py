"""WindowPlan: all windows of a camera set, their samplers, and batches of them."""

import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.cached_property import cached_property
from headrace.errors import ConfigError
from headrace.loaders.batch_sheet import BatchNames, SheetOptions, sheet_of_windows
from headrace.loaders.cameras.camera_alignment import AlignedClip
from headrace.loaders.cameras.camera_options import CameraWindowOptions, ClipLabels, ClipWeights
from headrace.loaders.cameras.camera_set import CameraSet
from headrace.loaders.cameras.moment_table import MetadataOf, MomentMetadata, call_metadata
from headrace.loaders.collate import NamedTensors
from headrace.loaders.contact_sheet import ContactSheet
from headrace.sampling.frame_samplers import Weighted, balanced
from headrace.sampling.moments import MISSING, RowsOf, at_deltas, history, repeated
from headrace.sampling.population import Population
from headrace.sampling.sampling_weights import as_numbers, check_weights


@dataclass(frozen=True, kw_only=True, eq=False)
class WindowPlan:
    """The windows of all clips: K windows of T moments, M moments, C cameras."""

    cameras: CameraSet
    frame_id: NDArray[np.int64]
    """int64 [M, C]: id of each camera's frame in `cameras.videos`. A missing frame has the id of
    another camera's frame at the moment, which is decoded anyway, if there is one."""
    clip: NDArray[np.int64]
    """int64 [K], ascending: position of each window's clip in the camera set."""
    key_row: NDArray[np.int64]
    """int64 [K]: key moment of each window, as a row of the set's moments."""
    rows: NDArray[np.int64]
    """int64 [K, T]: the moments of each window."""
    is_pad: NDArray[np.bool_]
    """bool [K, T]: whether the moment replaces one that the clip does not have."""
    keys: Population
    """Key moments as frames, and clips with key moments as videos."""
    key_clips: NDArray[np.int64]
    """int64 [videos of `keys`]: position of each in the camera set."""

    @classmethod
    def of(cls, cameras: CameraSet, options: CameraWindowOptions) -> "WindowPlan":
        """Return the windows of a set. Reads nothing.

        Raises:
            ConfigError: there is no window, or `keys` names a clip or moment that does not exist.
        """
        cameras.layout.check_clips("keys", options.keys.clips if options.keys else None)
        parts = []
        for clip, first in zip(cameras.clips, cameras.clip_start.tolist(), strict=False):
            keys = _key_moments(clip, options)
            rows, is_pad = _window_rows(clip, keys, options)
            is_kept = ~is_pad.any(axis=1) | (options.boundary == "pad")
            parts.append((keys[is_kept] + first, rows[is_kept] + first, is_pad[is_kept]))
        counts = np.array([len(keys) for keys, _, _ in parts], np.int64)
        key_clips = np.flatnonzero(counts)
        if not len(key_clips):
            raise ConfigError(
                f"no window of {parts[0][1].shape[1]} moments fits into a clip; the longest has "
                f"{max(map(len, cameras.clips))} moments; choose fewer moments, a smaller stride, "
                "or boundary='pad'"
            )
        names = [str(cameras.clips[clip].clip.folder) for clip in key_clips.tolist()]
        keys, rows, is_pad = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return cls(
            cameras=cameras,
            frame_id=_frame_ids(cameras),
            clip=np.repeat(np.arange(len(counts)), counts),
            key_row=keys,
            rows=rows,
            is_pad=is_pad,
            keys=Population.of([counts[[clip]] for clip in key_clips], names=names),
            key_clips=key_clips,
        )

    def __len__(self) -> int:
        return len(self.key_row)

    def name(self, window: int) -> str:
        """Return the name of a window's key moment in messages."""
        clip = self.cameras.clips[self.clip[window]].clip.name
        return f"clip {clip}, moment {self.cameras.index[self.key_row[window]]}"

    @property
    def num_frames(self) -> int:
        """T * C: frames of a window."""
        return int(self.rows.shape[1] * self.frame_id.shape[1])

    @cached_property
    def checksum(self) -> int:
        """Checksum of the frames of all windows."""
        shapes = repr((self.rows.shape, self.frame_id.shape)).encode()
        return zlib.crc32(
            self.frame_id.tobytes(), zlib.crc32(self.rows.tobytes(), zlib.crc32(shapes))
        )

    def frames_of(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the frames of windows: int64 [N, T * C], moment by moment."""
        return self.frame_id[self.rows[keys]].reshape(len(keys), -1)

    def gop_lengths(self) -> NDArray[np.int64]:
        """Return int64 [GOPs with a frame in a window]: frames of each GOP that are in windows."""
        ids = np.unique(self.frame_id[np.unique(self.rows)])
        return np.unique(self.cameras.videos.decoded_population.gop_of(ids), return_counts=True)[1]


def _frame_ids(cameras: CameraSet) -> NDArray[np.int64]:
    """Return `WindowPlan.frame_id`."""
    starts = cameras.videos.population.video_start[:-1].reshape(len(cameras.clips), -1)
    parts = []
    for clip, start in zip(cameras.clips, starts, strict=True):
        is_there = clip.frames != MISSING
        ids = np.where(is_there, clip.frames + start, MISSING)
        stand_in = ids[np.arange(len(ids)), is_there.argmax(axis=1)]
        stand_in = np.where(is_there.any(axis=1), stand_in, MISSING)
        parts.append(np.where(is_there, ids, np.maximum(repeated(stand_in), start[0])[:, None]))
    return np.concatenate(parts)


def _key_moments(clip: AlignedClip, options: CameraWindowOptions) -> NDArray[np.int64]:
    """Return the key moments of a clip, as positions among its delivered moments.

    Raises:
        ConfigError: the clip does not have a moment of `keys`.
    """
    keys = options.keys
    if keys is None:
        return np.arange(len(clip))
    if keys.clips is not None and clip.clip.name not in keys.clips:
        return np.arange(0)
    numbers = keys.of(clip.clip.name, clip.reference_seconds, may_lack=clip.dropped > 0)
    return np.flatnonzero(np.isin(clip.moments, numbers))


def _window_rows(
    clip: AlignedClip, keys: NDArray[np.int64], options: CameraWindowOptions
) -> RowsOf:
    """Return the moments of the windows of `keys`, as positions among the delivered moments."""
    if options.delta_seconds is None:
        return history(keys, options.window_moments, options.moment_stride)
    tolerance = options.tolerance_ms / 1000
    return at_deltas(keys, clip.moment_seconds, options.delta_seconds, tolerance)


class CameraWindowBatch(NamedTensors):
    """N windows of T moments, each seen by C cameras.

    Moments are in the order of `delta_seconds` if given, otherwise in the order of time.
    """

    frames: torch.Tensor
    """uint8 [N, T, C, 3, H, W] in [0, 255], RGB, upright, channels innermost in memory, on the
    loader's device; after `transform` and `batch_transform`, if given. Black where a frame is
    missing or lost. Owned by the caller."""
    valid: torch.Tensor
    """bool [N, T, C]: false where a frame is missing (black), cannot be decoded (black; only with
    `on_error="mask"`), or repeats another moment's frame (`Alignment.on_missing`). True for frames
    of a moment that replaces another (`is_pad`)."""
    is_pad: torch.Tensor
    """bool [N, T]: whether the moment replaces one that the clip does not have."""
    is_concealed: torch.Tensor
    """bool [N, T, C]: whether the frame is damaged and concealed by FFmpeg."""
    is_repeated: torch.Tensor
    """bool [N]: whether the window was delivered before in this epoch. The first windows are
    repeated at its end, so that all ranks have equally many."""
    clip: torch.Tensor
    """int64 [N]: position of the clip in the layout."""
    clip_name: list[str]
    """N names of clips."""
    index: torch.Tensor
    """int64 [N, T]: number of each moment: its frame of the reference."""
    frame: torch.Tensor
    """int64 [N, T, C]: number of each camera's frame, also if lost; -1 where missing."""
    pts_seconds: torch.Tensor
    """float64 [N, T, C]: presentation time of each frame on the common clock; NaN where it is
    missing or lost."""
    error_ms: torch.Tensor
    """float64 [N, T, C]: capture time of the frame minus time of the moment; NaN where it is
    missing or lost."""
    delta_seconds: torch.Tensor
    """float64 [N, T]: time of each moment minus time of the key moment; below 0: before it."""
    image_matrix: torch.Tensor
    """float64 [N, C, 3, 3]: maps a pixel (x, y, 1) of the camera's upright frame to its position in
    `frames`, before any `transform`, for all T moments. Integers are pixel centers; (0, 0, 1) is
    the upper left pixel. So `image_matrix @ intrinsics` are the intrinsics of `frames`."""
    metadata: list[list[MomentMetadata]]
    """N lists of T results of `metadata=`; a replacement moment has its own metadata. Only if
    `metadata=` is given."""

    @classmethod
    def of(
        cls,
        plan: WindowPlan,
        keys: NDArray[np.int64],
        frames: torch.Tensor,
        *,
        is_concealed: NDArray[np.bool_],
        is_lost: NDArray[np.bool_],
        is_repeated: NDArray[np.bool_],
        matrices: NDArray[np.float64],
        metadata: MetadataOf | None = None,
    ) -> Self:
        """Return the batch of the windows `keys`, int64 [N], of a plan.

        Raises:
            ConfigError: `metadata` fails.
        """
        cameras, rows, clips = plan.cameras, plan.rows[keys], plan.clip[keys].tolist()
        names = [cameras.clips[clip].clip.name for clip in clips]
        seconds = np.where(is_lost, np.nan, cameras.seconds[rows])
        moments = cameras.moment_seconds[rows]
        deltas = moments - cameras.moment_seconds[plan.key_row[keys]][:, None]
        batch = cls(
            frames=frames,
            valid=torch.from_numpy(cameras.is_own[rows] & ~is_lost),
            is_pad=torch.from_numpy(plan.is_pad[keys]),
            is_concealed=torch.from_numpy(is_concealed & (cameras.frame[rows] != MISSING)),
            is_repeated=torch.from_numpy(is_repeated),
            clip=torch.tensor([cameras.clips[clip].number for clip in clips]),
            clip_name=names,
            index=torch.from_numpy(cameras.index[rows]),
            frame=torch.from_numpy(cameras.frame[rows]),
            pts_seconds=torch.from_numpy(seconds),
            error_ms=torch.from_numpy((seconds - moments[..., None]) * 1000),
            delta_seconds=torch.from_numpy(deltas),
            image_matrix=torch.from_numpy(matrices),
        )
        if metadata is not None:
            batch["metadata"] = [
                [call_metadata(metadata, cameras, clip, row) for row in window]
                for clip, window in zip(clips, rows.tolist(), strict=True)
            ]
        return batch.with_names(BatchNames(videos=tuple(names), cameras=cameras.cameras))

    def show(
        self,
        samples: int | Sequence[int] | None = None,
        *,
        frames: int = 8,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> ContactSheet:
        """Return the frames as a grid: one row per window and camera, one column per moment.

        As `Batch.show`. Padded moments, and missing, lost, repeated and concealed frames, are
        marked.

        Args:
            samples: Number of windows from the first on, or a list of windows; None: 2.
            frames: Max moments shown per window, evenly from the first to the last; at most 16.
            mean: Mean of each channel that a normalization subtracted, for frames in [0, 1].
            std: Standard deviation of each channel that it divided by.

        Raises:
            ConfigError: a window does not exist, or the transformed `frames` are not images with 1
                or 3 channels.
        """
        options = SheetOptions(samples=samples, frames=frames, mean=mean, std=std)
        return sheet_of_windows(self, self._names, options)


def sample_by_weight(plan: WindowPlan, weights: ClipWeights, seed: int) -> Weighted:
    """Return a sampler that draws key moments in proportion to their weights.

    Raises:
        ConfigError: a clip is unknown, lacks weights or has a wrong number of them, or a weight is
            not a number >= 0.
    """
    key_weights = np.array(_value_per_key(plan, "weights", weights, _moment_weights), np.float64)
    check_weights(key_weights, plan.name)
    return Weighted(weights=key_weights, length=len(plan), seed=seed)


def sample_by_class(plan: WindowPlan, labels: ClipLabels, seed: int) -> Weighted:
    """Return a sampler that draws each class equally often.

    Raises:
        ConfigError: a clip is unknown, lacks labels or has a wrong number of them, or no moment has
            a class.
    """
    key_labels = _value_per_key(plan, "class_balance", labels, _moment_labels)
    for classes in key_labels:
        if not _are_names(classes):
            raise ConfigError(
                "class_balance must have a list of class names for each clip, or for each moment, "
                f"such as ['car', 'bus'], got {classes!r}"
            )
    weights, length = balanced(key_labels)
    return Weighted(weights=weights, length=length, seed=seed)


def _moment_weights(name: str, value: Any, moments: int) -> Sequence[float]:
    if isinstance(value, Mapping):
        raise _wrong_count(name, moments, "a dict")
    is_list = _is_list(value)
    weights: list[float] = as_numbers(name, value if is_list else [value], "moment").tolist()
    if is_list and len(weights) != moments:
        raise _wrong_count(name, moments, len(weights))
    return weights if is_list else weights * moments


def _moment_labels(name: str, value: Any, moments: int) -> Sequence[Any]:
    if _are_names(value) or isinstance(value, str):
        return [value] * moments
    if isinstance(value, Mapping):
        raise _wrong_count(name, moments, "a dict")
    if not _is_list(value) or not hasattr(value, "__getitem__") or len(value) != moments:
        raise _wrong_count(name, moments, len(value) if _is_list(value) else value)
    return [*value]


def _is_list(value: object) -> bool:
    """Return whether a value has items; a 0-d array or tensor has none."""
    is_text = isinstance(value, str | bytes)
    return hasattr(value, "__len__") and getattr(value, "ndim", 1) > 0 and not is_text


def _wrong_count(name: str, moments: int, count: object) -> ConfigError:
    return ConfigError(
        f"{name} must be one value, or a list with one for each of its {moments} moments, got "
        f"{count!s:.60}"
    )


def _are_names(value: object) -> bool:
    return (
        isinstance(value, Collection)
        and _is_list(value)
        and all(isinstance(name, str) for name in value)
    )


def _value_per_key(
    plan: WindowPlan,
    name: str,
    by_clip: Mapping[str, Any],
    expand: Callable[[str, Any, int], Sequence[Any]],
) -> list[Any]:
    """Return the value of each key moment; `expand` turns a clip's entry into one per moment."""
    if not isinstance(by_clip, Mapping):
        raise ConfigError(f"{name} must be a dict by clip name, got {type(by_clip).__name__}")
    cameras = plan.cameras
    cameras.layout.check_clips(name, by_clip)
    clips = {clip: cameras.clips[clip] for clip in plan.key_clips.tolist()}
    missing = [clip.clip.name for clip in clips.values() if clip.clip.name not in by_clip]
    if missing:
        raise ConfigError(
            f"{name} has no entry for clip {missing[0]} (and {len(missing) - 1} more); give one "
            f"per clip name; it has {', '.join(map(str, list(by_clip)[:3])) or 'none'}"
        )
    values = {
        number: expand(
            f"{name} of clip {clip.clip.name}",
            by_clip[clip.clip.name],
            len(clip.reference_seconds),
        )
        for number, clip in clips.items()
    }
    moments = cameras.index[plan.key_row].tolist()
    return [values[clip][moment] for clip, moment in zip(plan.clip.tolist(), moments, strict=True)]

"""Result of a chunk of samples: one type for worker, cache, journal and table."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from headrace.errors import CacheError, ConfigError
from headrace.extraction.journal import Lost, Outcome
from headrace.planning.chunks import Chunk
from headrace.records import from_dict, recorded, to_dict

_FACTS = "facts"


@dataclass(frozen=True, kw_only=True, eq=False)
class Samples:
    """Features, each with the first frame of its sample."""

    index: NDArray[np.int64]
    """int64 [n]: index of the first frame of each sample, in presentation order."""
    pts: NDArray[np.int64]
    """int64 [n]: presentation time of that frame, in ticks of the video."""
    is_concealed: NDArray[np.bool_]
    """bool [n]: whether a frame of the sample is damaged, with FFmpeg's error concealment."""
    features: NDArray[Any]
    """float32 or float16 [n, ...]: output of the layer for each sample."""

    def __post_init__(self) -> None:
        lengths = {name: len(array) for name, array in vars(self).items()}
        if len(set(lengths.values())) > 1:
            raise ConfigError(f"arrays of samples must have equal lengths, got {lengths}")

    @classmethod
    def empty(cls, shape: tuple[int, ...], dtype: str) -> "Samples":
        """Return no samples; features have a shape and dtype."""
        none = np.zeros(0, np.int64)
        features = np.empty((0, *shape), dtype)
        return cls(index=none, pts=none, is_concealed=none.astype(bool), features=features)

    def __len__(self) -> int:
        return len(self.index)

    @property
    def is_finite(self) -> NDArray[np.bool_]:
        """bool [n]: whether the feature has no NaN and no Inf."""
        finite: NDArray[np.bool_] = np.isfinite(self.features).all(
            axis=tuple(range(1, self.features.ndim))
        )
        return finite

    def where(self, mask: NDArray[np.bool_]) -> "Samples":
        """Return copies of the samples selected by `mask`, bool [n]."""
        return Samples(**{name: array[mask] for name, array in vars(self).items()})


@recorded
@dataclass(frozen=True, kw_only=True)
class Times:
    """Milliseconds of a chunk by part of the work. The time of a shared batch is divided by samples
    among its chunks."""

    decode_ms: float = 0.0
    queue_ms: float = 0.0
    """Waiting time of its decoded samples for the model."""
    prepare_ms: float = 0.0
    transfer_ms: float = 0.0
    model_ms: float = 0.0
    write_ms: float = 0.0


@recorded
@dataclass(frozen=True, kw_only=True)
class ResultInfo:
    """Provenance of a result; it differs between runs."""

    times: Times = field(default_factory=Times)
    is_cached: bool = False
    """Whether the result comes from the cache."""
    frames_decoded: int = 0
    """Frames decoded by the codec; divided by the frames of the samples: the amplification."""
    worker: str = ""
    started_seconds: float = 0.0
    ended_seconds: float = 0.0
    """Unix times: start of decoding, and arrival of the last feature."""


@recorded
@dataclass(frozen=True, kw_only=True)
class _Facts:
    """Facts of a result beside its samples, in the order of a cache entry."""

    size: tuple[int, int]
    time_base: tuple[int, int]
    """Numerator and denominator."""
    lost: tuple[Lost, ...]
    error: str | None


TIMED: Final = tuple(field.name for field in fields(Times))
"""Parts of the time of a chunk; each is a column."""


@dataclass(frozen=True, kw_only=True)
class VideoName:
    """Video of a row."""

    name: str = ""
    """Name in the output folder, unique there."""
    path: str = ""
    """Absolute path at the time of extraction."""
    content: str | None = None
    """`sha256:…` of the file, as `sha256sum` prints it; None for an image sequence or an unreadable
    file."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ChunkResult:
    """Result of one chunk, from the worker to the row of a table."""

    chunk_id: str
    """Name of the chunk, unique among the finished rows of a folder."""
    size: tuple[int, int]
    """(height, width) of the video, upright; (0, 0) if the chunk failed."""
    time_base: Fraction
    """Seconds per tick, exact; 1 if the chunk failed."""
    samples: Samples
    """Samples with a feature, ascending."""
    lost: tuple[Lost, ...] = ()
    """Samples without a feature."""
    error: str | None = None
    """Reason if the whole chunk failed; it then has no samples."""
    made: ResultInfo = field(default_factory=ResultInfo)
    """Provenance; rows read from a table have no start and end."""
    video: VideoName = VideoName()
    """Video; set when the result is written to a table."""

    @classmethod
    def failed(
        cls, chunk: Chunk, error: str, *, shape: tuple[int, ...], dtype: str, made: ResultInfo
    ) -> "ChunkResult":
        """Return the result of a failed chunk.

        Args:
            chunk: Chunk that failed.
            error: Reason.
            shape: Shape of one feature.
            dtype: Dtype of features.
            made: Worker and times.
        """
        return cls(
            chunk_id=chunk.name,
            size=(0, 0),
            time_base=Fraction(1),
            samples=Samples.empty(shape, dtype),
            error=error,
            made=made,
        )

    @property
    def status(self) -> Literal["done", "failed"]:
        """Whether the chunk was computed, with or without lost samples."""
        return "done" if self.error is None else "failed"

    @property
    def outcome(self) -> Outcome:
        """Counts of the result, without its features."""
        concealed = self.samples.index[self.samples.is_concealed]
        return Outcome(came=len(self.samples), lost=self.lost, concealed=tuple(concealed.tolist()))

    def without_nan(self) -> "ChunkResult":
        """Return the result with samples whose features have NaN or Inf moved to `lost`."""
        finite = self.samples.is_finite
        if finite.all():
            return self
        bad = self.samples.where(~finite)
        lost = [
            Lost(index=int(index), cause=_not_finite(feature))
            for index, feature in zip(bad.index, bad.features, strict=True)
        ]
        merged = sorted((*self.lost, *lost), key=lambda loss: loss.index)
        return replace(self, samples=self.samples.where(finite), lost=tuple(merged))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all fields except chunk, `made` and `video` as arrays, for a cache entry: see
        `of_arrays`."""
        facts = _Facts(
            size=self.size,
            time_base=self.time_base.as_integer_ratio(),
            lost=self.lost,
            error=self.error,
        )
        text = json.dumps(to_dict(facts)).encode()
        return {**vars(self.samples), _FACTS: np.frombuffer(text, np.uint8)}

    @classmethod
    def of_arrays(
        cls, chunk: Chunk, arrays: Mapping[str, NDArray[Any]], made: ResultInfo
    ) -> "ChunkResult":
        """Return the result of a chunk from the arrays of an entry.

        Raises:
            CacheError: the arrays are not a result of this chunk.
        """
        try:
            facts = from_dict(_Facts, json.loads(arrays[_FACTS].tobytes()), file="its facts")
            result = cls(
                chunk_id=chunk.name,
                size=facts.size,
                time_base=Fraction(*facts.time_base),
                samples=Samples(**{k: v for k, v in arrays.items() if k != _FACTS}),
                lost=facts.lost,
                error=facts.error,
                made=made,
            )
        except (KeyError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
            raise CacheError(f"is not a result of chunk {chunk.name}: {error}") from error
        num_samples = len(result.samples) + len(result.lost)
        if result.error is None and num_samples != chunk.frames:
            raise CacheError(
                f"is not a result of chunk {chunk.name}: it has {num_samples} samples, not "
                f"{chunk.frames}"
            )
        return result


def _not_finite(feature: NDArray[Any]) -> str:
    """Return the reason a feature with NaN or Inf is lost, and the fix."""
    value = "NaN" if np.isnan(feature).any() else "Inf"
    advice = "check the model"
    if value == "Inf" and feature.dtype == np.float16:
        advice = "float16 ends at 65504, use --dtype float32"
    return f"its feature has {value}; {advice}, or keep it with --allow-nan"

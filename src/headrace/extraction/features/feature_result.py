"""What came of a chunk of samples: one type for worker, cache, journal and table."""

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
ALLOW: Final = "--allow-nan"
"""The option that keeps such features."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Samples:
    """Features, each with the frame it begins at."""

    index: NDArray[np.int64]
    """int64 [n]: place of the first frame of each sample in presentation order."""
    pts: NDArray[np.int64]
    """int64 [n]: when that frame is shown, in ticks of the video."""
    is_concealed: NDArray[np.bool_]
    """bool [n]: a frame of it is damaged, and was taken as FFmpeg shows it."""
    features: NDArray[Any]
    """float32 or float16 [n, ...]: what the layer gives for each."""

    def __post_init__(self) -> None:
        lengths = {name: len(array) for name, array in vars(self).items()}
        if len(set(lengths.values())) > 1:
            raise ConfigError(f"samples need as many of each, got {lengths}")

    def __len__(self) -> int:
        return len(self.index)

    @property
    def is_finite(self) -> NDArray[np.bool_]:
        """bool [n]: whether the feature holds neither NaN nor Inf."""
        finite: NDArray[np.bool_] = np.isfinite(self.features).all(
            axis=tuple(range(1, self.features.ndim))
        )
        return finite

    def where(self, chosen: NDArray[np.bool_]) -> "Samples":
        """Return the samples that `chosen`, bool [n], is true of; copies them."""
        return Samples(**{name: array[chosen] for name, array in vars(self).items()})


@recorded
@dataclass(frozen=True, kw_only=True)
class Times:
    """Milliseconds that a chunk took, by what was done. Of a batch that several chunks fill, each
    has its share by samples."""

    decode_ms: float = 0.0
    queue_ms: float = 0.0
    """That its decoded samples waited for the model."""
    prepare_ms: float = 0.0
    transfer_ms: float = 0.0
    model_ms: float = 0.0
    write_ms: float = 0.0


@recorded
@dataclass(frozen=True, kw_only=True)
class ResultInfo:
    """How a result was made; of two runs it differs."""

    times: Times = field(default_factory=Times)
    is_cached: bool = False
    """Whether it was found in the cache."""
    frames_decoded: int = 0
    """By the codec; over the frames of its samples it is the decode amplification."""
    worker: str = ""
    started_seconds: float = 0.0
    ended_seconds: float = 0.0
    """Since 1970-01-01 UTC: when its decoding began, and when its last feature was there."""


@recorded
@dataclass(frozen=True, kw_only=True)
class _Facts:
    """The facts of a result beside its samples, in the order of a cache entry."""

    size: tuple[int, int]
    time_base: tuple[int, int]
    """Numerator and denominator."""
    lost: tuple[Lost, ...]
    error: str | None


TIMED: Final = tuple(each.name for each in fields(Times))
"""What a chunk spends its time on; each is a column."""


@dataclass(frozen=True, kw_only=True)
class VideoName:
    """Which video a row is of."""

    name: str = ""
    """What it is called in the folder; no two videos of a folder are called the same."""
    path: str = ""
    """Where it lay."""
    content: str | None = None
    """`sha256:…` of the file, as `sha256sum` has it; None: pictures in a folder, or it could not be
    read."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ChunkResult:
    """What came of one chunk, from the worker to the row of a table."""

    chunk_id: str
    """Name of the chunk; no two rows of a folder that are done have the same."""
    size: tuple[int, int]
    """(height, width) of the video, upright; (0, 0) where that is not known, as it failed."""
    time_base: Fraction
    """Seconds per tick, exact; 1 where it failed."""
    samples: Samples
    """Those that came, ascending."""
    lost: tuple[Lost, ...] = ()
    """Those that did not."""
    error: str | None = None
    """Why the chunk failed as a whole; then it has no samples."""
    made: ResultInfo = field(default_factory=ResultInfo)
    """Read from a table, it does not tell when the chunk was begun and ended."""
    video: VideoName = VideoName()
    """Known once it is put into a table."""

    @classmethod
    def failed(
        cls, chunk: Chunk, error: str, *, shape: tuple[int, ...], dtype: str, made: ResultInfo
    ) -> "ChunkResult":
        """Return the result of a chunk of which nothing came.

        Args:
            chunk: Which.
            error: Why.
            shape: Of one feature, had there been any.
            dtype: Of features.
            made: By whom, and when.
        """
        nothing = np.zeros(0, np.int64)
        samples = Samples(
            index=nothing,
            pts=nothing,
            is_concealed=nothing.astype(np.bool_),
            features=np.empty((0, *shape), dtype),
        )
        return cls(
            chunk_id=chunk.name,
            size=(0, 0),
            time_base=Fraction(1),
            samples=samples,
            error=error,
            made=made,
        )

    @property
    def status(self) -> Literal["done", "failed"]:
        """Whether it was done, whatever was lost."""
        return "done" if self.error is None else "failed"

    @property
    def outcome(self) -> Outcome:
        """What is counted of it, without its features."""
        concealed = self.samples.index[self.samples.is_concealed]
        return Outcome(came=len(self.samples), lost=self.lost, concealed=tuple(concealed.tolist()))

    def without_nan(self) -> "ChunkResult":
        """Return the result with each sample among the lost whose feature holds NaN or Inf."""
        finite = self.samples.is_finite
        if finite.all():
            return self
        bad = self.samples.where(~finite)
        lost = [
            Lost(index=int(index), cause=_not_finite(feature))
            for index, feature in zip(bad.index, bad.features, strict=True)
        ]
        every = sorted((*self.lost, *lost), key=lambda each: each.index)
        return replace(self, samples=self.samples.where(finite), lost=tuple(every))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all but the chunk, `made` and `video` as arrays, for an entry: see `of_arrays`."""
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
        """Return the result of a chunk that `arrays` holds.

        Raises:
            CacheError: they are not those of a result of this chunk.
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
        except (KeyError, TypeError, ValueError) as error:
            raise CacheError(f"is no result of chunk {chunk.name}: {error}") from error
        if result.error is None and len(result.samples) + len(result.lost) != chunk.frames:
            raise CacheError(
                f"is no result of chunk {chunk.name}: it tells of "
                f"{len(result.samples) + len(result.lost)} samples, not of {chunk.frames}"
            )
        return result


def _not_finite(feature: NDArray[Any]) -> str:
    """Return why a feature with NaN or Inf does not come, and what to do."""
    what = "NaN" if np.isnan(feature).any() else "Inf"
    how = "look into the model"
    if what == "Inf" and feature.dtype == np.float16:
        how = "float16 ends at 65504, take --dtype float32"
    return f"its feature holds {what}; {how}, or keep it with {ALLOW}"


def other_shape(found: tuple[int, ...], expected: tuple[int, ...]) -> ConfigError:
    """Return the error that says that features are not all of one shape."""
    return ConfigError(
        f"the model gives features of shape {list(found)}, and of {list(expected)} for others: "
        "all must be of one shape; take a layer behind the pooling, or give the model a size"
    )

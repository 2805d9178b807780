"""Options of an extraction of features, and the entries that determine its output."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, ClassVar, Final

import numpy as np

from headrace.cache.cache_url import DEFAULT, NONE, shown
from headrace.config_fields import Option
from headrace.decode.decoder_config import DecoderConfig
from headrace.errors import ConfigError
from headrace.extraction.extraction_options import ExtractionOptions, OutputSpec
from headrace.extraction.features.model_signature import ModelSignature
from headrace.extraction.features.model_spec import (
    FeatureModelSpec,
    Numerics,
    OwnModel,
    Sampling,
    WorkerResources,
    asked_of,
)
from headrace.extraction.features.table_columns import TableFacts
from headrace.extraction.ray.settings import RaySettings
from headrace.planning.chunks import Chunk, chunks_of
from headrace.profiling.provenance import Scalar
from headrace.runtime.processor_affinity import available_cores
from headrace.video.stream_index import StreamIndex

MOST_SAMPLES: Final = 256
MOST_BYTES: Final = 4 << 20
"""Bytes of features per chunk: a cache entry takes up to 8 MB, and chunks are held in memory."""
_CHUNK_PIXELS: Final = 1e9
"""Pixels decoded per chunk: about two seconds of one core."""


def feature_chunks(
    video: int,
    index: StreamIndex,
    sampling: Sampling,
    *,
    sample_bytes: int,
    sample_pixels: float = 0.0,
) -> list[Chunk]:
    """Cut a video into chunks of about equal cost, at keyframes where possible.

    A chunk has at most 256 samples and 4 MB of features, or a single larger feature. Its borders
    depend only on the arguments, never on workers or machine. A worker that runs consecutive chunks
    of one GOP decodes the GOP once.

    Args:
        video: Video number in the request.
        index: Index of the video.
        sampling: Samples of the video.
        sample_bytes: Bytes of a feature.
        sample_pixels: Cost of the model per sample, in decoded pixels.
    """
    starts = sampling.starts(index)
    most = max(1, min(MOST_SAMPLES, MOST_BYTES // max(1, sample_bytes)))
    height, width = index.info.upright_size
    clip = 0.0 if sampling.clip is None else float(sampling.frames_per_sample * height * width)
    planned = chunks_of(
        video, index, starts, frame_cost=sample_pixels + clip, max_cost=_CHUNK_PIXELS
    )
    return [
        Chunk(video=video, start=int(piece[0]), stop=int(piece[-1]) + 1, frames=len(piece))
        for chunk in planned
        for piece in np.array_split(chunk.of(starts), -(-chunk.frames // most))
    ]


ALLOW_NAN: Final = "allow_nan"
"""Name of the option in a request; without it, features with NaN or Inf are left out."""
_GPUS: Final = Path("/proc/driver/nvidia/gpus")


@dataclass(frozen=True, kw_only=True)
class FeatureOptions(ExtractionOptions):
    """Options of an extraction of features.

    Each worker on a GPU has it to itself; by default there is one worker for each GPU.
    """

    kind: ClassVar[str] = "features"
    model: FeatureModelSpec
    sampling: Sampling = field(default_factory=Sampling)
    """Frames or clips, each of which gives a feature."""
    numerics: Numerics = field(default_factory=Numerics)
    effort: WorkerResources = field(default_factory=WorkerResources)
    """Resources of one worker. They change features by rounding alone."""
    ray: RaySettings | None = None
    """Ray cluster that runs the workers, in place of this machine: see `sized`."""
    allow_nan: Annotated[
        bool,
        Option(
            "Keep features with NaN or Inf; by default they are left out and listed.",
            flags=("--allow-nan",),
        ),
    ] = False
    """Whether features with NaN or Inf are written; else their samples are lost, and named. Chunks
    with such features are never cached."""
    cache: Annotated[
        str,
        Option(
            "Cache for results of this and other runs; give a password in the environment only.",
            metavar="sqlite|PATH|redis://HOST|none",
            variable="HEADRACE_CACHE",
        ),
    ] = DEFAULT
    """Cache of results: see `open_cache`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        shown(self.cache)  # refuses a malformed address
        if self.shape.size is not None and isinstance(self.model, OwnModel):
            raise ConfigError("a model of your own has the size of its frames as an attribute size")

    @property
    def processes(self) -> int:
        """Max worker processes."""
        if self.numerics.kind == "cpu":
            return super().processes
        return min(self.workers or self.gpus, self.gpus)

    @property
    def decodes_here(self) -> bool:
        """Whether this machine decodes: false with a cluster."""
        return self.ray is None

    @property
    def gpus(self) -> int:
        """Usable GPUs: one if the device has an index, else all that the driver lists."""
        is_one = ":" in self.numerics.device or not _GPUS.is_dir()
        return 1 if is_one else max(1, len(list(_GPUS.iterdir())))

    @property
    def effort_each(self) -> WorkerResources:
        """Resources of each worker: cores are divided among the workers."""
        share = max(1, len(available_cores()) // self.processes)
        if self.ray is not None:
            share = int(self.ray.slot.num_cpus)
        if self.numerics.kind == "cpu":
            return replace(self.effort, threads=self.effort.threads or share)
        return replace(self.effort, decoders=self.effort.decoders or share)

    @property
    def cache_absolute(self) -> str:
        """Cache URL or absolute path, with its password."""
        is_path = self.cache not in (DEFAULT, NONE) and "://" not in self.cache
        return str(Path(self.cache).expanduser().absolute()) if is_path else self.cache

    def _asked(self) -> dict[str, Scalar]:
        facts = asked_of(self.model, self.numerics)
        nan: dict[str, Scalar] = {ALLOW_NAN: True} if self.allow_nan else {}
        return {**self.sampling.asked(), **facts, **nan}

    def _means(self) -> dict[str, Scalar]:
        return {
            "model": model_name_of(self.model),
            "device": self.numerics.device,
            "batch_size": self.effort.batch_size,
            **super()._means(),
            "ray": None if self.ray is None else self.ray.address,
            "cache": shown(self.cache),
            "rate": self.rate,
            "decode": DecoderConfig.parse(self.decode).name,
        }


def model_name_of(model: FeatureModelSpec) -> str:
    """Return the name of a model: torchvision's, or "package.module:function"."""
    return model.build if isinstance(model, OwnModel) else model.name


def weights_digest_of(facts: ModelSignature) -> str | None:
    """Return the digest of a model's weights; None: unknown."""
    digest = facts.model.get("weights")
    return None if digest is None else str(digest)


def table_facts(options: FeatureOptions, request: OutputSpec, facts: ModelSignature) -> TableFacts:
    """Return the facts shared by all rows of the tables."""
    model, clip = options.model, options.sampling.clip
    return TableFacts(
        model=model_name_of(model),
        layer=facts.layer or None,
        weights=weights_digest_of(facts) or facts.origin,
        shape=facts.shape,
        dtype=options.numerics.dtype,
        clip_len=None if clip is None else clip.num_frames,
        stride=None if clip is None else clip.stride,
        sampling=str(options.sampling.selection),
        request=request.digest,
    )

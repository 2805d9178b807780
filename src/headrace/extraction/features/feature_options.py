"""Options of an extraction of features, its chunks, and the cluster that runs them."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, ClassVar, Final

import numpy as np

from headrace.cache.cache_url import DEFAULT, NONE, shown
from headrace.config_fields import Option
from headrace.decode.decoder_config import DecoderConfig
from headrace.errors import ConfigError
from headrace.extraction.extraction_options import ExtractionOptions, OutputSpec
from headrace.extraction.features.feature_table import TableFacts
from headrace.extraction.features.model_spec import (
    FeatureModelSpec,
    ModelSignature,
    Numerics,
    OwnModel,
    SampleSpec,
    WorkerResources,
    asked_of,
)
from headrace.extraction.ray.settings import RaySettings
from headrace.extras import require
from headrace.planning.chunks import Chunk, chunks_of
from headrace.profiling.provenance import Scalar
from headrace.runtime.processor_affinity import available_cores
from headrace.runtime.worker_pool import PoolBackend
from headrace.video.stream_index import StreamIndex

MAX_SAMPLES: Final = 256
"""Max samples per chunk."""
_MAX_BYTES: Final = 4 << 20
"""Max bytes of features per chunk: cache entries are limited to 8 MB, and chunks stay in memory."""
_CHUNK_PIXELS: Final = 1e9
"""Pixels decoded per chunk: about two seconds of one core."""


def feature_chunks(
    video: int,
    index: StreamIndex,
    sampling: SampleSpec,
    *,
    sample_bytes: int,
    sample_pixels: float = 0.0,
) -> list[Chunk]:
    """Cut a video into chunks of about equal cost, at keyframes where possible.

    A chunk has at most 256 samples and 4 MB of features, or a single larger feature. Its borders
    depend only on the arguments, not on workers or the machine. A worker that runs consecutive
    chunks of one GOP decodes the GOP once.

    Args:
        video: Video number in the request.
        index: Index of the video.
        sampling: Samples of the video.
        sample_bytes: Bytes of a feature.
        sample_pixels: Cost of the model per sample, in decoded pixels.
    """
    starts = sampling.starts(index)
    max_samples = max(1, min(MAX_SAMPLES, _MAX_BYTES // max(1, sample_bytes)))
    height, width = index.info.upright_size
    clip = 0.0 if sampling.clip is None else float(sampling.frames_per_sample * height * width)
    chunks = chunks_of(
        video, index, starts, frame_cost=sample_pixels + clip, max_cost=_CHUNK_PIXELS
    )
    return [
        Chunk(video=video, start=int(piece[0]), stop=int(piece[-1]) + 1, frames=len(piece))
        for chunk in chunks
        for piece in np.array_split(chunk.of(starts), -(-chunk.frames // max_samples))
    ]


ALLOW_NAN: Final = "allow_nan"
"""Name of the option in a request; without it, features with NaN or Inf are left out."""
_GPUS: Final = Path("/proc/driver/nvidia/gpus")


@dataclass(frozen=True, kw_only=True)
class FeatureOptions(ExtractionOptions):
    """Options of an extraction of features.

    On GPUs, there is one worker per GPU.
    """

    kind: ClassVar[str] = "features"
    model: FeatureModelSpec
    sampling: SampleSpec = field(default_factory=SampleSpec)
    """Frames or clips; each has one feature."""
    numerics: Numerics = field(default_factory=Numerics)
    effort: WorkerResources = field(default_factory=WorkerResources)
    """Resources of one worker. They change features only by rounding."""
    ray: RaySettings | None = None
    """Ray cluster that runs the workers, instead of this machine: see `sized`."""
    allow_nan: Annotated[
        bool,
        Option("Write features with NaN or Inf, not list them as lost.", flags=("--allow-nan",)),
    ] = False
    """Whether features with NaN or Inf are written; else their samples are listed as lost. Their
    chunks are never cached."""
    cache: Annotated[
        str,
        Option(
            "Cache of results for other runs; give a password only in the environment.",
            metavar="sqlite|PATH|redis://HOST|none",
            variable="HEADRACE_CACHE",
        ),
    ] = DEFAULT
    """Cache of results: see `open_cache`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        shown(self.cache)  # refuses a malformed address
        if self.shape.size is not None and isinstance(self.model, OwnModel):
            raise ConfigError(
                "size must not be given with a custom model; set the attribute size of the model"
            )

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
        """Number of usable GPUs: 1 if the device has an index, else all that the driver lists."""
        has_index = ":" in self.numerics.device
        return 1 if has_index or not _GPUS.is_dir() else max(1, len(list(_GPUS.iterdir())))

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

    def _other_options(self) -> dict[str, Scalar]:
        return {
            "model": model_name_of(self.model),
            "device": self.numerics.device,
            "batch_size": self.effort.batch_size,
            **super()._other_options(),
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


def on_ray(settings: RaySettings) -> PoolBackend:
    """Return the backend of a cluster; the cluster is joined when the first chunk runs.

    Raises:
        BackendError: Ray is not installed; the message names the extra.
    """
    with require("ray", "--ray"):
        from headrace.extraction.ray.backend import RayBackend
    return RayBackend(settings=settings)


def sized(settings: RaySettings) -> RaySettings:
    """Return the settings with the requested number of actors, or all that fit the cluster.

    An actor with a GPU also gets its share of the cores. Cost: joins the cluster, one or two
    seconds.

    Raises:
        BackendError: Ray is not installed; the message names the extra.
        ConfigError: the cluster cannot be reached, or no actor fits.
    """
    with require("ray", "--ray"):
        from headrace.extraction.ray.backend import fitting, joined, machines
    with joined(settings.address):
        slot = settings.slot.with_cores_of(machines())
        most = settings.actors_for(fitting(slot), None)
    return replace(settings, slot=slot, most_actors=most)

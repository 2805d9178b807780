"""Features of videos: what may be asked, and what of it decides what comes out."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from headrace.cache.open import DEFAULT, NONE, shown
from headrace.decode.protocol import OnError, check_on_error
from headrace.errors import ConfigError
from headrace.extraction.features.facts import FeatureFacts
from headrace.extraction.features.sampling import Sampling
from headrace.extraction.features.spec import (
    Effort,
    FeatureModelSpec,
    Numerics,
    OwnModel,
    asked_of,
)
from headrace.extraction.features.table_facts import TableFacts
from headrace.extraction.ray.settings import RaySettings
from headrace.extraction.request import AskedVideo, Request
from headrace.profiling.provenance import Scalar
from headrace.runtime.affinity import available_cores
from headrace.sizes import check_integers

KIND: Final = "features"
_STALL_SECONDS: Final = 300.0
_GPUS: Final = Path("/proc/driver/nvidia/gpus")


@dataclass(frozen=True, kw_only=True)
class FeatureOptions:
    """Which samples of which videos, by which model, and how it is done.

    Raises:
        ConfigError: a value is out of range, or there is no video.
    """

    sources: tuple[str, ...]
    """Paths of videos; one that is named twice is read once."""
    model: FeatureModelSpec
    out: Path
    """Folder of the tables: a new one, or one that was begun with the same request."""
    sampling: Sampling = field(default_factory=Sampling)
    """Which frames or clips give a feature each."""
    numerics: Numerics = field(default_factory=Numerics)
    effort: Effort = field(default_factory=Effort)
    """Of one worker. Features are the same with any, but for rounding."""
    workers: int | None = None
    """Processes; None means one for each core this process may use, or one for each GPU, which a
    process has to itself."""
    ray: RaySettings | None = None
    """The cluster whose machines work, in place of processes here: see `sized`."""
    cache: str = DEFAULT
    """Where results are kept for other runs: see `open_cache`."""
    on_error: OnError = "skip"
    """Bad videos and frames are left out and listed, end the extraction, or, where frames are
    damaged, come as FFmpeg shows them."""
    retry: bool = False
    """Whether what ended two workers in an earlier run is tried again."""
    stall_seconds: float = _STALL_SECONDS
    """How long a worker may have nothing to show before it is taken to hang, and ended."""

    def __post_init__(self) -> None:
        check_on_error(self.on_error)
        shown(self.cache)  # an address that is none is refused
        check_integers(1, workers=self.workers)
        if not self.stall_seconds > 0:
            raise ConfigError(f"stall_seconds must be > 0, got {self.stall_seconds}")
        if not self.sources:
            raise ConfigError("give at least one video")

    @property
    def processes(self) -> int:
        """How many processes work at a time, at most."""
        if self.numerics.kind == "cpu":
            return self.workers or len(available_cores())
        return min(self.workers or self.gpus, self.gpus)

    @property
    def gpus(self) -> int:
        """GPUs that may be used: one where it is named, else all that the driver knows."""
        is_one = ":" in self.numerics.device or not _GPUS.is_dir()
        return 1 if is_one else max(1, len(list(_GPUS.iterdir())))

    @property
    def effort_each(self) -> Effort:
        """What of one worker goes into it: cores are shared out over the workers."""
        share = max(1, len(available_cores()) // self.processes)
        if self.ray is not None:
            share = int(self.ray.slot.num_cpus)
        if self.numerics.kind == "cpu":
            return replace(self.effort, threads=self.effort.threads or share)
        return replace(self.effort, decoders=self.effort.decoders or share)

    @property
    def cache_absolute(self) -> str:
        """The cache as processes in any folder understand it, with its password."""
        is_path = self.cache not in (DEFAULT, NONE) and "://" not in self.cache
        return str(Path(self.cache).expanduser().absolute()) if is_path else self.cache

    def configuration(self) -> dict[str, Scalar]:
        """Return all of it, by the names of options."""
        return {
            "sources": ",".join(self.sources),
            **_asked(self),
            "model": model_name_of(self.model),
            "out": str(self.out),
            "device": self.numerics.device,
            "batch_size": self.effort.batch_size,
            "workers": self.workers,
            "ray": None if self.ray is None else self.ray.address,
            "cache": shown(self.cache),
            "on_error": self.on_error,
            "retry": self.retry,
            "stall_seconds": self.stall_seconds,
        }

    def request(self, videos: tuple[AskedVideo, ...], facts: FeatureFacts) -> Request:
        """Return what decides the features."""
        asked = {**_asked(self), "weights_digest": weights_digest_of(facts)}
        return Request(kind=KIND, asked=asked, videos=videos)


def model_name_of(model: FeatureModelSpec) -> str:
    """Return what a model is called: torchvision's name, or "package.module:function"."""
    return model.build if isinstance(model, OwnModel) else model.name


def weights_digest_of(facts: FeatureFacts) -> str | None:
    """Return the digest of a model's weights; None where it is not known."""
    found = facts.model.get("weights")
    return None if found is None else str(found)


def table_facts(options: FeatureOptions, request: Request, facts: FeatureFacts) -> TableFacts:
    """Return what all rows of the tables have in common."""
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


def on_error_of(asked: Mapping[str, Any]) -> OnError:
    """Return what a request says of damaged frames: `conceal`, or `skip`."""
    return "conceal" if asked["damaged"] == "concealed" else "skip"


def _asked(options: FeatureOptions) -> dict[str, Scalar]:
    return {
        **options.sampling.asked(),
        **asked_of(options.model, options.numerics),
        "damaged": "concealed" if options.on_error == "conceal" else "left out",
    }

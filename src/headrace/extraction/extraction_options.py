"""Options of an extraction, and the request: the options that determine its output."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

from headrace.config_fields import Option, SourceArgument, check_options
from headrace.decode.decoder_config import DECODE_OPTION, ON_CPU, DecoderConfig, use_option_words
from headrace.decode.open_decoder import capabilities_of
from headrace.decode.protocol import OnError
from headrace.errors import ConfigError
from headrace.profiling.provenance import Scalar
from headrace.records import from_json, recorded, to_json
from headrace.runtime.processor_affinity import available_cores
from headrace.units import parse_bytes
from headrace.video.frame_format import Crop, FrameFormat, ResizeFit
from headrace.video.image_sequence import RATE_OPTION
from headrace.video.stream_index import StreamIndex

CONCEALED: Final = "concealed"
"""Value of `damaged` in a request if damaged frames are concealed by FFmpeg."""
_VERSION = 1


@recorded
@dataclass(frozen=True, kw_only=True)
class RequestedVideo:
    """One video of a request."""

    name: str
    """Name in the output folder."""
    path: str
    """Absolute path."""
    size: int | None
    mtime_ns: int | None
    """mtime of the file when it was first opened; None if it could not be opened."""
    rate: str | None = None
    """Images per second of an image sequence; None for a video file."""

    @property
    def is_known(self) -> bool:
        """Whether it could be opened."""
        return self.size is not None


@recorded
@dataclass(frozen=True, kw_only=True)
class OutputSpec:
    """Exactly the inputs that determine the output."""

    kind: str
    """Kind of extraction: `frames`."""
    asked: Mapping[str, Scalar]
    """Options by name."""
    videos: tuple[RequestedVideo, ...]
    """Videos in order; a video's number is its position here."""

    def text(self) -> str:
        """Return the request as JSON."""
        return to_json(self, version=_VERSION, indent=1) + "\n"

    @property
    def digest(self) -> str:
        """`sha256:…`, equal for requests whose outputs may share a folder.

        File sizes and times are left out: a video that could not be opened may appear later.
        """
        videos = [
            (video.name, video.path) if video.rate is None else (video.name, video.path, video.rate)
            for video in self.videos
        ]
        text = json.dumps([self.kind, dict(self.asked), videos], sort_keys=True)
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"

    @property
    def conceals(self) -> bool:
        """Whether damaged frames are concealed by FFmpeg."""
        return self.asked["damaged"] == CONCEALED

    @classmethod
    def parse(cls, text: str, file: object = "the request") -> "OutputSpec":
        """Return the request that `text` was written from.

        Raises:
            ConfigError: `text` is not a request; the message names `file`.
        """
        return from_json(cls, text, file=file, version=_VERSION)

    def differences(self, before: "OutputSpec") -> Iterator[str]:
        """Yield each difference from an earlier request, in words; nothing if they may share a
        folder."""
        if self.kind != before.kind:
            yield f"it holds {before.kind}, not {self.kind}"
            return
        for name in {**before.asked, **self.asked}:
            old, new = before.asked.get(name), self.asked.get(name)
            if old != new:
                yield f"{name} was {_shown(old)}, now {_shown(new)}"
        yield from self._other_videos(before)

    def _other_videos(self, before: "OutputSpec") -> Iterator[str]:
        old_paths = [video.path for video in before.videos]
        new_paths = [video.path for video in self.videos]
        added = [path for path in new_paths if path not in old_paths]
        removed = [path for path in old_paths if path not in new_paths]
        if added:
            yield f"{_listed(added)} was not requested then"
        if removed:
            yield f"{_listed(removed)} is not requested now"
        if old_paths != new_paths and not added and not removed:
            yield "the order of the videos differs"
        if old_paths == new_paths:
            pairs = list(zip(before.videos, self.videos, strict=True))
            for old, video in pairs:
                if old.rate != video.rate:
                    rates = f"was {_shown(old.rate)}, now {_shown(video.rate)}"
                    yield f"rate of {video.path} {rates}"
            for old, video in pairs:
                # A video that could not be opened, then or now, has no conflicting output.
                if old.is_known and video.is_known and replace(old, rate=video.rate) != video:
                    yield f"{video.path} has changed since, and its output is of the earlier file"


def _shown(value: Scalar) -> str:
    return "not set" if value in (None, "") else str(value)


def _listed(paths: list[str]) -> str:
    more = f" (and {len(paths) - 1} more)" if len(paths) > 1 else ""
    return f"{paths[0]}{more}"


WHOLE_FRAMES: Final = FrameFormat()
"""Whole frames in their own size."""
_STALL_SECONDS = 300.0
_SHOWN: Final = 3
"""Max names in a message."""


@dataclass(frozen=True, kw_only=True)
class ExtractionOptions(ABC):
    """Options of all extractions; the subclass of each kind adds further options.

    Raises:
        ConfigError: a value is out of range, or there is no video.
    """

    kind: ClassVar[str]
    """Content of an output folder: `frames`."""
    sources: Annotated[
        tuple[str, ...],
        SourceArgument(
            "Video files, folders of them, or lists (.txt, .csv, .jsonl).", metavar="SOURCE"
        ),
    ]
    """Paths of videos; a path given twice is read once."""
    out: Annotated[
        Path,
        Option("Output folder: new, or started by the same command.", flags=("-o", "--out")),
    ]
    """Output folder: new, or started by the same request."""
    workers: Annotated[
        int | None,
        Option("Worker processes; default: one per core. The output is the same.", least=1),
    ] = None
    """Worker processes; None means one for each core this process may use. The output does not
    depend on it."""
    on_error: Annotated[
        OnError,
        Option(
            "Policy for bad videos and frames: skip and list them, raise an error, or conceal "
            "damaged frames by FFmpeg."
        ),
    ] = "skip"
    """Policy for bad videos and frames. `skip`: leave out and list. `raise`: end the extraction.
    `conceal`: keep damaged frames, with FFmpeg's error concealment."""
    retry: Annotated[
        bool, Option("Retry chunks that ended two workers in an earlier run.", flags=("--retry",))
    ] = False
    """Whether to retry chunks that ended two workers in an earlier run."""
    rate: Annotated[str | None, RATE_OPTION] = None
    """Images per second; each source is then a folder of images, or a pattern such as
    frames/%05d.jpg. None: sources are videos."""
    decode: Annotated[str, DECODE_OPTION] = "cpu"
    """Backend and device, in the syntax of `DecoderConfig.parse`; frames are copied from a GPU to
    the CPU. `cuda` without a number is the GPU that a worker computes on, or the first; the same
    holds for `auto`."""
    spill: Annotated[
        Path | None,
        Option(
            "Store packed decoded frames in this folder on a local disk, for later runs and "
            "loaders."
        ),
    ] = None
    """Folder on a local disk for decoded frames, packed: stored frames are read, other frames are
    decoded and stored. Loaders and readers with the same size, fit and interpolation share it."""
    spill_budget: Annotated[
        str | None,
        Option("Max bytes of --spill; default: its last budget, or 50GB.", check=parse_bytes),
    ] = None
    """Max bytes of the spill folder. None: its last budget, or 50 GB."""
    shape: FrameFormat = WHOLE_FRAMES
    """Crop, size and fit of the output frames, RGB of 8 bits."""
    stall_seconds: float = _STALL_SECONDS
    """Seconds without progress after which a worker counts as hung and is ended."""

    def __post_init__(self) -> None:
        check_options(self)
        if not self.stall_seconds > 0:
            raise ConfigError(f"stall_seconds must be > 0, got {self.stall_seconds}")
        check_decode_option(self.decode, rate=self.rate, on_error=self.on_error)
        shape = self.shape
        if (shape.layout, shape.dtype) != ("rgb", "uint8") or isinstance(shape.fit, ResizeFit):
            raise ConfigError(
                f"shape must be 8-bit RGB with a fit of stretch, cover or contain, got {shape}"
            )

    @property
    def processes(self) -> int:
        """Max worker processes."""
        return self.workers or len(available_cores())

    @property
    def decodes_here(self) -> bool:
        """Whether this machine decodes."""
        return True

    def check_videos(self, indexes: Collection[StreamIndex]) -> None:
        """Check that this machine can decode the videos, and that crops lie inside their frames.

        Raises:
            ConfigError: a crop does not lie inside the frames of a video.
            BackendError: the decoder cannot decode a video.
        """
        if self.decodes_here:
            check_decoder(self.decode, indexes)
        for index in indexes:
            self.shape.output_size(index.info.upright_size)

    def configuration(self) -> dict[str, Scalar]:
        """Return all options in force by name."""
        return {
            "sources": ",".join(self.sources),
            **self.asked(),
            "out": str(self.out),
            **self._other_options(),
            "on_error": self.on_error,
            "retry": self.retry,
            "stall_seconds": self.stall_seconds,
        }

    def request(self, videos: tuple[RequestedVideo, ...], **planned: Scalar) -> OutputSpec:
        """Return the request for these videos; `planned`: entries known only after planning."""
        return OutputSpec(kind=self.kind, asked={**self.asked(), **planned}, videos=videos)

    def asked(self) -> dict[str, Scalar]:
        """Return the options that determine the output, by name."""
        damaged = CONCEALED if self.on_error == "conceal" else "left out"
        asked = {**self._asked(), **backend_facts(self.decode), **shape_asked(self.shape)}
        return {**asked, "damaged": damaged}

    @abstractmethod
    def _asked(self) -> dict[str, Scalar]:
        """Return the entries of `asked` that only this kind has."""

    def _other_options(self) -> dict[str, Scalar]:
        """Return the options that do not change the output, by name."""
        spill = {} if self.spill is None else {"spill": str(self.spill)}
        return {"workers": self.workers, **spill}


def encodable(text: str) -> str:
    """Return a file name with non-UTF-8 bytes escaped: a table cannot hold them."""
    return text.encode(errors="backslashreplace").decode()


def name_list(names: Iterable[str]) -> str:
    """Return `a, b, c and 4 more`; `none` for no names."""
    listed = list(names)
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return f"{', '.join(listed[:_SHOWN])}{more}" if listed else "none"


def unique_name(name: str, taken: Container[str]) -> str:
    """Return the first of `name`, `name-2`, `name-3` and so on that is not in `taken`."""
    suffix, candidate = 1, name
    while candidate in taken:
        suffix += 1
        candidate = f"{name}-{suffix}"
    return candidate


def shape_asked(shape: FrameFormat) -> dict[str, Scalar]:
    """Return the non-default parts of a shape, as options by name."""
    values: dict[str, Scalar] = {
        "size": None if shape.size is None else "x".join(map(str, shape.size)),
        "crop": None if shape.crop is None else shape.crop.text,
        "fit": None if shape.fit == "stretch" else str(shape.fit),
        "interpolation": None if shape.interpolation == "area" else shape.interpolation,
    }
    return {name: value for name, value in values.items() if value is not None}


def shape_of_asked(asked: Mapping[str, Scalar]) -> FrameFormat:
    """Return the shape from the entries of `shape_asked`; other entries are ignored."""
    parts: dict[str, Any] = {n: asked[n] for n in ("fit", "interpolation") if asked.get(n)}
    if asked.get("size"):
        height, width = map(int, str(asked["size"]).split("x"))
        parts["size"] = height, width
    if asked.get("crop"):
        parts["crop"] = Crop.parse(str(asked["crop"]))
    return FrameFormat(**parts)


def check_decode_option(decode: str, *, rate: str | None, on_error: OnError) -> None:
    """Check a `--decode` value against the other options.

    Raises:
        ConfigError: the options contradict each other, or the device does not exist.
        BackendError: the backend is unknown.
    """
    decoding = DecoderConfig.parse(decode)
    if rate is not None and decoding != ON_CPU:
        raise ConfigError(
            f"--decode {decode} is for videos, but the sources are images (--framerate); leave "
            "--decode out"
        )
    if on_error == "conceal" and decoding.backend == "torchcodec":
        raise ConfigError(
            "--on-error conceal needs a decoder that reports damaged frames, and --decode "
            f"{decode} does not; leave --decode out, or give --on-error skip"
        )


def check_decoder(decode: str, indexes: Iterable[StreamIndex] = ()) -> None:
    """Check that a decoder is installed and supports the videos. Except for PyAV, loads PyTorch.

    Raises:
        BackendError: the decoder is missing, or does not support a video.
    """
    decoding = DecoderConfig.parse(decode)
    if decoding == ON_CPU:
        return
    from headrace.loaders.loader_options import check_decoding

    with use_option_words():
        check_decoding(decoding)
        capabilities = capabilities_of(decoding)
        for index in indexes:
            capabilities.check(decoding, index)


def backend_facts(decode: str) -> dict[str, str]:
    """Return the request entry of a decoder; empty for PyAV, whose output is equal on every
    machine."""
    backend = DecoderConfig.parse(decode).backend
    return {} if backend == ON_CPU.backend else {"decoded_by": backend}

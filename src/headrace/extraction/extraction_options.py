"""What is asked of an extraction, and what of it decides what comes out."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

from headrace.config_fields import Option, SourceArgument, check_options
from headrace.decode.decoder_config import DECODE_OPTION
from headrace.decode.protocol import OnError
from headrace.errors import ConfigError
from headrace.extraction.decode_jobs import backend_facts, check_decoder, check_way
from headrace.profiling.provenance import Scalar
from headrace.records import from_json, recorded, to_json
from headrace.runtime.affinity import available_cores
from headrace.video.frame_format import Crop, FrameFormat, ResizeFit
from headrace.video.image_sequence import RATE_OPTION
from headrace.video.stream_index import StreamIndex

CONCEALED: Final = "concealed"
"""What a request says of damaged frames that come as FFmpeg shows them."""
_VERSION = 1


@recorded
@dataclass(frozen=True, kw_only=True)
class RequestedVideo:
    """One video of a request."""

    name: str
    """What it is called in the folder."""
    path: str
    """Where it lies, from the root on."""
    size: int | None
    mtime_ns: int | None
    """Of the file, as it was when it was first opened; None: it could not be."""
    rate: str | None = None
    """Pictures a second, where it is pictures in order; None: it is a file."""

    @property
    def is_known(self) -> bool:
        """Whether it could be opened."""
        return self.size is not None


@recorded
@dataclass(frozen=True, kw_only=True)
class OutputSpec:
    """All that decides what comes out, and nothing else."""

    kind: str
    """`frames`."""
    asked: Mapping[str, Scalar]
    """Options by name."""
    videos: tuple[RequestedVideo, ...]
    """In order; a number of a video is a place here."""

    def text(self) -> str:
        """Return it as JSON."""
        return to_json(self, version=_VERSION, indent=1) + "\n"

    @property
    def digest(self) -> str:
        """`sha256:…` of what two requests that go together have in common.

        Sizes and times of files are not in it: one that could not be opened may be there later.
        """
        videos = [
            (video.name, video.path) if video.rate is None else (video.name, video.path, video.rate)
            for video in self.videos
        ]
        text = json.dumps([self.kind, dict(self.asked), videos], sort_keys=True)
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"

    @property
    def conceals(self) -> bool:
        """Whether damaged frames come as FFmpeg shows them."""
        return self.asked["damaged"] == CONCEALED

    @classmethod
    def parse(cls, text: str, file: object = "the request") -> "OutputSpec":
        """Return what `text` made.

        Raises:
            ConfigError: it is something else; `file` is where it was read.
        """
        return from_json(cls, text, file=file, version=_VERSION)

    def differences(self, before: "OutputSpec") -> Iterator[str]:
        """Yield how this differs from one before, in words; nothing where they go together."""
        if self.kind != before.kind:
            yield f"it holds {before.kind}, not {self.kind}"
            return
        for name in {**before.asked, **self.asked}:
            was, now = before.asked.get(name), self.asked.get(name)
            if was != now:
                yield f"{name} was {_shown(was)}, now {_shown(now)}"
        yield from self._other_videos(before)

    def _other_videos(self, before: "OutputSpec") -> Iterator[str]:
        was = [each.path for each in before.videos]
        now = [each.path for each in self.videos]
        new = [path for path in now if path not in was]
        gone = [path for path in was if path not in now]
        if new:
            yield f"{_listed(new)} was not asked for then"
        if gone:
            yield f"{_listed(gone)} is not asked for now"
        if was != now and not new and not gone:
            yield "the videos came in another order"
        if was == now:
            yield from _other_rates(before.videos, self.videos)
            for old, video in zip(before.videos, self.videos, strict=True):
                # One that could not be opened then, or cannot now, has nothing to mix up.
                if old.is_known and video.is_known and replace(old, rate=video.rate) != video:
                    yield f"{video.path} has changed since"


def _other_rates(
    before: tuple[RequestedVideo, ...], videos: tuple[RequestedVideo, ...]
) -> Iterator[str]:
    for old, video in zip(before, videos, strict=True):
        if old.rate != video.rate:
            yield f"rate of {video.path} was {_shown(old.rate)}, now {_shown(video.rate)}"


def _shown(value: Scalar) -> str:
    return "not set" if value in (None, "") else str(value)


def _listed(paths: list[str]) -> str:
    more = f" (and {len(paths) - 1} more)" if len(paths) > 1 else ""
    return f"{paths[0]}{more}"


WHOLE_FRAMES: Final = FrameFormat()
"""Frames as they are."""
_STALL_SECONDS = 300.0


@dataclass(frozen=True, kw_only=True)
class ExtractionOptions(ABC):
    """Which videos, where to, and how it is done; a class for each kind has the rest.

    Raises:
        ConfigError: a value is out of range, or there is no video.
    """

    kind: ClassVar[str]
    """What a folder of it holds: `frames`."""
    sources: Annotated[
        tuple[str, ...],
        SourceArgument("Videos, folders of them, or lists (.txt, .csv, .jsonl).", metavar="SOURCE"),
    ]
    """Paths of videos; one that is named twice is read once."""
    out: Annotated[
        Path,
        Option("Folder: new, or begun by the same command before.", flags=("-o", "--out")),
    ]
    """The output folder: a new one, or one that was begun with the same request."""
    workers: Annotated[
        int | None,
        Option("Processes; without it one for each core. The result is the same.", least=1),
    ] = None
    """Processes; None means one for each core this process may use. The result is the same with
    any number."""
    on_error: Annotated[
        OnError,
        Option(
            "Bad videos and frames are left out and listed, end it, or, where frames are damaged, "
            "come as FFmpeg shows them."
        ),
    ] = "skip"
    """Bad videos and frames are left out and listed, end the extraction, or, where frames are
    damaged, come as FFmpeg shows them."""
    retry: Annotated[
        bool, Option("Try again what ended two workers in an earlier run.", flags=("--retry",))
    ] = False
    """Whether what ended two workers in an earlier run is tried again."""
    rate: Annotated[str | None, RATE_OPTION] = None
    """Pictures a second; each source is then a folder of pictures, or a pattern such as
    frames/%05d.jpg. None: sources are videos."""
    decode: Annotated[str, DECODE_OPTION] = "cpu"
    """Backend and device, as `DecoderConfig.named` takes them; frames come down from a GPU. `cuda`
    without a number is the GPU that a worker computes on, or the first; so is that of `auto`."""
    shape: FrameFormat = WHOLE_FRAMES
    """What is cut out of frames, and how it is resized: RGB of 8 bits."""
    stall_seconds: float = _STALL_SECONDS
    """How long a worker may have nothing to show before it is taken to hang, and ended."""

    def __post_init__(self) -> None:
        check_options(self)
        if not self.stall_seconds > 0:
            raise ConfigError(f"stall_seconds must be > 0, got {self.stall_seconds}")
        check_way(self.decode, rate=self.rate, on_error=self.on_error)
        shape = self.shape
        if (shape.layout, shape.dtype) != ("rgb", "uint8") or isinstance(shape.fit, ResizeFit):
            raise ConfigError(
                f"frames are extracted as RGB of 8 bits, with a fit that has a name; got {shape}"
            )

    @property
    def processes(self) -> int:
        """How many processes work at a time, at most."""
        return self.workers or len(available_cores())

    @property
    def decodes_here(self) -> bool:
        """Whether this machine decodes."""
        return True

    def check_videos(self, indexes: Collection[StreamIndex]) -> None:
        """Check that these videos can be decoded here, and have what is cut out of their frames.

        Raises:
            ConfigError: a crop does not lie inside the frames of one.
            BackendError: the decoder cannot decode one.
        """
        if self.decodes_here:
            check_decoder(self.decode, indexes)
        for index in indexes:
            self.shape.output_size(index.info.upright_size)

    def configuration(self) -> dict[str, Scalar]:
        """Return all of it, by the names of options."""
        return {
            "sources": ",".join(self.sources),
            **self.asked(),
            "out": str(self.out),
            **self._means(),
            "on_error": self.on_error,
            "retry": self.retry,
            "stall_seconds": self.stall_seconds,
        }

    def request(self, videos: tuple[RequestedVideo, ...], **found: Scalar) -> OutputSpec:
        """Return what decides what comes out; `found`: more of it, known only by now."""
        return OutputSpec(kind=self.kind, asked={**self.asked(), **found}, videos=videos)

    def asked(self) -> dict[str, Scalar]:
        """Return the options that decide what comes out, by name."""
        damaged = CONCEALED if self.on_error == "conceal" else "left out"
        asked = {**self._asked(), **backend_facts(self.decode), **shape_asked(self.shape)}
        return {**asked, "damaged": damaged}

    @abstractmethod
    def _asked(self) -> dict[str, Scalar]:
        """Return those that only this kind has."""

    def _means(self) -> dict[str, Scalar]:
        """Return what it is done with, by the names of options."""
        return {"workers": self.workers}


def shape_asked(shape: FrameFormat) -> dict[str, Scalar]:
    """Return the parts of a shape that were chosen as options by name, for a request."""
    values: dict[str, Scalar] = {
        "size": None if shape.size is None else "x".join(map(str, shape.size)),
        "crop": None if shape.crop is None else shape.crop.text,
        "fit": None if shape.fit == "stretch" else str(shape.fit),
        "interpolation": None if shape.interpolation == "area" else shape.interpolation,
    }
    return {name: value for name, value in values.items() if value is not None}


def shape_of_asked(asked: Mapping[str, Scalar]) -> FrameFormat:
    """Return the shape that `shape_asked` made these of; other options may stand beside them."""
    given: dict[str, Any] = {n: asked[n] for n in ("fit", "interpolation") if asked.get(n)}
    if asked.get("size"):
        height, width = map(int, str(asked["size"]).split("x"))
        given["size"] = height, width
    if asked.get("crop"):
        given["crop"] = Crop.parse(str(asked["crop"]))
    return FrameFormat(**given)

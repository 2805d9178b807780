"""Frames of videos as pictures: what may be asked, and what of it decides what comes out."""

from dataclasses import dataclass, field
from typing import ClassVar

from headrace.decode.decoding import Decoding
from headrace.extraction.decoders import backend_facts, check_way
from headrace.extraction.options import ExtractionOptions
from headrace.extraction.pictures import Pictures
from headrace.extraction.request import Request
from headrace.profiling.provenance import Scalar
from headrace.sampling.selection import Selection


@dataclass(frozen=True, kw_only=True)
class FrameOptions(ExtractionOptions):
    """Which frames of which videos, as what pictures, and how it is done."""

    kind: ClassVar[str] = "frames"
    selection: Selection
    """Which frames of each."""
    pictures: Pictures = field(default_factory=Pictures)
    rate: str | None = None
    """Pictures a second; each source is then a folder of pictures, or a pattern such as
    frames/%05d.jpg. None: sources are videos."""
    decode: str = "cpu"
    """What decodes, and where, as `Decoding.named` takes it; frames come down from a GPU."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_way(self.decode, rate=self.rate, on_error=self.on_error)

    def _asked(self) -> dict[str, Scalar]:
        pictures = self.pictures
        return {
            "frames": str(self.selection),
            "format": pictures.format,
            "quality": pictures.quality_in_force,
            "size": None if pictures.size is None else "x".join(map(str, pictures.size)),
            "prefix": pictures.prefix,
            **backend_facts(self.decode),
        }

    def _means(self) -> dict[str, Scalar]:
        return {**super()._means(), "rate": self.rate, "decode": Decoding.named(self.decode).name}


def pictures_of(request: Request) -> Pictures:
    """Return the pictures that a request is for."""
    asked = request.asked
    size, quality = asked["size"], asked["quality"]
    height, width = (0, 0) if size is None else map(int, str(size).split("x"))
    return Pictures(
        format=asked["format"],  # type: ignore[arg-type]
        quality=None if quality is None else int(quality),
        size=None if size is None else (height, width),
        prefix=str(asked["prefix"]),
    )

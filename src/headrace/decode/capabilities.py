"""What a backend can decode on a kind of device: a value, asked before anything is opened."""

from dataclasses import dataclass

from headrace.decode.decoding import Decoding
from headrace.errors import BackendError
from headrace.video.stream_index import StreamIndex


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What it decodes; None where that is all there is, or is known only when it is tried."""

    codecs: tuple[str, ...] | None = None
    """Names of codecs, as FFmpeg calls them."""
    pixel_formats: tuple[str, ...] | None = None
    """Names of what it may decode into, as FFmpeg calls them."""
    largest: tuple[int, int] | None = None
    """(height, width) that a stored frame may have at most."""
    has_interlaced: bool = True
    """Whether it decodes frames of two fields."""
    can_keep_on_device: bool = False
    """Whether frames may stay on a device that decoded them; on the CPU they always do."""

    def check(self, decoding: Decoding, index: StreamIndex) -> None:
        """Do nothing if a video can be decoded that way.

        Raises:
            BackendError: it cannot be; says what can.
        """
        asked = f"{_named(decoding)} was asked for to decode {index.source}"
        is_kept = decoding.keeps_on_device and decoding.gpu is not None
        if is_kept and not self.can_keep_on_device:
            raise BackendError(
                f"{asked} and to keep its frames there, which the backend {decoding.backend} "
                "cannot; leave keeps_on_device out, and frames come as arrays"
            )
        info = index.info
        is_too_large = self.largest is not None and (
            info.height > self.largest[0] or info.width > self.largest[1]
        )
        if (
            not _is_in(info.codec, self.codecs)
            or not _is_in(info.pixel_format, self.pixel_formats)
            or is_too_large
            or (info.is_interlaced and not self.has_interlaced)
        ):
            size = f", {info.height}x{info.width}" if is_too_large else ""
            fields = ", interlaced" if info.is_interlaced else ""
            raise BackendError(
                f"{asked}, which is {info.codec} in {info.pixel_format}{size}{fields}; it is asked "
                f"for {self._words()}; leave gpu out, or encode the file anew"
            )

    def _words(self) -> str:
        formats, codecs = self.pixel_formats, self.codecs
        words = ["any pixel format" if formats is None else ", ".join(formats)]
        words[0] += " in " + ("any codec" if codecs is None else ", ".join(codecs))
        if self.largest is not None:
            words.append("of at most {}x{} (height x width)".format(*self.largest))
        if not self.has_interlaced:
            words.append("not interlaced")
        return ", ".join(words)


def _named(decoding: Decoding) -> str:
    return "the CPU" if decoding.gpu is None else f"GPU {decoding.gpu}"


def _is_in(name: str, names: tuple[str, ...] | None) -> bool:
    return names is None or name in names

"""How proxies are encoded: what each codec's encoder is told."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import av
from av.video.codeccontext import VideoCodecContext
from av.video.reformatter import ColorRange, Colorspace

from headrace.errors import BackendError

Codec = Literal["h264", "hevc", "av1", "mjpeg"]
_JPEG_SCALE: Final = 3
"""FFmpeg's scale of JPEG, from 2, the best, to 31."""
_DECODERS: Final = {"av1": "libdav1d"}
"""Where FFmpeg's decoder of the codec's own name needs hardware."""
_LAMBDA: Final = 118
"""FFmpeg's unit of it."""


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """What becomes frames of one codec. Nothing of it depends on the video.

    So all proxies of one size and colour tell a decoder the same, and may share one. One thread,
    since there is a process for each core.
    """

    encoder: str
    """FFmpeg's name."""
    options: Mapping[str, str]
    pixel_format: str = "yuv420p"
    tag: str | None = None
    """Of the track, where FFmpeg's own choice plays in fewer players."""
    colour: tuple[int, int] | None = None
    """(matrix, range) that it can say of itself; None: any."""


def encoding_of(codec: Codec, gop: int) -> Encoding:
    """Return how frames are encoded into closed GOPs of `gop` frames, without B-frames."""
    grouping = f"keyint={gop}:min-keyint={gop}:scenecut=0:bframes=0:open-gop=0"
    encodings = {
        "h264": Encoding(
            encoder="libx264",
            options={
                "preset": "veryfast",
                "tune": "fastdecode",
                "crf": "20",
                # With MB-tree and AVX-512, x264 core 165 sometimes gives other bytes.
                "x264-params": f"{grouping}:threads=1:mbtree=0",
            },
        ),
        "hevc": Encoding(
            encoder="libx265",
            options={
                "preset": "veryfast",
                "crf": "22",
                "x265-params": f"{grouping}:pools=none:frame-threads=1:log-level=error:info=0",
            },
            tag="hvc1",
        ),
        "av1": Encoding(
            encoder="libsvtav1",
            options={
                "preset": "10",
                "crf": "30",
                "svtav1-params": f"keyint={gop}:irefresh-type=2:pred-struct=1:scd=0:lp=1",
            },
        ),
        "mjpeg": Encoding(
            encoder="mjpeg",
            options={"flags": "+qscale", "global_quality": str(_LAMBDA * _JPEG_SCALE)},
            pixel_format="yuvj420p",
            colour=(Colorspace.ITU601, ColorRange.JPEG),
        ),
    }
    return encodings[codec]


def new_decoder(codec: str, extradata: bytes | None) -> VideoCodecContext:
    """Return a decoder of proxies, of one thread."""
    decoder = av.CodecContext.create(_DECODERS.get(codec, codec), "r")
    assert isinstance(decoder, VideoCodecContext)
    decoder.extradata, decoder.thread_count = extradata or None, 1
    return decoder


def check_encoder(codec: Codec) -> None:
    """Do nothing if this build of FFmpeg has the encoder of `codec`.

    Raises:
        BackendError: it has not; says which there are.
    """
    names: tuple[Codec, ...] = ("h264", "hevc", "av1", "mjpeg")
    there = [name for name in names if encoding_of(name, 1).encoder in av.codecs_available]
    if codec not in there:
        raise BackendError(
            f"this FFmpeg has no encoder for {codec} ({encoding_of(codec, 1).encoder}); it has "
            f"those for {', '.join(there) or 'none of the others'}; PyAV's own wheel brings all "
            "of them (pip install av)"
        )

"""Opening a file as video, and FFmpeg's errors as errors of headrace.

The only place that opens containers for reading.

File headers are not trusted: only container formats are tried, never playlists, scripts or images;
only the local file or the given bytes are read; and the frame size is checked before memory is
allocated.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Final

import av
from av.container import InputContainer
from av.stream import Disposition
from av.video.stream import VideoStream

from headrace.errors import ConfigError, HeadraceError, MediaError, OpenError
from headrace.video.source import NO_AUDIO, Source, Stream

MAX_PIXELS = 1 << 27
"""Largest decoded frame: 134 megapixels, four times 7680x4320."""

FORMATS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,mpegvideo,flv,live_flv,ogg,asf,"
    "h261,h263,h264,hevc,vvc,evc,m4v,ivf,obu,av1,nut,mxf,gxf,rm,dv,vc1,dirac,cavsvideo,avs2,avs3,"
    "mjpeg,mpjpeg,yuv4mpegpipe,wtv,pva,nsv,nuv,roq,smk,bink,cine,flic,"
    "gif,apng,mp3,wav,flac,aac"
)
"""Formats that FFmpeg tries: containers and raw streams, but no format that names other files."""
_MAX_BOXES: Final = 1000
"""Maximum number of top-level boxes of an MP4 file that are read to explain an error."""
_TEXT_KINDS = (
    (b"#EXTM3U", "an HLS playlist, a text that names other files"),
    (b"ffconcat", "an ffconcat script, a text that names other files"),
    (b"<!doctype", "an HTML page, perhaps the error page of a failed download"),
    (b"<html", "an HTML page, perhaps the error page of a failed download"),
    (b"<?xml", "an XML text"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"\x89PNG", "a PNG image"),
    (b"%PDF", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive"),
)


def open_container(source: Source) -> tuple[InputContainer, VideoStream]:
    """Open `source` and return its container and its video stream. The caller closes it.

    Cost: reads the header, and the first packets as far as FFmpeg needs them.

    Raises:
        OpenError: the file is missing, unreadable, empty or not a video container, or has no video
            stream, or frames above `MAX_PIXELS`.
        ConfigError: this process has too many files open.
    """
    source.fingerprint()
    try:
        container = av.open(
            source.for_ffmpeg(),
            "r",
            format=source.demuxer,
            container_options={
                "format_whitelist": source.demuxer or FORMATS,
                "protocol_whitelist": "file" if source.has_path else "none",
                **source.demuxer_options,
            },
            metadata_errors="replace",
        )
    except Exception as error:
        if getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE):
            raise ConfigError(
                f"cannot open {source}: too many files are open; keep fewer open (max_open, "
                "num_of_file), or raise the limit of the system (ulimit -n)"
            ) from error
        with translate_errors(OpenError, source, "open"):
            content = _describe_content(source, error)
        raise OpenError(f"cannot open {source}: {content}", source=str(source)) from error
    try:
        with translate_errors(OpenError, source, "open"):
            return container, _choose_stream(container, source)
    except BaseException:
        container.close()
        raise


def _choose_stream(container: InputContainer, source: Source) -> VideoStream:
    videos = [s for s in container.streams.video if not _is_cover_art(s)]
    if source.stream_in_file is not None:
        number = _stream_number(container, source.stream_in_file)
        videos = [s for s in videos if s.index == number]
    if not videos:
        raise OpenError(_no_video(container, source), source=str(source))
    best = container.streams.best("video")
    stream = next((s for s in videos if best is not None and s.index == best.index), videos[0])
    context = stream.codec_context
    if context is None:
        raise OpenError(
            f"cannot decode {source}: this build of FFmpeg has no decoder for its video; "
            "re-encode it as H.264 or HEVC",
            source=str(source),
        )
    height, width = context.height, context.width
    if height < 1 or width < 1 or height * width > MAX_PIXELS:
        raise OpenError(
            f"cannot open {source}: its header has frames of {width}x{height}, not of 1 to "
            f"{MAX_PIXELS} pixels; the header is likely damaged",
            source=str(source),
        )
    return stream


def _no_video(container: InputContainer, source: Source) -> str:
    kinds = [s.type for s in container.streams]
    content = ", ".join(f"{kinds.count(k)} {k}" for k in dict.fromkeys(kinds)) or "no stream at all"
    if source.stream is not None:
        number = _stream_number(container, source.stream)
        description = next(
            (f", which is {_describe_stream(s)}" for s in container.streams if s.index == number),
            "",
        )
        readable = [
            f'{s.index} or "v:{position}" ({_describe_stream(s)})'
            for position, s in enumerate(container.streams.video)
            if not _is_cover_art(s)
        ]
        if description.startswith(", which is audio"):
            description += f"; {NO_AUDIO}"
        return (
            f"cannot open {source}: video stream {source.stream} was requested{description}; "
            f"its video streams are {', '.join(readable) or 'none'}, among {content}; "
            "choose one of them"
        )
    if any(_is_cover_art(s) for s in container.streams.video):
        content += ", the video is cover art"
    audio = f"; {NO_AUDIO}" if "audio" in kinds else ""
    return (
        f"cannot open {source}: it has no video stream ({content}); give a file with video{audio}"
    )


def _stream_number(container: InputContainer, stream: Stream) -> int:
    """Return the index of a stream in the file; -1 if the file lacks it."""
    if isinstance(stream, int):
        return stream
    position = int(stream.removeprefix("v:"))
    numbers = [s.index for s in container.streams.video]
    return numbers[position] if position < len(numbers) else -1


def _describe_stream(stream: Any) -> str:
    """Return the kind, codec and size of a stream; FFmpeg may not know the codec."""
    codec = getattr(stream, "codec_context", None)
    text = f"{stream.type or 'data'}"
    if codec is not None and codec.name:
        text += f" in {codec.name}"
    if isinstance(stream, VideoStream):
        if _is_cover_art(stream):
            return "an attached picture, such as cover art"
        text += f", {stream.width}x{stream.height}"
    return text


def _is_cover_art(stream: VideoStream) -> bool:
    return bool(stream.disposition & Disposition.attached_pic)


def _describe_content(source: Source, error: Exception) -> str:
    try:
        with source.open_bytes() as file:
            start = file.read(16)
            lacks_index = start[4:8] == b"ftyp" and _lacks_index(file)
    except OSError as unreadable:
        return f"{(unreadable.strerror or str(unreadable)).lower()}; give a video file"
    if lacks_index:
        return (
            "it is an MP4 file without an index (moov): it is truncated, or still being written; "
            "give the complete file"
        )
    head = start.lstrip(b"\xef\xbb\xbf \r\n\t").lower()
    for magic, kind in _TEXT_KINDS:
        if head.startswith(magic.lower()):
            return f"it is {kind}, not a video; give a video file"
    if isinstance(error, av.error.PermissionError | PermissionError):
        return "permission denied; give a video file"
    return f"no video container was recognised in it ({describe(error)}); give a video file"


def _lacks_index(file: BinaryIO) -> bool:
    """Return whether an MP4 file has no `moov` among its top-level boxes."""
    position = 0
    for _ in range(_MAX_BOXES):
        file.seek(position)
        header = file.read(16)
        size = int.from_bytes(header[:4])
        if size == 1:  # a 64-bit size follows the type
            size = int.from_bytes(header[8:16])
        if header[4:8] == b"moov":
            return False
        if size < 8:
            break
        position += size
    return True


@contextmanager
def translate_errors(kind: type[MediaError], source: object, doing: str) -> Iterator[None]:
    """Raise any other exception from inside as a `kind` that names `source`.

    Args:
        kind: The error to raise.
        source: The file, as the user gave it.
        doing: The operation as a verb: "open", "read the packets of".

    Raises:
        MediaError: of `kind`, with the exception as its cause.
    """
    try:
        yield
    except HeadraceError:
        raise
    except Exception as error:
        raise kind(
            f"cannot {doing} {source}: {describe(error)} ({type(error).__name__}); "
            "leave the file out, or re-encode it",
            source=str(source),
        ) from error


def describe(error: Exception) -> str:
    """Return FFmpeg's message of an error, in lower case, without its number or path."""
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()

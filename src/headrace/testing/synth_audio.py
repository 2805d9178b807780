"""Files without video: audio, with or without cover art."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.audio.stream import AudioStream
from av.container import OutputContainer
from av.stream import Disposition
from av.video.stream import VideoStream

from headrace.testing.synth_pixels import draw_picture

_SAMPLE_RATE = 44_100
_FRAME_SAMPLES = 1152


def write_audio(
    path: str | Path, *, seconds: Fraction = Fraction(1), cover_art: bool = False
) -> Path:
    """Write an MP3 with a tone, and return its path.

    With `cover_art` it also has an attached picture, which FFmpeg exposes as a video stream of one
    frame. The suffix ".mp3" is added if `path` lacks it.
    """
    path = Path(path)
    if path.suffix != ".mp3":
        path = path.with_name(f"{path.name}.mp3")
    with av.open(str(path), "w", format="mp3", container_options={"fflags": "+bitexact"}) as sink:
        sound = sink.add_stream("libmp3lame", rate=_SAMPLE_RATE, layout="mono")
        assert isinstance(sound, AudioStream)
        if cover_art:
            _add_cover(sink)
        for frame in _tone(seconds):
            sink.mux(sound.encode(frame))
        sink.mux(sound.encode(None))
    return path


def _add_cover(sink: OutputContainer) -> None:
    cover = sink.add_stream("mjpeg", rate=Fraction(1))
    assert isinstance(cover, VideoStream)
    context = cover.codec_context
    context.height, context.width, context.pix_fmt = 96, 96, "yuvj420p"
    context.thread_count = 1
    # Before PyAV 18 it must be a number.
    cover.disposition = Disposition.attached_pic.value  # type: ignore[assignment]
    frame = av.VideoFrame.from_ndarray(draw_picture(0, (96, 96)), format="rgb24")
    sink.mux(cover.encode(frame.reformat(format="yuvj420p")))
    sink.mux(cover.encode(None))


def _tone(seconds: Fraction) -> Iterator[av.AudioFrame]:
    for start in range(0, int(seconds * _SAMPLE_RATE), _FRAME_SAMPLES):
        ticks = np.arange(start, start + _FRAME_SAMPLES)
        samples = (8000 * np.sin(2 * np.pi * 440 * ticks / _SAMPLE_RATE)).astype(np.int16)
        frame = av.AudioFrame.from_ndarray(samples[None], format="s16p", layout="mono")
        frame.sample_rate, frame.pts = _SAMPLE_RATE, start
        frame.time_base = Fraction(1, _SAMPLE_RATE)
        yield frame

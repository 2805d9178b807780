"""Clips in codecs that PyAV cannot encode, written by the system's `ffmpeg`."""

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import av
from av.video.frame import VideoFrame

from headrace.testing.synth_clip import SynthClip
from headrace.testing.synth_containers import muxer_of, muxer_options
from headrace.testing.synth_encoders import encoder_of


def can_encode(clip: SynthClip) -> bool:
    """Return whether PyAV, or the system's `ffmpeg`, can encode the clip."""
    if not is_outside(clip):
        return True
    program = shutil.which("ffmpeg")
    if program is None:
        return False
    encoders = subprocess.run(
        [program, "-hide_banner", "-encoders"], capture_output=True, text=True
    )
    return f" {encoder_of(clip)[0]} " in encoders.stdout


def is_outside(clip: SynthClip) -> bool:
    """Return whether PyAV has no encoder for a clip."""
    return encoder_of(clip)[0] not in av.codecs_available


def write_outside(path: Path, clip: SynthClip, frames: Iterable[VideoFrame]) -> Path:
    """Write a clip of evenly spaced frames and return its path.

    Raises:
        ValueError: `ffmpeg` is not installed, or lacks the encoder or muxer.
    """
    program = shutil.which("ffmpeg")
    if program is None:
        raise ValueError(f"{clip.codec} needs the program ffmpeg, which is not installed")
    encoder, options = encoder_of(clip)
    height, width = clip.size
    command = [program, "-v", "error", "-nostdin", "-y", "-f", "rawvideo"]
    command += ["-pix_fmt", clip.look.pixel_format, "-s", f"{width}x{height}"]
    command += ["-r", str(clip.frame_rate), "-i", "pipe:0", "-threads", "1", "-c:v", encoder]
    command += ["-flags:v", "+bitexact"]
    for name, value in {**options, **muxer_options(clip.container)}.items():
        command += [f"-{name}", value]
    command += ["-f", muxer_of(clip.container), f"file:{path}"]
    pixels = b"".join(frame.to_ndarray().tobytes() for frame in frames)
    completed = subprocess.run(command, input=pixels, capture_output=True)
    if completed.returncode:
        raise ValueError(f"ffmpeg cannot write {clip.codec}: {completed.stderr.decode()[-300:]}")
    return path

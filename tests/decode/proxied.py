"""Folders of proxies for tests: of different originals, two of equal size, in each codec."""

from fractions import Fraction
from pathlib import Path

import numpy as np

from extraction.proxies.proxying import make
from headrace.decode.proxies import Proxies
from headrace.testing.synth import SynthClip, write_clip

CODECS = ("h264", "hevc", "av1", "mjpeg")
CLIPS = {
    "a": SynthClip(num_frames=40, size=(96, 128), gop=17, b_frames=2),
    "b": SynthClip(num_frames=29, size=(96, 128), gop=29, frame_rate=Fraction(30)),
    "c": SynthClip(codec="mpeg4", num_frames=23, size=(80, 64), gop=10),
}


def write_originals(folder: Path) -> list[Path]:
    """Write three videos; a and b have equal sizes."""
    folder.mkdir(parents=True, exist_ok=True)
    return [write_clip(folder / name, clip) for name, clip in CLIPS.items()]


def made_proxies(videos: list[Path], out: Path, store: Path, **given) -> Proxies:
    """Make the proxies of videos and open them."""
    gop = 1 if given.get("codec") == "mjpeg" else 8
    make(videos, out, store, **{"size": "64", "gop": gop, **given})
    return Proxies(out)


def random_jobs(frames: int, count: int = 12) -> list[tuple[int, ...]]:
    """Return wanted frames of random jobs: of one frame, several, or all."""
    draws = np.random.default_rng(7)
    sizes = draws.integers(1, 9, count)
    jobs = [sorted(draws.choice(frames, size, replace=False).tolist()) for size in sizes]
    return [*map(tuple, jobs), tuple(range(frames)), (frames - 1,), (0,)]

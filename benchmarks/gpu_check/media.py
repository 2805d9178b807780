"""Create the media of the check: `python -m benchmarks.gpu_check.media FOLDER`.

Creates a clip, and cameras of 1600x900 in H.264 and H.265 with GOPs of 30. All files are synthetic;
each frame shows its number. --small creates a few small files, for a rehearsal.
"""

import json
import os
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Final

from benchmarks.command_line import call
from benchmarks.gpu_check.step import print_reading
from benchmarks.media import make_missing
from headrace.testing.synth import SynthClip, write_clip
from headrace.testing.synth_containers import Codec

GOP: Final = 30
CODECS: Final[dict[str, Codec]] = {"h264": "h264", "h265": "hevc"}
"""Folder of the cameras → their codec."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Sizes and number of the files."""

    clip: tuple[int, int]
    """(height, width) of the clip."""
    camera: tuple[int, int]
    cameras: int
    clips: int
    frames: int
    """Frames per file."""


FULL: Final = Scale(clip=(1080, 1920), camera=(900, 1600), cameras=6, clips=2, frames=90)
SMALL: Final = Scale(clip=(240, 320), camera=(96, 160), cameras=2, clips=2, frames=40)


def clip_path(folder: Path) -> Path:
    """Return the path of the clip."""
    return folder / "clip.mp4"


def index_path(folder: Path, name: str) -> Path:
    """Return the path of the camera index of a codec; `name` is a key of `CODECS`."""
    return folder / name / "index_frame.json"


def make(folder: Path, scale: Scale) -> int:
    """Write missing files; return the number of all files."""
    clip = partial(SynthClip, num_frames=scale.frames, gop=GOP, b_frames=0)
    wanted = {clip_path(folder): (clip(codec="h264", size=scale.clip),)}
    for (name, codec), number, camera in product(
        CODECS.items(), range(scale.clips), range(scale.cameras)
    ):
        path = folder / name / "videos" / f"clip_{number}" / f"camera_{camera}.mp4"
        wanted[path] = (clip(codec=codec, size=scale.camera),)
    make_missing(folder, wanted, _write, min(len(wanted), os.cpu_count() or 1))
    for name in CODECS:
        counts = {f"clip_{number}": scale.frames for number in range(scale.clips)}
        index_path(folder, name).write_text(json.dumps({"videos": counts}) + "\n", "utf-8")
    return len(wanted)


def _write(path: Path, clip: SynthClip) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"part_{path.name}")
    write_clip(part, clip).replace(path)


def main(folder: Path, *, small: bool = False) -> None:
    """Create the files and print their number.

    Args:
        folder: folder of the files
        small: create a few small files, for a rehearsal
    """
    scale = SMALL if small else FULL
    files = make(folder, scale)
    size = "{}x{}".format(*scale.camera[::-1])
    print_reading(f"{files} files, cameras of {size} with GOPs of {GOP}")


if __name__ == "__main__":
    call(main, __doc__)

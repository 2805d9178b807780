"""Create synchronized cameras from real clips: `python -m benchmarks.camera_media`.

Ten clips of six cameras, H.265, 1600x900, GOPs of 30, no B-frames: the usual encoding of NuScenes
for training. The contents are the shots of `benchmarks.media`. Prints the path of the index file.
"""

import json
import os
import sys
from itertools import chain, islice
from pathlib import Path

from benchmarks.command_line import call
from benchmarks.media import DEFAULT_ROOT, encode, make_missing, pictures, shots

HEIGHT, WIDTH, FRAME_RATE = 900, 1600, 12
CAMERAS = ("back", "back_left", "back_right", "front", "front_left", "front_right")
_X265 = "keyint=30:min-keyint=30:scenecut=0:bframes=0:pools=none:frame-threads=1:log-level=error"


def index_file(root: Path, clips: int, num_frames: int) -> Path:
    """Return the path of the index file of a camera set."""
    return root / f"cameras-{clips}x{num_frames}" / "index_frame.json"


def make(root: Path, clips: int, num_frames: int, processes: int) -> Path:
    """Encode missing files, write the index file and return its path."""
    path = index_file(root, clips, num_frames)
    videos = path.parent / "videos"
    wanted = {
        videos / f"clip_{clip:02}" / f"{camera}.mp4": (clip * len(CAMERAS) + number, num_frames)
        for clip in range(clips)
        for number, camera in enumerate(CAMERAS)
    }
    make_missing(videos, wanted, _encode, processes)
    counts = {f"clip_{clip:02}": num_frames for clip in range(clips)}
    path.write_text(json.dumps({"videos": counts}, indent=1) + "\n", encoding="utf-8")
    return path


def existing_index(root: Path, clips: int, num_frames: int) -> Path:
    """Return the path of an existing index file; SystemExit names the command that creates it."""
    path = index_file(root, clips, num_frames)
    if not path.is_file():
        words = f"--clips {clips} --num-frames {num_frames} --media {root}"
        sys.exit(f"{path} is missing; create it with: python -m benchmarks.camera_media {words}")
    return path


def _encode(path: Path, number: int, num_frames: int) -> None:
    frames = chain.from_iterable(pictures(shot, HEIGHT, WIDTH) for shot in shots(number))
    options = {"preset": "superfast", "crf": "26", "x265-params": _X265}
    encode(path, islice(frames, num_frames), (HEIGHT, WIDTH), FRAME_RATE, options, "libx265")


def main(
    *,
    media: Path = DEFAULT_ROOT,
    clips: int = 10,
    num_frames: int = 120,
    processes: int = os.cpu_count() or 1,
) -> None:
    """Create the camera set and print the path of its index file.

    Args:
        media: folder of the videos
        clips: clips, each with six cameras
        num_frames: frames per camera and clip, at most 300
        processes: parallel encoders
    """
    print(make(media, clips, num_frames, processes))


if __name__ == "__main__":
    call(main, __doc__)

"""Makes a set of synchronized cameras out of real clips: `python -m benchmarks.camera_media`.

Ten clips of six cameras, H.265 of 1600x900 with GOPs of 30 and no B-frames, as NuScenes is when it
is encoded for training; the contents are the shots of `benchmarks.media`. Prints the path of the
index file.
"""

import argparse
import json
import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from fractions import Fraction
from itertools import chain, islice
from pathlib import Path

import av
from av.video.frame import PictureType

from benchmarks.media import DEFAULT_ROOT, pictures, shots

HEIGHT, WIDTH, FRAME_RATE = 900, 1600, 12
CAMERAS = ("back", "back_left", "back_right", "front", "front_left", "front_right")
_X265 = "keyint=30:min-keyint=30:scenecut=0:bframes=0:pools=none:frame-threads=1:log-level=error"


def index_file(root: Path, clips: int, num_frames: int) -> Path:
    """Where the index of such a set lies."""
    return root / f"cameras-{clips}x{num_frames}" / "index_frame.json"


def make(root: Path, clips: int, num_frames: int, processes: int) -> Path:
    """Encode what is missing, write the index file, and return its path."""
    path = index_file(root, clips, num_frames)
    videos = path.parent / "videos"
    wanted = [
        (clip * len(CAMERAS) + place, videos / f"clip_{clip:02}" / f"{camera}.mp4")
        for clip in range(clips)
        for place, camera in enumerate(CAMERAS)
    ]
    missing = [each for each in wanted if not each[1].is_file()]
    print(f"{videos}: {len(missing)} of {len(wanted)} files to make", flush=True)
    with ProcessPoolExecutor(processes) as pool:
        work = [pool.submit(_encode, file, number, num_frames) for number, file in missing]
        for done, future in enumerate(as_completed(work), start=1):
            print(f"{done}/{len(work)} {future.result()}", flush=True)
    counts = {f"clip_{clip:02}": num_frames for clip in range(clips)}
    path.write_text(json.dumps({"videos": counts}, indent=1) + "\n", encoding="utf-8")
    return path


def _encode(path: Path, number: int, num_frames: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    with av.open(str(unfinished), "w", format="mp4") as container:
        options = {"preset": "superfast", "crf": "26", "x265-params": _X265}
        stream = container.add_stream("libx265", rate=FRAME_RATE, options=options)
        stream.height, stream.width, stream.pix_fmt = HEIGHT, WIDTH, "yuv420p"
        frames = chain.from_iterable(pictures(shot, HEIGHT, WIDTH) for shot in shots(number))
        for pts, frame in enumerate(islice(frames, num_frames)):
            frame.pts, frame.time_base = pts, Fraction(1, FRAME_RATE)
            frame.pict_type = PictureType.NONE
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    unfinished.replace(path)
    return path


def main() -> None:
    """Make the set and say where it is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--media", type=Path, default=DEFAULT_ROOT, help="folder of the media")
    parser.add_argument("--clips", type=int, default=10)
    parser.add_argument("--num-frames", type=int, default=120, help="of each camera, at most 300")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="encoders at once")
    options = parser.parse_args()
    print(make(options.media, options.clips, options.num_frames, options.processes))


if __name__ == "__main__":
    main()

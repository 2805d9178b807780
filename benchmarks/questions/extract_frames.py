"""How long does a command take to make pictures of videos, from nothing to all files?"""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.equality import SIDE, Pictures, shrink
from benchmarks.extracting.cases import wanted
from benchmarks.extracting.commands import WAYS, Command
from benchmarks.resources import Meter, versions

_BOX = 8 * SIDE


def answer(
    *,
    way: str,
    paths: list[str],
    frames: str,
    rate: int,
    picture: str,
    size: tuple[int, int],
    workers: int,
    pictures: str | None,
) -> dict[str, Any]:
    """Time a way of `benchmarks.extracting.commands`, or keep thumbnails in the file `pictures`.

    Nothing is known of the videos before; the processor cores are those that this process has.
    """
    with TemporaryDirectory() as folder:
        out, cache = Path(folder) / "out", Path(folder) / "cache"
        if way != "headrace":
            out.mkdir()
        files = [Path(path) for path in paths]
        commands = WAYS[way](files, frames, rate, picture, out)
        meter = Meter()
        run(commands, cache, at_once=workers if way == "ffmpeg_at_once" else 1)
        spent = meter.read()
        found = sorted(out.glob(f"*.{picture}"))
        if pictures:
            asked = [(video, n) for video, f in enumerate(files) for n in wanted(f, frames, rate)]
            if len(found) != len(asked):
                raise ValueError(f"{len(found)} pictures came of {len(asked)} frames")
            np.savez(pictures, requests=np.array(asked), pictures=np.stack([*map(_thumb, found)]))
            return {"versions": versions(("headrace", "av", "pillow"))}
        return {
            **spent,
            "frames": len(found),
            "written_bytes": sum(file.stat().st_size for file in found),
        }


def run(commands: list[Command], cache: Path, *, at_once: int) -> None:
    """Run commands, so many at a time, with an empty folder for what headrace keeps.

    Raises:
        subprocess.CalledProcessError: one failed.
    """
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}

    def one(command: Command) -> None:
        subprocess.run(command, check=True, capture_output=True, env=environment)

    with ThreadPoolExecutor(at_once) as pool:
        for _ in pool.map(one, commands):
            pass


def _thumb(file: Path) -> Pictures:
    with Image.open(file) as picture:
        small = np.asarray(picture.convert("RGB").resize((_BOX, _BOX), Image.Resampling.BOX))
    thumbnail: Pictures = shrink(small[np.newaxis])[0]
    return thumbnail

"""`headrace index --layout cameras`: the index file of clips of several cameras."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from headrace.cli.progress import progress

if TYPE_CHECKING:
    from headrace.sampling.alignment import Sync


def index_cameras(
    paths: list[Path], out: Path | None, sync: "Sync", tolerance_ms: float, *, as_json: bool
) -> None:
    """Write the index of folders, or check an index file; say what is wrong, and exit with 1."""
    from headrace.decode.index_store import IndexStore
    from headrace.decode.open import open_index
    from headrace.errors import ConfigError
    from headrace.training.cameras.camera_set import Alignment, camera_problems
    from headrace.video.camera_layout import CameraLayout

    store, alignment = IndexStore(), Alignment(sync=sync, tolerance_ms=tolerance_ms)
    if len(paths) == 1 and paths[0].is_file():
        layout = CameraLayout.read(paths[0])
        if out is not None:
            raise ConfigError(
                f"{paths[0]} is an index file, which is checked; --out is for folders"
            )
    else:
        layout = CameraLayout.of_folders(paths, lambda file: len(open_index(file, store)))
        if out is not None:
            layout.write(out)
        elif not as_json:
            print(layout.to_json(Path()), end="")
    of = len(layout.clips) + len(layout.left_out)
    with progress(is_quiet=as_json) as show:
        problems = [
            *camera_problems(
                layout, alignment, store=store, on_progress=lambda done: show("clips", done, of)
            )
        ]
    frames = sum(clip.num_frames for clip in layout.clips)
    if as_json:
        clips = [{"folder": str(clip.folder), "frames": clip.num_frames} for clip in layout.clips]
        print(
            json.dumps({"cameras": layout.cameras, "clips": clips, "problems": problems}, indent=1)
        )
    else:
        names = ", ".join(layout.cameras)
        print(
            f"{len(layout.clips)} clips, {frames} moments, {len(layout.cameras)} cameras: {names}",
            file=sys.stderr,
        )
        for problem in problems:
            print(problem, file=sys.stderr)
    if problems:
        raise typer.Exit(1)

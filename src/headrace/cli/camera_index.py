"""`headrace index --layout cameras`: the index file of clips of several cameras."""

import json
import sys
from pathlib import Path

import typer

from headrace.cli.progress import progress
from headrace.cli.text_files import write_text


def index_cameras(paths: list[Path], out: Path | None, *, as_json: bool) -> None:
    """Write the index of folders, or check an index file; say what is wrong, and exit with 1."""
    from headrace.decode.index_store import IndexStore
    from headrace.decode.open import open_index
    from headrace.errors import ConfigError
    from headrace.training.cameras.camera_set import problems_of
    from headrace.video.camera_layout import CameraLayout

    store = IndexStore()
    if len(paths) == 1 and paths[0].is_file():
        layout = CameraLayout.read(paths[0])
        if out is not None:
            raise ConfigError(
                f"{paths[0]} is an index file, which is checked; --out is for folders"
            )
    else:
        layout = CameraLayout.of_folders(paths, lambda file: len(open_index(file, store)))
        text = layout.to_json(out.parent if out else Path())
        if out is not None:
            write_text(out, text)
        elif not as_json:
            print(text, end="")
    problems: list[str] = []
    with progress(is_quiet=as_json) as on_progress:
        for number, clip in enumerate(layout.clips):
            on_progress(clip.name, number, len(layout.clips))
            problems += problems_of(clip, layout.cameras, store)
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

"""`headrace index --layout cameras`: the index file of clips of several cameras."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from headrace.cli.progress import progress

if TYPE_CHECKING:
    from headrace.sampling.moment_windows import Sync
    from headrace.video.camera_layout import CameraLayout


def index_cameras(
    paths: list[Path],
    out: Path | None,
    sync: "Sync",
    tolerance_ms: float,
    picture_rate: str | None,
    cameras: str | None,
    reference: str | None,
    *,
    as_json: bool,
) -> None:
    """Write the index of folders, or check an index file; say what is wrong, and exit with 1."""
    from headrace.decode.index_store import IndexStore
    from headrace.decode.parallel_scan import scan_ahead
    from headrace.errors import ConfigError
    from headrace.loaders.cameras.camera_alignment import LONGEST, Alignment, check_alignment
    from headrace.loaders.cameras.layout_check import camera_problems
    from headrace.video.camera_layout import CameraLayout, camera_names
    from headrace.video.source import Source

    names = camera_names(cameras)
    alignment = Alignment(sync=sync, tolerance_ms=tolerance_ms, reference=reference)
    store = IndexStore()
    is_file = len(paths) == 1 and paths[0].is_file()
    if is_file and out is not None:
        raise ConfigError(f"{paths[0]} is an index file, which is checked; --out is for folders")
    layout = (
        CameraLayout.read(paths[0], names, picture_rate=picture_rate)
        if is_file
        else CameraLayout.of_folders(paths, lambda _: 1, names, picture_rate=picture_rate)
    )
    check_alignment(alignment, layout)
    counted = reference if reference or sync == "index" else layout.cameras[0]
    with progress(is_quiet=as_json) as show:
        open_one = scan_ahead(layout.sources, store, raises=False, holds=False, on_scanned=show)
    if not is_file:
        layout = CameraLayout.of_folders(
            paths,
            lambda file: len(open_one(Source(file))),
            names,
            picture_rate=picture_rate,
            counted=None if counted == LONGEST else counted,
        )
        if out is not None:
            layout.write(out)
        elif not as_json:
            print(layout.to_json(Path()), end="")
    of = len(layout.clips) + len(layout.left_out)
    with progress(is_quiet=as_json) as show:
        problems = [
            *camera_problems(
                layout,
                alignment,
                index_store=store,
                on_progress=lambda done: show("clips", done, of),
            )
        ]
    _tell(layout, problems, as_json=as_json)
    if problems:
        raise typer.Exit(1)


def _tell(layout: "CameraLayout", problems: list[str], *, as_json: bool) -> None:
    frames = sum(clip.num_frames for clip in layout.clips)
    if as_json:
        clips = [{"folder": str(clip.folder), "frames": clip.num_frames} for clip in layout.clips]
        print(
            json.dumps({"cameras": layout.cameras, "clips": clips, "problems": problems}, indent=1)
        )
    else:
        those = ", ".join(layout.cameras)
        print(
            f"{len(layout.clips)} clips, {frames} moments, {len(layout.cameras)} cameras: {those}",
            file=sys.stderr,
        )
        for problem in problems:
            print(problem, file=sys.stderr)

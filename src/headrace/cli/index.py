"""`headrace index`: table of videos with their properties and problems."""

import json as json_format
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headrace.atomic_file import write_whole
from headrace.cli.config_flags import JsonFlag, RateFlag, StreamFlag
from headrace.cli.progress import progress
from headrace.cli.sources import read_text, sources_of
from headrace.config_fields import CAMERAS
from headrace.errors import ConfigError, MediaError
from headrace.profiling.number_format import counted, shortened
from headrace.redaction import masked

if TYPE_CHECKING:
    from headrace.decode.index_store import IndexStore
    from headrace.sampling.moments import Sync
    from headrace.video.camera_layout import CameraLayout
    from headrace.video.source import Source
    from headrace.video.stream_index import StreamIndex

_ONLY_WITH = {
    "videos": ("verify", "export_mappings", "check_mappings", "stream"),
    "cameras": ("out", "sync", "tolerance_ms", "cameras", "reference"),
}
"""Layout → options that need it."""
_VERIFY = "Decode all frames, to find damage inside packets and to verify later reads."
_SYNC = "Match frames of different cameras by index, or by time, where rates may differ."
_TOLERANCE = "Max time difference from the reference camera's frame, in milliseconds."
_REFERENCE = (
    "Camera to align the others with, whose frames are counted, or longest. By default the first "
    "camera; by index, the frames of the longest are counted."
)
_LAYOUT = (
    "cameras: write and check the index of <clip>/<camera>.mp4 files, or, with --framerate, of "
    "<clip>/<camera>/ image folders."
)
_COLUMNS = ("file", "codec", "size", "rate", "frames", "GOP", "B-frames", "VFR", "rotation")
_PATH_WIDTH = 40
"""Max characters of a path on a terminal; a longer path is shortened to its end."""


def index(
    context: typer.Context,
    paths: Annotated[list[Path], typer.Argument(help="Video files, or folders of them.")],
    verify: Annotated[bool, typer.Option("--verify", help=_VERIFY)] = False,
    export_mappings: Annotated[
        Path | None,
        typer.Option(help="Write the torchcodec custom_frame_mappings of one video to this file."),
    ] = None,
    check_mappings: Annotated[
        Path | None,
        typer.Option(help="Compare the frame mappings in this file with the frames of one video."),
    ] = None,
    layout: Annotated[Literal["videos", "cameras"], typer.Option(help=_LAYOUT)] = "videos",
    out: Annotated[Path | None, typer.Option(help="File to write the camera index to.")] = None,
    sync: Annotated[Literal["index", "nearest", "previous"], typer.Option(help=_SYNC)] = "index",
    tolerance_ms: Annotated[float, typer.Option(help=_TOLERANCE)] = 50.0,
    cameras: Annotated[str | None, typer.Option(help=CAMERAS)] = None,
    reference: Annotated[str | None, typer.Option(help=_REFERENCE)] = None,
    stream: StreamFlag = None,
    rate: RateFlag = None,
    json: JsonFlag = False,
) -> None:
    """Index videos: a table of their properties and problems.

    The exit code is 1 for a file without an index, and 3 if other problems are listed.
    """
    _check_layout_options(context, layout)
    if layout == "cameras":
        _index_cameras(paths, out, sync, tolerance_ms, rate, cameras, reference, as_json=json)
        return
    from headrace.decode.index_store import IndexStore
    from headrace.decode.torchcodec_decoder import check_frame_mappings, to_frame_mappings
    from headrace.errors import ConfigError, MediaError
    from headrace.profiling.session import NOT_ALL

    files = sources_of(paths, rate=rate, stream=stream)
    if (export_mappings or check_mappings) and len(files) != 1:
        raise ConfigError(f"frame mappings describe one video, got {len(files)}; give one")
    store, is_bad, rows = IndexStore(), False, list[dict[str, Any]]()
    for file, result in _scan(files, store, verify=verify, is_quiet=json):
        if isinstance(result, MediaError):
            rows.append({"file": masked(str(file)), "problems": [str(result)]})
            is_bad = True
            continue
        rows.append(_facts(result))
        if export_mappings:
            write_whole(export_mappings, to_frame_mappings(result))
        if check_mappings:
            wrong = check_frame_mappings(result, read_text(check_mappings))
            rows[-1]["problems"] += wrong
            is_bad = is_bad or bool(wrong)
    print(json_format.dumps(rows, indent=1) if json else "\n".join(_table(rows)))
    has_problems = any(row["problems"] for row in rows)
    if verify and not (json or has_problems):
        print(f"no damage found in {counted(len(rows), 'file')}")
    if store.counters.damaged:
        print(f"{store.counters.damaged} damaged index entries rebuilt", file=sys.stderr)
    if has_problems:
        raise typer.Exit(1 if is_bad else NOT_ALL)


def _check_layout_options(context: typer.Context, layout: str) -> None:
    """Raise ConfigError if an option of the other layout is given."""

    [(other, names)] = [item for item in _ONLY_WITH.items() if item[0] != layout]
    given = [
        f"--{name.replace('_', '-')}"
        for name in names
        if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    ]
    if given:
        raise ConfigError(
            f"--layout {layout} does not support {', '.join(given)}, only --layout {other} does"
        )


def _scan(
    files: "list[Source]", store: "IndexStore", *, verify: bool, is_quiet: bool
) -> "Iterator[tuple[Source, StreamIndex | MediaError]]":
    """Yield each file's index, or its error; with `verify`, decode all frames."""
    from headrace.decode.parallel_scan import scan_ahead

    with progress(is_quiet=is_quiet) as on_progress:
        open_one = scan_ahead(
            files, store, raises=False, verify=verify, holds=False, on_scanned=on_progress
        )
    for file in files:
        result: StreamIndex | MediaError
        try:
            result = open_one(file)
        except MediaError as error:
            result = error
        yield file, result


def _facts(index: "StreamIndex") -> dict[str, Any]:
    lengths, info = index.gop_lengths, index.info
    return {
        "file": str(index.source),
        "codec": info.codec,
        "profile": info.profile,
        "pixel_format": info.pixel_format,
        "height": info.upright_size[0],
        "width": info.upright_size[1],
        "frame_rate": float(index.frame_rate),
        "frames": len(index),
        "packets": index.packets,
        "counted_by": index.counted_by,
        "duration_seconds": index.duration_seconds,
        "gop_mean": float(lengths.mean()),
        "gop_max": int(lengths.max()),
        "has_b_frames": info.reorders,
        "has_open_gops": index.has_open_gops,
        "is_vfr": index.is_vfr,
        "rotation": info.orientation.rotation_degrees,
        "is_mirrored": info.orientation.is_mirrored,
        "is_seekable": index.is_seekable,
        "droppable_frames": int(index.is_disposable.sum()),
        "problems": list(index.problems),
    }


def _table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a line per video, followed by its problems."""
    lines = [_COLUMNS, *map(_row, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for values, notes in zip(lines, [[], *map(_notes, rows)], strict=True):
        yield "  ".join(map(str.ljust, values, widths)).rstrip()
        yield from (f"  {note}" for note in notes)


def _notes(row: dict[str, Any]) -> list[str]:
    """Return the problems of a video, and why it has fewer frames than packets."""
    notes = [f"! {problem}" for problem in row["problems"]]
    if row.get("counted_by") == "packets" and row["frames"] < row["packets"]:
        hidden = row["packets"] - row["frames"]
        notes.append(f"{counted(hidden, 'packet')} hidden by an edit list or the codec: no damage")
    return notes


def _path(path: str) -> str:
    """Return a path, shortened on a terminal to keep the columns in line."""

    return shortened(path, _PATH_WIDTH) if sys.stdout.isatty() else path


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    if "codec" not in row:
        return (_path(row["file"]), *["-"] * (len(_COLUMNS) - 1))
    rotation = f"{row['rotation']}" + (" mirrored" if row["is_mirrored"] else "")
    return (
        _path(row["file"]),
        row["codec"],
        f"{row['width']}x{row['height']}",
        f"{row['frame_rate']:.3f}".rstrip("0").rstrip("."),
        f"{row['frames']}"
        + ("" if row["frames"] == row["packets"] else f" of {row['packets']} packets"),
        f"{row['gop_mean']:.0f} (max {row['gop_max']})" + (" open" if row["has_open_gops"] else ""),
        "yes" if row["has_b_frames"] else "no",
        "yes" if row["is_vfr"] else "no",
        rotation,
    )


def _index_cameras(
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
    """Write the index of folders, or check an index file; exit with code 1 at problems."""
    from headrace.decode.index_store import IndexStore
    from headrace.decode.parallel_scan import scan_ahead
    from headrace.loaders.cameras.camera_alignment import LONGEST, Alignment, check_alignment
    from headrace.loaders.cameras.camera_set import camera_problems
    from headrace.video.camera_layout import CameraLayout, camera_names
    from headrace.video.source import Source

    names = camera_names(cameras)
    alignment = Alignment(sync=sync, tolerance_ms=tolerance_ms, reference=reference)
    store = IndexStore()
    is_file = len(paths) == 1 and paths[0].is_file()
    if is_file and out is not None:
        raise ConfigError(f"--out needs folders of clips, got the index file {paths[0]}")
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
    num_clips = len(layout.clips) + len(layout.left_out)
    with progress(is_quiet=as_json) as show:
        problems = [
            *camera_problems(
                layout,
                alignment,
                index_store=store,
                on_progress=lambda done: show("clips", done, num_clips),
            )
        ]
    _conclude_cameras(layout, problems, as_json=as_json)
    if problems:
        raise typer.Exit(1)


def _conclude_cameras(layout: "CameraLayout", problems: list[str], *, as_json: bool) -> None:
    if as_json:
        clips = [{"folder": str(clip.folder), "frames": clip.num_frames} for clip in layout.clips]
        facts = {"cameras": layout.cameras, "clips": clips, "problems": problems}
        print(json_format.dumps(facts, indent=1))
    else:
        print(layout, *problems, sep="\n", file=sys.stderr)

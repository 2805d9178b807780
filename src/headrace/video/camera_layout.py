"""CameraLayout: clips of several cameras, `<video_dir>/<clip>/<camera>.mp4`, and their index."""

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from headrace.errors import ConfigError, MediaError

_LARGEST_BYTES = 1 << 28
_LONGEST_NAME = 255
_SUFFIX = ".mp4"
_FILES = f"[!.]*{_SUFFIX}"
"""Not those that macOS hides beside them."""

_CONTENT = TypeAdapter(dict[str, dict[str, Annotated[int, Field(ge=1, le=1 << 31)]]])


@dataclass(frozen=True, kw_only=True)
class CameraClip:
    """One clip: a folder with a file for each camera."""

    video_dir: Path
    name: str
    num_frames: int
    """As the index file says; 0 where no camera can be read."""

    @property
    def folder(self) -> Path:
        """Where its cameras lie."""
        return self.video_dir / self.name

    def file(self, camera: str) -> Path:
        """Return the file of a camera, whether or not it is there."""
        return self.folder / f"{camera}{_SUFFIX}"


@dataclass(frozen=True, kw_only=True)
class CameraLayout:
    """Clips of the same cameras."""

    clips: tuple[CameraClip, ...]
    """In the order of the index file."""
    cameras: tuple[str, ...]
    """Their names: of all files there are, in alphabetical order; or as they were asked for."""
    left_out: tuple[CameraClip, ...] = ()
    """Folders that `of_folders` found and no camera of which can be read."""

    @classmethod
    def read(
        cls, index_file: str | os.PathLike[str], cameras: Iterable[str] | None = None
    ) -> "CameraLayout":
        """Read `{video_dir: {clip: frame_count}}`; a relative video_dir starts at the index file.

        Args:
            index_file: A JSON file.
            cameras: Names of those to read, in this order; None means all there are.

        Raises:
            ConfigError: it cannot be read, does not say that, or no camera is there.
        """
        path = Path(index_file)
        clips = tuple(
            CameraClip(video_dir=path.parent / folder, name=name, num_frames=count)
            for folder, counts in _content(path).items()
            for name, count in counts.items()
        )
        _check_clips(clips, path)
        if not clips:
            raise ConfigError(f"{path} lists no clip; `headrace index --layout cameras` writes one")
        return cls(clips=clips, cameras=_cameras(clips, cameras))

    @classmethod
    def of_folders(
        cls,
        video_dirs: Iterable[str | os.PathLike[str]],
        count_frames: Callable[[Path], int],
        cameras: Iterable[str] | None = None,
    ) -> "CameraLayout":
        """Look for clips in folders; a clip has as many frames as its first camera that has any.

        Cameras that are missing or damaged do not end it, see `headrace.camera_problems`; clips
        of which none can be read are in `left_out`.

        Args:
            video_dirs: Folders whose sub-folders are clips.
            count_frames: Returns how many frames a file has, such as
                `lambda file: len(open_index(file))`; may raise MediaError.
            cameras: As for `read`.

        Raises:
            ConfigError: there is no such folder, or no clip in it, or none that can be read.
        """
        names = None if cameras is None else tuple(cameras)
        folders = [Path(each) for each in video_dirs]
        unread = tuple(
            CameraClip(video_dir=folder, name=clip, num_frames=0)
            for folder in folders
            for clip in _sub_folders(folder)
        )
        if not unread:
            raise ConfigError(
                f"no clip was found in {', '.join(map(str, folders)) or 'no folder'}: a clip is a "
                f"folder of <camera>{_SUFFIX} files inside the one that is given"
            )
        there = _cameras(unread, names)
        errors: list[MediaError] = []
        counted = [_counted(clip, there, count_frames, errors) for clip in unread]
        clips = tuple(clip for clip in counted if clip.num_frames)
        if not clips:
            said = "\n".join(map(str, errors))
            raise ConfigError(f"no camera of {len(unread)} clips can be read:\n{said}")
        left_out = tuple(clip for clip in counted if not clip.num_frames)
        return cls(clips=clips, cameras=there, left_out=left_out)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the index file, for `read`; each video_dir relative to it.

        Raises:
            ConfigError: it cannot be written.
        """
        try:
            Path(path).write_text(self.to_json(Path(path).parent), encoding="utf-8")
        except OSError as error:
            raise ConfigError(
                f"cannot write {path}: {error.strerror}; give another path"
            ) from error

    def to_json(self, folder: Path) -> str:
        """Return the text of an index file that will lie in `folder`."""
        content: dict[str, dict[str, int]] = {}
        for clip in self.clips:
            # Whoever reads goes up from where the folder really is.
            there = clip.video_dir.parent.resolve() / clip.video_dir.name
            video_dir = os.path.relpath(there, folder.resolve())
            content.setdefault(PurePosixPath(video_dir).as_posix(), {})[clip.name] = clip.num_frames
        return json.dumps(content, indent=1) + "\n"


def _counted(
    clip: CameraClip,
    cameras: tuple[str, ...],
    count_frames: Callable[[Path], int],
    errors: list[MediaError],
) -> CameraClip:
    """Return `clip` with the frames of its first camera that can be read; why others cannot."""
    for camera in cameras:
        try:
            return replace(clip, num_frames=count_frames(clip.file(camera)))
        except MediaError as error:
            errors.append(error)
    return clip


def _content(path: Path) -> dict[str, dict[str, int]]:
    wants = '{"video_dir": {"clip": frame_count}}'
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise ConfigError(f"{path} is larger than {_LARGEST_BYTES >> 20} MiB; is it an index?")
        text = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}; give a camera index") from error
    try:
        return _CONTENT.validate_python(json.loads(text, object_pairs_hook=_once), strict=True)
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path} is no camera index, which reads like {wants}: {_reason(error)}"
        ) from error


def _reason(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return f"JSON: {error}"
    first = error.errors()[0]
    where = " -> ".join(map(str, first["loc"]))
    return f"{where or 'JSON'}: {first['msg']}"


def _check_clips(clips: tuple[CameraClip, ...], path: Path) -> None:
    seen: set[str] = set()
    for clip in clips:
        parts = PurePosixPath(clip.name).parts
        is_long = max(map(len, map(os.fsencode, parts)), default=0) > _LONGEST_NAME
        if not parts or ".." in parts or PurePosixPath(clip.name).is_absolute() or is_long:
            raise ConfigError(
                f"{path} names a clip {clip.name!r}, which is no folder inside its video_dir"
            )
        folder = os.path.normpath(clip.folder.absolute())
        if folder in seen:
            raise ConfigError(f"{path} lists {folder} twice; leave out one of them")
        seen.add(folder)


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Refuse a name that is there twice, of which JSON takes the last: ConfigError."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"{twice!r} is there twice; bring together what belongs to it")
    return found


def _cameras(clips: tuple[CameraClip, ...], asked: Iterable[str] | None) -> tuple[str, ...]:
    """Return the cameras asked for, or all that any clip has, by name."""
    found = {file.stem for clip in clips for file in clip.folder.glob(_FILES)}
    if not found:
        raise ConfigError(
            f"no camera was found: there is no *{_SUFFIX} in {clips[0].folder}, nor in the folder "
            "of any other clip"
        )
    if asked is None:
        return tuple(sorted(found))
    names = tuple(asked)
    if isinstance(asked, str) or not names or len(set(names)) != len(names):
        raise ConfigError(f"cameras must be a list of different names, not empty; got {asked!r}")
    unknown = [name for name in names if name not in found]
    if unknown:
        raise ConfigError(
            f"no clip has a camera {', '.join(unknown)}; there is {', '.join(sorted(found))}"
        )
    return names


def _sub_folders(video_dir: Path) -> list[str]:
    try:
        return sorted(
            each.name for each in video_dir.iterdir() if each.is_dir() and any(each.glob(_FILES))
        )
    except OSError as error:
        raise ConfigError(f"cannot read folder {video_dir}: {error.strerror}") from error

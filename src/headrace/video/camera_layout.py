"""CameraLayout: clips of several cameras, `<video_dir>/<clip>/<camera>.mp4`, and their index.

Or `<video_dir>/<clip>/<camera>/`, folders of pictures.
"""

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from headrace.errors import ConfigError, MediaError
from headrace.video.image_sequence import ImageSequence
from headrace.video.source import Source

_LARGEST_BYTES = 1 << 28
_LONGEST_NAME = 255
_SUFFIX = ".mp4"
_FILES = f"[!.]*{_SUFFIX}"
"""Not those that macOS hides beside them."""
_FOLDERS = "[!.]*"

Rate = Fraction | float | str
"""Pictures per second of media time: 10, 12.5, "30000/1001"."""

_CONTENT = TypeAdapter(dict[str, dict[str, Annotated[int, Field(ge=1, le=1 << 31)]]])


@dataclass(frozen=True, kw_only=True)
class CameraClip:
    """One clip: a folder with a file for each camera, or a folder of its pictures."""

    video_dir: Path
    name: str
    num_frames: int
    """As the index file says; 0 where no camera can be read."""
    picture_rate: Rate | None = None
    """Of cameras that are folders of pictures; None where they are files."""

    @property
    def folder(self) -> Path:
        """Where its cameras lie."""
        return self.video_dir / self.name

    def file(self, camera: str) -> Path:
        """Return the file of a camera, or its folder, whether or not it is there."""
        return self.folder / (f"{camera}{_SUFFIX}" if self.picture_rate is None else camera)

    def source(self, camera: str) -> Source:
        """Return where the frames of a camera come from."""
        file = self.file(camera)
        if self.picture_rate is None:
            return Source(file)
        return ImageSequence(file, rate=self.picture_rate)

    def found(self) -> set[str]:
        """Return the names of the cameras that are there."""
        if self.picture_rate is None:
            return {file.stem for file in self.folder.glob(_FILES)}
        return {each.name for each in self.folder.glob(_FOLDERS) if each.is_dir()}


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
        cls,
        index_file: str | os.PathLike[str],
        cameras: Iterable[str] | None = None,
        *,
        picture_rate: Rate | None = None,
    ) -> "CameraLayout":
        """Read `{video_dir: {clip: frame_count}}`; a relative video_dir starts at the index file.

        Args:
            index_file: A JSON file.
            cameras: Names of those to read, in this order; None means all there are.
            picture_rate: Pictures per second, where each camera is a folder of them:
                `<clip>/<camera>/00000.jpg`. None: each is a video file.

        Raises:
            ConfigError: it cannot be read, does not say that, or no camera is there; or the rate
                is none.
        """
        path = Path(index_file)
        _check_rate(picture_rate)
        clips = tuple(
            CameraClip(
                video_dir=path.parent / folder,
                name=name,
                num_frames=count,
                picture_rate=picture_rate,
            )
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
        *,
        picture_rate: Rate | None = None,
    ) -> "CameraLayout":
        """Look for clips in folders; a clip has as many frames as its first camera that has any.

        Cameras that are missing or damaged do not end it, see `headrace.camera_problems`; clips
        of which none can be read are in `left_out`.

        Args:
            video_dirs: Folders whose sub-folders are clips.
            count_frames: Returns how many frames a file has, such as
                `lambda file: len(open_index(file))`; may raise MediaError. Pictures are counted
                without it.
            cameras: As for `read`.
            picture_rate: As for `read`.

        Raises:
            ConfigError: there is no such folder, or no clip in it, or none that can be read.
        """
        names = None if cameras is None else tuple(cameras)
        folders = [Path(each) for each in video_dirs]
        _check_rate(picture_rate)
        unread = tuple(
            clip for folder in folders for clip in _clips_in(folder, picture_rate=picture_rate)
        )
        if not unread:
            raise ConfigError(
                f"no clip was found in {', '.join(map(str, folders)) or 'no folder'}: a clip is a "
                f"folder of {_kind(picture_rate)} inside the one that is given"
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
            source = clip.source(camera)
            if isinstance(source, ImageSequence):
                return replace(clip, num_frames=len(source.pictures))
            return replace(clip, num_frames=count_frames(source.path))
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
    found = set().union(*(clip.found() for clip in clips))
    if not found:
        raise ConfigError(
            f"no camera was found: there are no {_kind(clips[0].picture_rate)} in "
            f"{clips[0].folder}, nor in the folder of any other clip"
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


def _clips_in(video_dir: Path, *, picture_rate: Rate | None) -> list[CameraClip]:
    """Return the sub-folders that hold a camera, by name."""
    try:
        clips = [
            CameraClip(video_dir=video_dir, name=each.name, num_frames=0, picture_rate=picture_rate)
            for each in sorted(video_dir.iterdir())
            if each.is_dir()
        ]
        return [clip for clip in clips if clip.found()]
    except OSError as error:
        raise ConfigError(f"cannot read folder {video_dir}: {error.strerror}") from error


def _check_rate(picture_rate: Rate | None) -> None:
    if picture_rate is not None:
        ImageSequence(Path("camera"), rate=picture_rate)  # refuses what is no rate


def _kind(picture_rate: Rate | None) -> str:
    return f"<camera>{_SUFFIX} files" if picture_rate is None else "<camera> folders of pictures"

"""Camera layout: clips of several cameras, `<video_dir>/<clip>/<camera>.mp4`, and their index file.

Other video suffixes are accepted; so are folders of images, `<video_dir>/<clip>/<camera>/`.
"""

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from headrace.atomic_file import write_whole
from headrace.errors import ConfigError, MediaError, file_errors
from headrace.video.find_videos import is_video_name
from headrace.video.image_sequence import ImageSequence, Rate, source_at
from headrace.video.source import Source

_MAX_BYTES = 1 << 28
_MAX_NAME_LENGTH = 255
_MAX_SHOWN_LENGTH = 40
_SUFFIX = ".mp4"
"""Suffix assumed for a missing camera."""
_NEEDS_RATE = "; folders of images are read with a rate (picture_rate=, --framerate)"
_SHOWN = "[!.]*"
"""Glob without hidden files, such as those of macOS."""

_MAX_FRAMES = 1 << 31


@dataclass(frozen=True, kw_only=True)
class CameraClip:
    """A clip: a folder with a file, or a folder of images, per camera."""

    video_dir: Path
    name: str
    num_frames: int
    """Frames per camera, by the index file; 0 if no camera can be read."""
    picture_rate: Rate | None = None
    """Images per second of cameras that are folders of images; None for files."""

    @property
    def folder(self) -> Path:
        """Folder of its cameras."""
        return self.video_dir / self.name

    def file(self, camera: str) -> Path:
        """Return the file or folder of a camera; `<camera>.mp4` if it is missing."""
        if self.picture_rate is not None:
            return self.folder / camera
        default = self.folder / f"{camera}{_SUFFIX}"
        if default.exists():
            return default
        return next((file for file in self._files() if file.stem == camera), default)

    def source(self, camera: str) -> Source:
        """Return the source of a camera's frames."""
        return source_at(self.file(camera), rate=self.picture_rate)

    def existing_cameras(self) -> set[str]:
        """Return the names of the cameras that exist."""
        if self.picture_rate is None:
            return {file.stem for file in self._files()}
        return {entry.name for entry in self.folder.glob(_SHOWN) if entry.is_dir()}

    def check_files(self, cameras: Iterable[str]) -> None:
        """Raise ConfigError for two files of one camera, such as a.mp4 and a.mkv."""
        if self.picture_rate is not None:
            return
        files = sorted(self._files())
        for camera in cameras:
            matches = [file for file in files if file.stem == camera]
            if len(matches) > 1:
                paths = " and ".join(map(str, matches))
                raise ConfigError(f"{paths} are both of camera {camera}; move one of them away")

    def _files(self) -> list[Path]:
        return [file for file in self.folder.glob(_SHOWN) if is_video_name(file.name)]


@dataclass(frozen=True, kw_only=True)
class CameraLayout:
    """Clips of the same cameras."""

    clips: tuple[CameraClip, ...]
    """Clips in the order of the index file."""
    cameras: tuple[str, ...]
    """Camera names: the requested ones, or all existing ones in alphabetical order."""
    left_out: tuple[CameraClip, ...] = ()
    """Clips of `of_folders` without a readable camera."""

    def __str__(self) -> str:
        """Return the number of clips and moments, and the cameras."""
        moments = sum(clip.num_frames for clip in self.clips)
        return f"clips: {len(self.clips)}, moments: {moments}, cameras: {', '.join(self.cameras)}"

    @property
    def sources(self) -> tuple[Source, ...]:
        """Every camera of every clip, existing or not, clip by clip."""
        clips = (*self.clips, *self.left_out)
        return tuple(clip.source(camera) for clip in clips for camera in self.cameras)

    @classmethod
    def read(
        cls,
        index_file: str | os.PathLike[str],
        cameras: Iterable[str] | None = None,
        *,
        picture_rate: Rate | None = None,
    ) -> "CameraLayout":
        """Read an index file, `{video_dir: {clip: frame_count}}`.

        Args:
            index_file: A JSON file; a relative video_dir starts at its folder.
            cameras: Names of the cameras to read, in this order; None means all.
            picture_rate: Images per second, if each camera is a folder of images:
                `<clip>/<camera>/00000.jpg`. None: each camera is a video file.

        Raises:
            ConfigError: the file cannot be read or has another structure, no camera exists, or the
                rate is invalid.
        """
        path = Path(index_file)
        source_at("camera", rate=picture_rate)  # raises for an invalid rate
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
        counted: str | None = None,
    ) -> "CameraLayout":
        """Find clips in folders; a clip has as many frames as its longest camera.

        Missing and damaged cameras are skipped: see `headrace.camera_problems`. Clips without a
        readable camera are in `left_out`.

        Args:
            video_dirs: Folders whose sub-folders are clips.
            count_frames: Returns the number of frames of a file, such as
                `lambda file: len(open_index(file))`; may raise MediaError. Images are counted
                without it.
            cameras: As for `read`.
            picture_rate: As for `read`.
            counted: Camera whose frames are counted, if it can be read.

        Raises:
            ConfigError: a folder is missing or has no clip, no clip can be read, or there is no
                camera `counted`.
        """
        names = None if cameras is None else tuple(cameras)
        folders = [Path(entry) for entry in video_dirs]
        source_at("camera", rate=picture_rate)  # raises for an invalid rate
        unread = tuple(
            clip for folder in folders for clip in _clips_in(folder, picture_rate=picture_rate)
        )
        if not unread:
            raise ConfigError(
                f"no clip was found in {', '.join(map(str, folders)) or 'no folder'}; give a "
                f"folder of clips, which are folders of {_kind(picture_rate)}"
                + (_NEEDS_RATE if picture_rate is None else "")
            )
        existing = _cameras(unread, names)
        if counted is not None and counted not in existing:
            raise ConfigError(
                f"cannot count frames of camera {counted}; cameras are {', '.join(existing)}"
            )
        errors: list[MediaError] = []
        counted_clips = [
            _with_frame_count(clip, existing, counted, count_frames, errors) for clip in unread
        ]
        clips = tuple(clip for clip in counted_clips if clip.num_frames)
        if not clips:
            messages = "\n".join(map(str, errors))
            raise ConfigError(f"no camera of {len(unread)} clips can be read:\n{messages}")
        left_out = tuple(clip for clip in counted_clips if not clip.num_frames)
        return cls(clips=clips, cameras=existing, left_out=left_out)

    def check_clips(self, what: str, names: Iterable[object] | None) -> None:
        """Raise ConfigError for names of unknown clips, for which `what` is listed."""
        unknown = set(names or ()).difference(clip.name for clip in self.clips)
        if unknown:
            count = "an unknown clip" if len(unknown) == 1 else f"{len(unknown)} unknown clips"
            raise ConfigError(
                f"{what} are listed for {count}, such as {min(unknown, key=repr)!r}; "
                f"clips are named like {self.clips[0].name!r}"
            )

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the index file for `read`, atomically; each video_dir is relative to the file.

        Raises:
            ConfigError: it cannot be written.
        """
        write_whole(Path(path), self.to_json(Path(path).parent))

    def to_json(self, folder: Path) -> str:
        """Return the text of an index file for `folder`."""
        content: dict[str, dict[str, int]] = {}
        for clip in self.clips:
            # Relative paths start at the folder's real location.
            real_dir = clip.video_dir.parent.resolve() / clip.video_dir.name
            video_dir = os.path.relpath(real_dir, folder.resolve())
            content.setdefault(PurePosixPath(video_dir).as_posix(), {})[clip.name] = clip.num_frames
        return json.dumps(content, indent=1) + "\n"


def camera_names(text: str | None) -> list[str] | None:
    """Return the names in a text such as "front, left"; None, for all cameras, stays None."""
    return None if text is None else [*filter(None, map(str.strip, text.split(",")))]


def _with_frame_count(
    clip: CameraClip,
    cameras: tuple[str, ...],
    counted: str | None,
    count_frames: Callable[[Path], int],
    errors: list[MediaError],
) -> CameraClip:
    """Return `clip` with the frame count of camera `counted`, or of the longest camera."""
    max_frames = 0
    for camera in cameras if counted is None else (counted, *cameras):
        try:
            source = clip.source(camera)
            count = (
                len(source.pictures)
                if isinstance(source, ImageSequence)
                else count_frames(source.path)
            )
        except MediaError as error:
            errors.append(error)
            continue
        if camera == counted:
            return replace(clip, num_frames=count)
        max_frames = max(max_frames, count)
    return replace(clip, num_frames=max_frames)


def _content(path: Path) -> dict[str, dict[str, int]]:
    fix = "give a camera index, as `headrace index --layout cameras FOLDER --out FILE` writes it"
    with file_errors(f"cannot read {path}", fix):
        if path.stat().st_size > _MAX_BYTES:
            raise ConfigError(f"{path} is larger than {_MAX_BYTES >> 20} MiB; is it an index?")
        text = path.read_bytes()
    try:
        content: dict[str, dict[str, int]] = json.loads(text, object_pairs_hook=_unique_keys)
        _check_content(content)
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f'{path} is not a camera index like {{"video_dir": {{"clip": frame_count}}}}: {error}'
        ) from error
    return content


def _check_content(content: Any) -> None:
    """Raise ValueError for content other than `{video_dir: {clip: frame_count}}`."""
    if not isinstance(content, dict):
        raise ValueError(f"it is {_shown(content)}, not an object")
    for folder, counts in content.items():
        if not isinstance(counts, dict):
            raise ValueError(f"{folder} is {_shown(counts)}, not an object")
        for name, count in counts.items():
            if type(count) is not int or not 1 <= count <= _MAX_FRAMES:
                raise ValueError(
                    f"{folder} -> {name} has {_shown(count)} frames; "
                    f"it must be an integer from 1 to {_MAX_FRAMES}"
                )


def _shown(value: object) -> str:
    """Return the start of a value as text; the value may have megabytes."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_SHOWN_LENGTH else f"{text[:_MAX_SHOWN_LENGTH]}..."


def _check_clips(clips: tuple[CameraClip, ...], path: Path) -> None:
    seen: set[str] = set()
    for clip in clips:
        parts = PurePosixPath(clip.name).parts
        is_long = max(map(len, map(os.fsencode, parts)), default=0) > _MAX_NAME_LENGTH
        if not parts or ".." in parts or PurePosixPath(clip.name).is_absolute() or is_long:
            raise ConfigError(
                f"{path} names a clip {clip.name!r}, which is not a folder inside its video_dir"
            )
        folder = os.path.normpath(clip.folder.absolute())
        if folder in seen:
            raise ConfigError(f"{path} lists {folder} twice; leave out one of them")
        seen.add(folder)


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Raise ConfigError for a duplicate key, of which JSON would keep the last value."""
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        duplicate = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"the key {duplicate!r} is there twice; merge the two")
    return content


def _cameras(clips: tuple[CameraClip, ...], requested: Iterable[str] | None) -> tuple[str, ...]:
    """Return the requested cameras, or all cameras of any clip, sorted."""
    existing = set().union(*(clip.existing_cameras() for clip in clips))
    if not existing:
        has_folders = any(entry.is_dir() for entry in clips[0].folder.glob(_SHOWN))
        needs_rate = clips[0].picture_rate is None and has_folders
        raise ConfigError(
            f"no camera was found: there are no {_kind(clips[0].picture_rate)} in "
            f"{clips[0].folder}, nor in the folder of any other clip"
            + (_NEEDS_RATE if needs_rate else "")
        )
    names = tuple(sorted(existing)) if requested is None else _checked_names(requested, existing)
    for clip in clips:
        clip.check_files(names)
    return names


def _checked_names(requested: Iterable[str], existing: set[str]) -> tuple[str, ...]:
    """Return the requested names; raise ConfigError for a camera that no clip has."""
    names = tuple(requested)
    if isinstance(requested, str) or not names or len(set(names)) != len(names):
        raise ConfigError(
            f"cameras must be a list of different names, not empty; got {requested!r}"
        )
    unknown = [name for name in names if name not in existing]
    if unknown:
        raise ConfigError(
            f"no clip has a camera {', '.join(unknown)}; cameras are {', '.join(sorted(existing))}"
        )
    return names


def _clips_in(video_dir: Path, *, picture_rate: Rate | None) -> list[CameraClip]:
    """Return the sub-folders with a camera, sorted by name."""
    with file_errors(f"cannot read folder {video_dir}", "give one whose sub-folders are clips"):
        clips = [
            CameraClip(
                video_dir=video_dir, name=entry.name, num_frames=0, picture_rate=picture_rate
            )
            for entry in sorted(video_dir.iterdir())
            if entry.is_dir()
        ]
        return [clip for clip in clips if clip.existing_cameras()]


def _kind(picture_rate: Rate | None) -> str:
    return f"<camera>{_SUFFIX} files" if picture_rate is None else "<camera> folders of images"

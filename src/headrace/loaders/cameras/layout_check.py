"""Checks of the files of a camera layout; each problem is reported with its fix."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from headrace.decode.index_store import IndexStore
from headrace.decode.parallel_scan import OpenIndex, scan_ahead
from headrace.errors import ConfigError, MediaError
from headrace.loaders.cameras.aligned_clip import MatchedClip
from headrace.loaders.cameras.camera_alignment import Alignment, check_alignment
from headrace.video.camera_layout import CameraClip, CameraLayout
from headrace.video.stream_index import StreamIndex


def camera_problems(
    layout: CameraLayout,
    alignment: Alignment | None = None,
    *,
    index_store: IndexStore | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[str]:
    """Yield one line for each problem with the files of a layout, with its fix.

    Problems are: cameras that are missing or cannot be opened, cameras whose frames do not match
    the reference's, clips whose length differs from the index file, and folders without a readable
    camera. Decodes nothing; a file scanned before is not read.

    Args:
        layout: The expected clips and cameras.
        alignment: Assignment of frames to moments, without its `on_missing`. None: frames of the
            same index. Aligned by time, cameras may have different frame rates.
        index_store: Store of the indexes; None: the user's cache folder.
        on_progress: Called after each clip with the number of finished clips.

    Raises:
        ConfigError: `alignment` names a camera or reference that the layout does not have.
    """
    alignment = alignment or Alignment()
    check_alignment(alignment, layout)
    strict = replace(alignment, on_missing="raise")
    open_one = scan_ahead(layout.sources, index_store or IndexStore(), raises=False, holds=False)
    for number, clip in enumerate((*layout.clips, *layout.left_out)):
        yield from _clip_problems(number, clip, layout.cameras, strict, open_one)
        if on_progress is not None:
            on_progress(number + 1)


def describe_unread(file: Path, error: MediaError, *, is_needed: bool) -> str:
    """Return a message about a camera that cannot be read, with its fix.

    Args:
        file: Its expected path.
        error: The reason.
        is_needed: Whether it is the reference, without which a clip has no moments.
    """
    policy = "on_error='mask', which leaves out the clip"
    if not file.exists():
        if not is_needed:
            policy = "on_missing='mask', which leaves its frames black"
        return f"{file} is missing; add it, or choose {policy}"
    camera_only = "" if is_needed else ", or only this camera with on_missing='mask' as well"
    return f"{error}; or choose {policy}{camera_only}"


def check_length(
    clip: CameraClip, indexes: Mapping[str, StreamIndex], open_one: OpenIndex
) -> ConfigError | None:
    """Return an error if no camera of a clip has the number of frames in the index file.

    Args:
        clip: The clip in the index file.
        indexes: Camera name → its index, for the cameras that are read.
        open_one: Opens the other cameras, one of which the index file may have counted.
    """
    if any(len(index) == clip.num_frames for index in indexes.values()):
        return None
    for camera in sorted(clip.existing_cameras() - indexes.keys()):
        try:
            if len(open_one(clip.source(camera))) == clip.num_frames:
                return None
        except MediaError:  # not one of the cameras to read
            continue
    first = next(iter(indexes.values()))
    return ConfigError(
        f"the index file says {clip.num_frames} frames, {first.source} has {len(first)}; write it "
        f"anew: headrace index --layout cameras {clip.video_dir} --out FILE"
    )


def _clip_problems(
    number: int,
    clip: CameraClip,
    cameras: tuple[str, ...],
    alignment: Alignment,
    open_one: OpenIndex,
) -> Iterator[str]:
    opened: dict[str, StreamIndex] = {}
    for camera in cameras:
        try:
            opened[camera] = open_one(clip.source(camera))
        except MediaError as error:
            is_needed = camera == alignment.reference
            yield describe_unread(clip.file(camera), error, is_needed=is_needed)
    if not opened:
        if clip.num_frames:
            yield f"{clip.folder}: none of its cameras can be read; take it out of the index file"
        else:
            yield f"{clip.folder} is not in the index: none of its cameras can be read"
        return
    if len(opened) == len(cameras):
        length_error = check_length(clip, opened, open_one)
        if length_error is not None:
            yield str(length_error)
    if alignment.reference not in cameras or alignment.reference in opened:
        indexes = [opened.get(camera) for camera in cameras]
        matched = MatchedClip.match(number, clip, cameras, indexes, alignment)
        yield from map(str, matched.errors())

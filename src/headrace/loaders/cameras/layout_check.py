"""What is wrong with the files of a camera layout, and what to do about it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from headrace.decode.index_store import IndexStore
from headrace.decode.parallel_scan import OpenIndex, scan_ahead
from headrace.errors import ConfigError, MediaError
from headrace.loaders.cameras.aligned_clip import mismatches
from headrace.loaders.cameras.camera_alignment import Alignment, OpenedClip, check_alignment
from headrace.video.camera_layout import CameraClip, CameraLayout
from headrace.video.stream_index import StreamIndex


def camera_problems(
    layout: CameraLayout,
    alignment: Alignment | None = None,
    *,
    index_store: IndexStore | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[str]:
    """Yield, a line for each, what is wrong with the files of a layout, and what to do about it.

    Cameras that are missing or cannot be opened; frames that do not fit those of the reference;
    clips of another length than the index file says; folders no camera of which can be read.
    Decodes nothing; a file seen before is not read.

    Args:
        layout: What should be there.
        alignment: What fits, whatever its `on_missing`; None means frames of the same index. By
            time, cameras may have frame rates of their own.
        index_store: Where indexes are kept; None means the user's cache folder.
        on_progress: Called after each clip with how many are done.

    Raises:
        ConfigError: a clock is set for a camera that the layout does not name, or it does not name
            the reference.
    """
    alignment = alignment or Alignment()
    check_alignment(alignment, layout)
    strict = replace(alignment, on_missing="raise")
    open_one = scan_ahead(layout.sources, index_store or IndexStore(), raises=False, holds=False)
    for number, clip in enumerate((*layout.clips, *layout.left_out)):
        yield from _problems(number, clip, layout.cameras, strict, open_one)
        if on_progress is not None:
            on_progress(number + 1)


def unread(file: Path, error: MediaError, *, is_needed: bool) -> str:
    """Return what is to be done about a camera that cannot be read.

    Args:
        file: Where it should be.
        error: Why it cannot be read.
        is_needed: Whether the reference is of its name, so that no moment is known without it.
    """
    policy = "on_error='mask', which leaves out the clip"
    if not file.exists():
        if not is_needed:
            policy = "on_missing='mask', which leaves its pictures black"
        return f"{file} is missing; add it, or choose {policy}"
    rest = "" if is_needed else ", or only this camera with on_missing='mask' as well"
    return f"{error}; or choose {policy}{rest}"


def disagreement(
    clip: CameraClip, found: Mapping[str, StreamIndex], open_one: OpenIndex
) -> ConfigError | None:
    """Return why a clip is not what the index file says; None where a camera has as many frames.

    Args:
        clip: With its number of frames; that of one of its cameras, whether or not it is read.
        found: The indexes of all its cameras that are read.
        open_one: Opens others.
    """
    if any(len(index) == clip.num_frames for index in found.values()):
        return None
    for camera in sorted(clip.found() - found.keys()):
        try:
            if len(open_one(clip.source(camera))) == clip.num_frames:
                return None
        except MediaError:  # it is not asked for
            continue
    first = next(iter(found.values()))
    return ConfigError(
        f"the index file says {clip.num_frames} frames, {first.source} has {len(first)}; write it "
        f"anew: headrace index --layout cameras {clip.video_dir} --out FILE"
    )


def _problems(
    number: int,
    clip: CameraClip,
    cameras: tuple[str, ...],
    alignment: Alignment,
    open_one: OpenIndex,
) -> Iterator[str]:
    found: dict[str, StreamIndex] = {}
    for camera in cameras:
        try:
            found[camera] = open_one(clip.source(camera))
        except MediaError as error:
            yield unread(clip.file(camera), error, is_needed=camera == alignment.reference)
    if not found:
        if clip.num_frames:
            yield f"{clip.folder}: none of its cameras can be read; take it out of the index file"
        else:
            yield f"{clip.folder} is not in the index: none of its cameras can be read"
        return
    if len(found) == len(cameras):
        wrong = disagreement(clip, found, open_one)
        if wrong is not None:
            yield str(wrong)
    if alignment.reference not in cameras or alignment.reference in found:
        indexes = tuple(found.get(camera) for camera in cameras)
        opened = OpenedClip(number=number, clip=clip, cameras=cameras, indexes=indexes)
        yield from map(str, mismatches(opened, alignment))

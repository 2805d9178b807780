"""Which frames make a clip, and what happens at the end of the video."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.sizes import check_integers, one_of

Boundary = Literal["error", "repeat_last", "wrap"]
"""What a clip does where the video ends: refuse, repeat its own last frame, or start again."""


def clip_span(num_frames: int, stride: int) -> int:
    """Return how many consecutive frames a clip reaches over: (num_frames - 1) * stride + 1."""
    return (num_frames - 1) * stride + 1


def clip_indices(
    total: int, start: int, num_frames: int, stride: int, boundary: Boundary = "error"
) -> NDArray[np.int64]:
    """Return the indices start, start + stride, ... of a clip, int64 [num_frames].

    `total` is the number of frames of the video. `repeat_last` repeats the last index of the clip
    that exists; `wrap` takes indices modulo the frames the clip can reach, so it starts again at
    `start`.

    Raises:
        ConfigError: an argument is out of range, or the video ends early and `boundary` is `error`.
    """
    one_of(Boundary, boundary=boundary)
    check_integers(1, num_frames=num_frames, stride=stride)
    is_whole = isinstance(start, int | np.integer)
    if not (is_whole and 0 <= start < total):
        raise ConfigError(
            f"start must be a frame of the video, which has {total} frames "
            f"(0 to {total - 1}), got {start!r}"
        )
    steps = np.arange(num_frames, dtype=np.int64)
    reachable = (total - 1 - start) // stride + 1
    if num_frames <= reachable:
        return start + steps * stride
    if boundary == "repeat_last":
        return start + np.minimum(steps, reachable - 1) * stride
    if boundary == "wrap":
        return start + (steps % reachable) * stride
    raise ConfigError(
        f"{num_frames} frames at stride {stride} from frame {start} need "
        f"{start + clip_span(num_frames, stride)} frames, the video has {total}: "
        f"{reachable} are possible; ask for fewer, or for boundary 'repeat_last' or 'wrap'"
    )

"""Frame mappings: torchcodec's `custom_frame_mappings` JSON, written and read.

Source: torchcodec documentation, VideoDecoder, `custom_frame_mappings`: an object with a list
`frames` of {"pts", "duration", "key_frame"}, in the stream's time base.
"""

import json
from typing import Any, NamedTuple

from headrace.errors import ConfigError
from headrace.video.stream_index import StreamIndex


class FrameMapping(NamedTuple):
    """One frame in torchcodec's format."""

    pts: int
    """Presentation time, ticks."""
    duration: int
    """Ticks."""
    is_keyframe: bool
    """Whether decoding can start here."""


def to_frame_mappings(index: StreamIndex) -> str:
    """Return the index as torchcodec's JSON, for `custom_frame_mappings`."""
    frames = [
        {"pts": int(pts), "duration": int(duration), "key_frame": int(key)}
        for pts, duration, key in zip(index.pts, index.duration, index.is_keyframe, strict=True)
    ]
    return json.dumps({"frames": frames})


def from_frame_mappings(text: str) -> list[FrameMapping]:
    """Return the frames of torchcodec's JSON, or ffprobe's, in presentation order.

    Raises:
        ConfigError: the JSON has another structure.
    """
    try:
        rows = [_mapping(row) for row in json.loads(text)["frames"]]
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise ConfigError(
            'frame mappings must be JSON like {"frames": [{"pts": 0, "duration": 512, '
            f'"key_frame": 1}}]}}; found {type(error).__name__}: {error}'
        ) from error
    return sorted(rows)


def check_frame_mappings(index: StreamIndex, text: str) -> list[str]:
    """Return the differences of external mappings from `index`, in words; empty if they agree.

    Raises:
        ConfigError: `text` has another structure.
    """
    ours = from_frame_mappings(to_frame_mappings(index))
    theirs = from_frame_mappings(text)
    if len(ours) != len(theirs):
        return [f"{len(theirs)} frames are listed, the video presents {len(ours)}"]
    return [
        f"frame {k}: pts {their.pts} is listed, found {our.pts}"
        if our.pts != their.pts
        else f"frame {k}: key_frame {int(their.is_keyframe)} is listed, found "
        f"{int(our.is_keyframe)}"
        for k, (our, their) in enumerate(zip(ours, theirs, strict=True))
        if our.pts != their.pts or our.is_keyframe != their.is_keyframe
    ]


def _mapping(row: dict[str, Any]) -> FrameMapping:
    pts = row["pts"] if "pts" in row else row["pkt_pts"]
    duration = row.get("duration", row.get("pkt_duration", 0))
    return FrameMapping(int(pts), int(duration), bool(int(row["key_frame"])))

"""Frame mappings: reads and writes torchcodec's `custom_frame_mappings` JSON.

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
    """Presentation time in ticks."""
    duration: int
    """Duration in ticks."""
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
    """Return the differences between external mappings and `index`, as text; empty if equal.

    Raises:
        ConfigError: `text` has another structure.
    """
    expected = from_frame_mappings(to_frame_mappings(index))
    listed = from_frame_mappings(text)
    if len(listed) != len(expected):
        return [f"{len(listed)} frames are listed, the video presents {len(expected)}"]
    return [
        f"frame {k}: pts {row.pts} is listed, found {frame.pts}"
        if row.pts != frame.pts
        else f"frame {k}: key_frame {row.is_keyframe:d} is listed, found {frame.is_keyframe:d}"
        for k, (row, frame) in enumerate(zip(listed, expected, strict=True))
        if (row.pts, row.is_keyframe) != (frame.pts, frame.is_keyframe)
    ]


def _mapping(row: dict[str, Any]) -> FrameMapping:
    pts = row["pts"] if "pts" in row else row["pkt_pts"]
    duration = row.get("duration", row.get("pkt_duration", 0))
    return FrameMapping(int(pts), int(duration), bool(int(row["key_frame"])))

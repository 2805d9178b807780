"""Longer videos, out of clips that are repeated packet by packet."""

from pathlib import Path

import av


def looped(path: Path, times: int) -> Path:
    """Return a video that shows `path` so many times; made beside it where it is missing."""
    longer = path.with_name(f"{path.stem}-x{times}{path.suffix}")
    if longer.is_file():
        return longer
    unfinished = longer.with_suffix(".part")
    with av.open(str(unfinished), "w", format="mp4") as output:
        target = None
        for turn in range(times):
            with av.open(str(path)) as clip:
                stream = clip.streams.video[0]
                target = target or output.add_stream_from_template(stream)
                shift = turn * (stream.duration or 0)
                for packet in clip.demux(stream):
                    if packet.pts is not None and packet.dts is not None:
                        packet.pts, packet.dts = packet.pts + shift, packet.dts + shift
                        packet.stream = target
                        output.mux(packet)
    unfinished.replace(longer)
    return longer

"""A clip with a single keyframe, as an encoder that was told no GOP length may write it."""

from pathlib import Path

import av

_OPTIONS = {"preset": "veryfast", "g": "1000000", "sc_threshold": "0"}


def one_keyframe(path: Path) -> Path:
    """Return `path` encoded anew with one keyframe; made beside it where it is missing."""
    made = path.with_name(f"{path.stem}-one-keyframe{path.suffix}")
    if made.is_file():
        return made
    unfinished = made.with_suffix(".part")
    with av.open(str(path)) as clip, av.open(str(unfinished), "w", format="mp4") as output:
        source = clip.streams.video[0]
        target = output.add_stream("libx264", rate=source.average_rate, options=_OPTIONS)
        target.width, target.height, target.pix_fmt = source.width, source.height, source.pix_fmt
        for frame in clip.decode(source):
            frame.pict_type = av.video.frame.PictureType.NONE
            output.mux(target.encode(frame))
        output.mux(target.encode(None))
    unfinished.replace(made)
    return made

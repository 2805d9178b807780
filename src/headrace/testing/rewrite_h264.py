"""H.264 that says it was written by another build of x264.

Decoders know from the first packet which build wrote a stream, and decode those of old builds by
other rules (FFmpeg: below 151, where 4:4:4 is coded with CABAC or without loss). The packets behind
it do not say so again.
"""

import re
from pathlib import Path

from headrace.errors import ConfigError

_BUILD = re.compile(rb"x264 - core (\d+)")


def pose_as_x264_build(path: Path, out: Path, *, build: int = 130) -> Path:
    """Write `path` to `out` with another number of the build in its first packet.

    Of a clip without loss ("qp=0" among the "x264-params") in 4:2:0, either rule makes pictures
    without an error, and not the same ones. Of one in 4:4:4 with CABAC, the rule of the old builds
    makes errors.

    Raises:
        ConfigError: the file names no build, or one with another number of digits.
    """
    data = path.read_bytes()
    said = _BUILD.search(data)
    if said is None or len(said[1]) != len(str(build)):
        found = said[1].decode() if said else "none"
        raise ConfigError(
            f"the build must have as many digits as the one in {path}, got {build} for {found}"
        )
    out.write_bytes(data[: said.start(1)] + str(build).encode() + data[said.end(1) :])
    return out

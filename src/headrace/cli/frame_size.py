"""The size of frames as it is typed."""

import re


def frame_size(text: str | None) -> tuple[int, int] | None:
    """`256x456`: height and width. Raises ConfigError where it is none."""
    from headrace.errors import ConfigError

    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,5})[x×](\d{1,5})", text.strip(), re.ASCII)
    if match is None:
        raise ConfigError(f"--size is a height and a width, such as 256x456; got {text!r}")
    return int(match[1]), int(match[2])

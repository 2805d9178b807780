"""Which lengths of clips a video model takes."""

from dataclasses import replace
from typing import Final

from headrace.errors import ConfigError
from headrace.models.model import Model, Result

_ONLY: Final = {"mvit_v1_b": 16, "mvit_v2_s": 16}
"""Models whose positions are learnt, so that they take clips of one length alone."""
_LEAST: Final = {"s3d": 13}
"""Models that halve the time until nothing is left of shorter clips."""


def with_clip_length(model: Model[Result], num_frames: int | None) -> Model[Result]:
    """Return a video model as one for clips of `num_frames`; None keeps what it was made for.

    Raises:
        ConfigError: it takes single pictures, or no clips of this length; the message says which.
    """
    if num_frames is None:
        return model
    name = model.name
    if model.input.num_frames is None:
        raise ConfigError(
            f"clips of {num_frames} frames were asked for, and {name} takes single frames; leave "
            "out --clip-len, or give a video model such as r3d_18"
        )
    only, least = _ONLY.get(name, num_frames), _LEAST.get(name, 1)
    if num_frames != only:
        raise ConfigError(f"{name} takes clips of {only} frames, no others; got {num_frames}")
    if num_frames < least:
        raise ConfigError(f"{name} takes clips of {least} frames or more, got {num_frames}")
    return replace(model, input=replace(model.input, num_frames=num_frames))

"""What may be asked of a camera loader."""

import os
from collections.abc import Iterable
from typing import Literal, get_args

from headrace.decode.protocol import check_on_error
from headrace.errors import ConfigError
from headrace.sizes import check_integers
from headrace.training.cameras.batch import Ragged
from headrace.video.camera_layout import CameraLayout

OnLost = Literal["raise", "mask"]
"""What a damaged frame does: end the training, or come black, marked and counted."""

_MOST_AHEAD = 32


def batches_ahead(memory_budget: int, batch_bytes: int, lookahead: int | None) -> int:
    """Return how many batches may be on their way, besides the two of the caller.

    Raises:
        ConfigError: the budget does not hold so many, or not three.
    """
    fit = memory_budget // batch_bytes - 2
    if fit < 1 or (lookahead is not None and lookahead > fit):
        needed = (2 + (lookahead or 1)) * batch_bytes / 2**20
        raise ConfigError(
            f"a memory budget of {memory_budget / 2**20:,.1f} MiB does not hold "
            f"{2 + (lookahead or 1)} batches of {batch_bytes / 2**20:,.1f} MiB (the caller's, the "
            f"next one, and what is decoded ahead): {needed:,.1f} MiB are needed; raise it, or "
            "ask for a smaller group_num, size or lookahead"
        )
    return min(fit, _MOST_AHEAD) if lookahead is None else lookahead


def check_options(
    group_num: int,
    workers: int,
    lookahead: int | None,
    num_of_file: int | None,
    on_error: OnLost,
    ragged: Ragged | None,
) -> None:
    """Refuse what is out of range, or no choice: ConfigError."""
    check_integers(
        1, group_num=group_num, workers=workers, lookahead=lookahead, num_of_file=num_of_file
    )
    check_on_error(on_error, get_args(OnLost))
    choices = (*get_args(Ragged), None)
    if ragged not in choices:
        raise ConfigError(f"ragged must be one of {', '.join(map(str, choices))}, got {ragged!r}")


def layout_for(
    layout: CameraLayout | str | os.PathLike[str], cameras: Iterable[str] | None
) -> CameraLayout:
    """Return a layout, read from its index file if need be.

    Raises:
        ConfigError: it cannot be read, or cameras are chosen of a layout that has its own.
    """
    if not isinstance(layout, CameraLayout):
        return CameraLayout.read(layout, cameras)
    if cameras is not None:
        raise ConfigError(
            "cameras= chooses from an index file, and a CameraLayout was given, which has its own; "
            "use dataclasses.replace(layout, cameras=...)"
        )
    return layout

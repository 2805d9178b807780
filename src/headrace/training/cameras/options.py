"""What may be asked of a camera loader."""

from typing import Literal, get_args

from headrace.errors import ConfigError
from headrace.training.cameras.batch import Ragged

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
    numbers = {
        "group_num": group_num,
        "workers": workers,
        "lookahead": lookahead,
        "num_of_file": num_of_file,
    }
    for name, value in numbers.items():
        if value is not None and value < 1:
            raise ConfigError(f"{name} must be >= 1, got {value}")
    for name, choice, kind in (("on_error", on_error, OnLost), ("ragged", ragged, Ragged)):
        if choice is not None and choice not in get_args(kind):
            raise ConfigError(f"{name} must be one of {', '.join(get_args(kind))}, got {choice!r}")

"""A model of the user's own: found, built and asked what it wants."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from headrace.errors import ConfigError, in_words
from headrace.extraction.features.spec import OwnModel
from headrace.sizes import check_integers


@dataclass(frozen=True, kw_only=True, eq=False)
class Own:
    """What the user's function built."""

    name: str
    """"package.module:function"."""
    call: Callable[[Any], Any]
    """uint8 [N, 3, H, W], or clips [N, 3, T, H, W] -> a tensor [N, ...]."""
    size: tuple[int, int] | None
    """(height, width) of the frames it wants; None: each video's own."""
    version: str | None
    """What it says of itself; None: nothing."""


def own_model(spec: OwnModel) -> Own:
    """Import and call the user's function.

    Raises:
        ConfigError: it cannot be found, fails, or gives nothing that can be called.
    """
    module, _, name = spec.build.partition(":")
    try:
        build = getattr(import_module(module), name)
    except Exception as error:
        raise ConfigError(
            f"cannot import {spec.build}: {in_words(error)}; give module:function, as Python finds "
            "it from here (PYTHONPATH=. for a file in this folder)"
        ) from error
    try:
        call = build()
    except Exception as error:
        raise ConfigError(
            f"{spec.build} failed when it was called without arguments: {in_words(error)}"
        ) from error
    if not callable(call):
        raise ConfigError(
            f"{spec.build} must return a model, such as an nn.Module; got {type(call).__name__}"
        )
    size, version = getattr(call, "size", None), getattr(call, "version", None)
    return Own(
        name=spec.build,
        call=call,
        size=None if size is None else _pair(spec.build, size),
        version=version if isinstance(version, str) else None,
    )


def _pair(name: str, size: Any) -> tuple[int, int]:
    if not (isinstance(size, tuple | list) and len(size) == 2):
        raise ConfigError(f"size of {name} must be (height, width), got {size!r}")
    check_integers(1, height=size[0], width=size[1])
    return int(size[0]), int(size[1])

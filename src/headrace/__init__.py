"""Video engine for PyTorch: exact frames for training, extraction and live inference.

The layers, top to bottom; a file imports only from what stands above it (docs/design.md):

    errors -> units -> redaction -> video -> sampling -> planning -> runtime -> decode -> preprocess
    -> models -> cache -> profiling -> loaders -> extraction -> live -> sinks -> runs -> report
    -> instrumentation -> bench -> cli; testing may use them all

A public name is imported at its first use: `import headrace` loads neither torch nor FFmpeg, and
reads its version when asked.
`__init__.pyi` lists the public names, for type checkers and for this file.
"""

import sys
from importlib import import_module
from pathlib import Path as _Path
from types import ModuleType

_STUB = _Path(__file__).with_suffix(".pyi").read_text("utf-8")
_MODULES = {
    line.split()[3]: line.split()[1] for line in _STUB.splitlines() if line.startswith("from ")
}
"""Public name → its module."""

# `from headrace import *` replaces no built-in: `open` is `headrace.open` only.
__all__ = sorted(_MODULES.keys() - {"open"})


class _Root(ModuleType):
    """Module that keeps its public names: an import of `headrace.live` does not replace `live`."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _MODULES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Root


def __getattr__(name: str) -> object:
    if name == "__version__":
        return import_module("importlib.metadata").version("headrace")
    if name not in _MODULES:
        raise AttributeError(f"module 'headrace' has no attribute {name!r}")
    try:
        value: object = getattr(import_module(_MODULES[name]), name)
    except ImportError:
        import_module("headrace.extras").check_extra("run", f"headrace.{name}")
        raise
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*_MODULES, "__version__"]

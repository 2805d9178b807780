"""Video engine for PyTorch: exact frames for training, extraction and live inference.

Each file imports only from the layers below its own: docs/design.md lists them.

A public name is imported at its first use, so `import headrace` loads neither torch nor FFmpeg;
`__version__` is read at its first use, too.
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

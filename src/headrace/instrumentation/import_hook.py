"""Doing something right after a module was imported, without importing it first."""

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final


def after_import(name: str, act: Callable[[str], None]) -> None:
    """Call `act` with `name` when the module of that name was imported; now, if it was already."""
    if name in sys.modules:
        act(name)
    else:
        sys.meta_path.insert(0, _Finder(name, act))


class _Finder:
    """Finds one module, once, where all others would, and acts when it was executed."""

    def __init__(self, name: str, act: Callable[[str], None]) -> None:
        self._name, self._act = name, act

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            own, act = spec.loader.exec_module, self._act

            def exec_module(module: ModuleType) -> Any:
                own(module)
                act(name)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


_METHODS: Final = {
    "torch.utils.data.dataloader": ("DataLoader", "_get_iterator"),
    "headrace.loaders.resumable": ("ResumableLoader", "__iter__"),
}
"""Module → a class in it, and the method of it that begins an iteration."""


def patch_loaders() -> None:
    """Let DataLoaders and the loaders of headrace be watched, once somebody imports them."""
    for module in _METHODS:
        after_import(module, _patch)


def _patch(module: str) -> None:
    kind, method = _METHODS[module]
    of = getattr(sys.modules[module], kind)
    setattr(of, method, _told(getattr(of, method)))


def _told(own: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The method `own`, which `everywhere` hears of."""

    @wraps(own)
    def begin(loader: Any) -> Any:
        from headrace.instrumentation.patch_all import iterated

        return iterated(loader, own)

    return begin

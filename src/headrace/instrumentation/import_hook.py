"""Import hook: patches loaders at the import of their module, so that all loops are recorded."""

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final

_METHODS: Final = {
    "torch.utils.data.dataloader": ("DataLoader", "_get_iterator"),
    "headrace.loaders.resumable": ("ResumableLoader", "__iter__"),
}
"""Module → class, and its method that starts an iteration."""


def patch_loaders(change: Any = None) -> None:
    """Record the loops over DataLoaders and headrace's loaders, once their modules are imported.

    Args:
        change: A `patch_all.LoaderChange` to make, or None.
    """
    for module in _METHODS:
        if module in sys.modules:
            _patch(module, change)
        else:
            sys.meta_path.insert(0, _Finder(module, change))


class _Finder:
    """Finder of one module, used once; patches the module after its import."""

    def __init__(self, name: str, change: Any) -> None:
        self._name, self._change = name, change

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                _patch(name, self._change)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _patch(module: str, change: Any) -> None:
    class_name, method = _METHODS[module]
    loader_class = getattr(sys.modules[module], class_name)
    iterate: Callable[[Any], Any] = getattr(loader_class, method)

    @wraps(iterate)
    def iterate_recorded(loader: Any) -> Any:
        from headrace.instrumentation.patch_all import observe_steps, record_loader

        observe_steps()
        return record_loader(loader, iterate, change)

    setattr(loader_class, method, iterate_recorded)

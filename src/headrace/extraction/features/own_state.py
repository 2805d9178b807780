"""State of a custom model outside its checkpoint: attributes, and imported files."""

import copyreg
import hashlib
import json
import sys
import sysconfig
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from pathlib import Path
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, Final

import numpy as np
import torch
from torch import fx, nn

from headrace.cached_property import cached_property
from headrace.video.content_digest import content_digest

_INSTALLED: Final = {"site-packages", "dist-packages"}
"""Folders of installed packages."""
_PYTHON: Final = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
"""Folders of Python's own modules."""
_VERSIONED: Final = ("headrace", "torch", "torchvision")
"""Packages whose versions are in the key."""
_MODULE_ATTRIBUTES: Final = frozenset(vars(nn.Module()))
"""Attributes that PyTorch gives every module."""
_HOOKS: Final = ("_forward_pre_hooks", "_forward_hooks")
"""PyTorch's attributes that change results."""
_SLOTS: Final = (GetSetDescriptorType, MemberDescriptorType)
_SCALARS: Final = (bool, int, float, complex, str, bytes)


@dataclass(frozen=True, kw_only=True)
class OwnState:
    """Inputs of a module's computation other than the weights in its `state_dict`."""

    attributes: Mapping[str, str]
    """Name of each attribute and submodule → digest of its content."""
    unstable: tuple[str, ...] = ()
    """Attributes whose digest would differ between processes, with their types."""

    def differences(self, attributes: Mapping[str, str]) -> list[str]:
        """Return the names of attributes that differ from `attributes`."""
        names = sorted({*self.attributes, *attributes})
        return [name for name in names if self.attributes.get(name) != attributes.get(name)]


def own_state(module: nn.Module) -> OwnState:
    """Return digests of all attributes of a module, equal for equal values in any process.

    Tensors and arrays are digested by their values; functions by source position, defaults and
    closure; other objects by their state for `copy`. Call it before the module runs, because some
    modules store results in attributes.
    """
    weights = module.state_dict(keep_vars=True)  # kept alive, so that no id is reused
    forms = _Forms({id(weight): name for name, weight in weights.items()})
    digests: dict[str, str] = {}
    try:
        for name, form in forms.of_module(module, ""):
            digests[name] = _digest([digests.get(name), form])  # several hooks may share a name
    except RecursionError:
        return OwnState(attributes={}, unstable=("objects that are nested too deeply",))
    return OwnState(attributes=digests, unstable=tuple(dict.fromkeys(forms.unstable)))


def imported_code(packages: Collection[str]) -> dict[str, str]:
    """Return name → digest of each imported package that is neither installed nor Python's.

    The digest covers the files of all imported modules of the package, and their plain global
    values, which may come from the environment. Call it in a process with only this model, after
    the model has run, so that late imports are included.

    Args:
        packages: Installed packages to include.
    """
    digests: dict[str, str] = {}
    for name, module in sorted(sys.modules.items()):
        file, package = getattr(module, "__file__", None), name.partition(".")[0]
        if file is None or package in _VERSIONED:
            continue
        is_project = _is_project_file(Path(file))
        if is_project or package in packages:
            values = _constants(module) if is_project else []
            content = content_digest(Path(file))
            digests[package] = _digest([digests.get(package), name, content, values])
    return digests


def _digest(form: Any) -> str:
    return hashlib.blake2b(json.dumps(form).encode(), digest_size=16).hexdigest()


def _is_project_file(file: Path) -> bool:
    """Whether a file belongs neither to an installed package nor to Python."""
    is_installed = not _INSTALLED.isdisjoint(file.parts)
    return not is_installed and not any(file.is_relative_to(folder) for folder in _PYTHON)


def _constants(module: ModuleType) -> list[Any]:
    forms = _Forms({})
    return [
        [name, forms.of(value, name)]
        for name, value in sorted(vars(module).items())
        if not name.startswith("__") and _is_plain(value)
    ]


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list | set | frozenset):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(_is_plain(item) for pair in value.items() for item in pair)
    return value is None or isinstance(value, (*_SCALARS, Path))


class _Forms:
    """Canonical JSON forms of values, equal for equal values."""

    def __init__(self, weights: Mapping[int, str]) -> None:
        """Set the `state_dict`: id of a tensor → its name."""
        self.unstable: list[str] = []
        self._weights = weights
        self._seen: dict[int, tuple[int, Any]] = {}
        """Id of a value → its number, and the value, kept alive so that the id is not reused."""

    def of(self, value: Any, name: str) -> Any:
        """Return the form of a value; `name`: name of the attribute that holds it."""
        if value is None or isinstance(value, _SCALARS):
            return [type(value).__qualname__, repr(value)]
        if id(value) in self._seen:
            return ["seen", self._seen[id(value)][0]]
        if not isinstance(value, tuple):  # equal tuples may or may not be one object
            self._seen[id(value)] = len(self._seen), value
        return [_path_of(type(value)), *self._parts(value, name)]

    def of_module(self, module: nn.Module, name: str) -> Iterator[tuple[str, Any]]:
        """Yield name and form of each item in a module; `name`: name of the module."""
        self._seen.setdefault(id(module), (len(self._seen), module))
        yield "class", self.of(type(module), name)
        prefix = f"{name}." if name else ""
        own = {key: value for key, value in vars(module).items() if key not in _MODULE_ATTRIBUTES}
        for values in (own, module._parameters, module._buffers, module._modules):
            for key, value in sorted(values.items()) if values is own else values.items():
                yield key, self.of(value, f"{prefix}{key}")
        for key in _HOOKS:
            for hook in vars(module)[key].values():
                yield key, self.of(hook, f"{prefix}{key}")

    def _parts(self, value: Any, name: str) -> Iterator[Any]:
        match value:
            case nn.Module():
                yield from self.of_module(value, name)
            case torch.Tensor():
                yield from self._of_tensor(value, name)
            case np.ndarray() if not value.dtype.hasobject:
                flat = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
                digest = hashlib.sha256(flat.data).hexdigest()
                yield from (str(value.dtype), list(value.shape), digest)
            case Enum():
                yield value.name
            case tuple() | list():
                yield from (self.of(item, name) for item in value)
            case set() | frozenset():
                yield from sorted(map(json.dumps, self._of_set(value, name)))
            case dict():
                for key, inner in value.items():
                    yield [self.of(key, name), self.of(inner, f"{name}[{key!r}]")]
            case type():
                yield from self._of_class(value)
            case FunctionType():
                yield from self._of_function(value, name)
            case MethodType():
                yield from (self.of(value.__func__, name), self.of(value.__self__, name))
            case BuiltinFunctionType() if isinstance(value.__self__, ModuleType):
                yield f"{value.__module__}.{value.__qualname__}"
            case fx.Graph():
                yield str(value)  # its linked nodes would exceed the recursion limit
            case torch.device():
                yield value.type  # the index of a GPU is not part of a key
            case Path() | torch.dtype() | torch.layout() | torch.memory_format():
                yield str(value)
            case ModuleType():
                yield value.__name__
            case CodeType() | GetSetDescriptorType() | MemberDescriptorType():
                self._note_unstable(value, name)
            case _:
                yield from self._of_object(value, name)

    def _note_unstable(self, value: Any, name: str) -> None:
        self.unstable.append(f"{name or 'the module'} ({type(value).__name__})")

    def _of_tensor(self, tensor: torch.Tensor, name: str) -> Iterator[Any]:
        if id(tensor) in self._weights:
            yield self._weights[id(tensor)]
        elif tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_meta:
            self._note_unstable(tensor, name)
        else:
            plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
            flat = plain.reshape(-1).view(torch.uint8)
            digest = hashlib.sha256(flat.numpy().data).hexdigest()
            yield from (str(tensor.dtype), list(tensor.shape), digest)

    def _of_set(self, values: Collection[Any], name: str) -> Iterator[Any]:
        for value in values:
            forms = _Forms(self._weights)  # numbers of seen values would depend on the set's order
            yield forms.of(value, name)
            self.unstable += forms.unstable

    def _of_class(self, kind: type) -> Iterator[Any]:
        yield _path_of(kind)
        for base in kind.__mro__:
            file = getattr(sys.modules.get(base.__module__), "__file__", None)
            if file is None or not _is_project_file(Path(file)):
                continue
            if base.__module__.partition(".")[0] in _VERSIONED:
                continue
            for name, value in sorted(vars(base).items()):
                if name == "__annotate_func__":  # from Python 3.14 on; annotations compute nothing
                    continue
                content = _function_of(value)
                is_set = not name.startswith(("__", "_abc_"))
                if isinstance(content, FunctionType) or (
                    is_set and not isinstance(content, _SLOTS)
                ):
                    yield [name, self.of(content, f"{base.__qualname__}.{name}")]

    def _of_function(self, function: FunctionType, name: str) -> Iterator[Any]:
        yield _path_of(function)
        if _is_installed_by_name(function):
            return
        yield [list(position) for position in function.__code__.co_positions()]
        yield [self.of(function.__defaults__, name), self.of(function.__kwdefaults__, name)]
        for variable, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            try:
                content = cell.cell_contents
            except ValueError:  # the variable has no value yet
                continue
            yield [variable, self.of(content, f"{name}: {variable}")]

    def _of_object(self, value: Any, name: str) -> Iterator[Any]:
        """Yield the parts from which `copy` would build the object, if it can be copied."""
        reduce = copyreg.dispatch_table.get(type(value))
        try:
            parts = value.__reduce_ex__(4) if reduce is None else reduce(value)
        except Exception:  # noqa: BLE001 - the user's code, or a type that cannot be copied
            self._note_unstable(value, name)
            return
        if isinstance(parts, str):
            yield parts
            return
        constructor, arguments, state, items, pairs = (*parts, None, None, None)[:5]
        yield from (self.of(constructor, name), self.of(arguments, name), self.of(state, name))
        yield from (self.of(item, name) for item in (*(items or ()), *(pairs or ())))


def _path_of(named: Any) -> str:
    return f"{named.__module__}.{named.__qualname__}"


def _function_of(value: Any) -> Any:
    """Return the function behind a method, property or cached property; else the value."""
    if isinstance(value, staticmethod | classmethod):
        return value.__func__
    if isinstance(value, property):
        return value.fget
    return value.func if isinstance(value, cached_property) else value


def _is_installed_by_name(function: FunctionType) -> bool:
    """Whether the function is the attribute with its own name in an installed module."""
    module = sys.modules.get(function.__module__)
    file = getattr(module, "__file__", None)
    if file is None:
        return False
    try:
        is_named = attrgetter(function.__qualname__)(module) is function
    except AttributeError:
        return False
    return is_named and not _is_project_file(Path(file))

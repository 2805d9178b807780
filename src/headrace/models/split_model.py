"""Model split after one of its layers, for two devices."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch
from torch import fx, nn

from headrace.errors import ConfigError, did_you_mean, first_line
from headrace.models.compute import Device
from headrace.models.evaluation_mode import evaluation_mode

_MAX_POINTS: Final = 3
"""Max inner split points named in an error."""
_CALLS: Final = ("call_module", "call_function", "call_method")
_NO_GRAPH: Final = (RuntimeError, ValueError, TypeError, LookupError, AttributeError)
"""Exceptions observed when torch.fx traces data-dependent control flow."""


class SplitModule(nn.Module):
    """Model in two parts: the layers up to and including one, and the layers after it.

    The parts share the model's layers without copies, and keep their modes. In evaluation mode
    (call `eval()` on either) the result equals the model's. All tensors that the second part needs
    are copied between the devices: the layer's output and, inside a residual block, the skip
    connection.
    """

    def __init__(self, module: nn.Module, layer: str) -> None:
        """Split `module` after `layer`, one of `split_points`.

        Raises:
            ConfigError: the layer is unknown, torch.fx cannot trace the module, or it cannot be
                split there.
        """
        super().__init__()
        self.training = module.training
        graph = _graph(module)
        self.first, self.second = _split(module, graph, layer)
        self.layer = layer
        """Last layer of the first part."""
        self.device: Device = "cpu"
        """Device of the second part; the first part is on the CPU."""

    def place(self, device: Device) -> None:
        """Move the second part to a device; the first part stays on the CPU."""
        self.first.to("cpu")
        self.second.to(device)
        self.device = device

    def begin(self, batch: torch.Tensor) -> tuple[Any, ...]:
        """Run the first part on a batch, on the CPU; return the inputs of the second part."""
        values: tuple[Any, ...] = self.first(batch)
        return values

    def finish(self, values: Sequence[Any]) -> Any:
        """Run the second part on the values of `begin`, with tensors on `device`."""
        return self.second(*values)

    def forward(self, batch: torch.Tensor) -> Any:
        """Run both parts."""
        moved = [v.to(self.device) if isinstance(v, torch.Tensor) else v for v in self.begin(batch)]
        return self.finish(moved)


def split_points(module: nn.Module) -> list[str]:
    """Return the names of the layers after which a model can be split, in execution order.

    Raises:
        ConfigError: torch.fx cannot trace the module.
    """
    ends = _ends(_graph(module))
    return [layer for layer, end in ends.items() if isinstance(end, fx.Node)]


def _graph(module: nn.Module) -> fx.Graph:
    # A module that calls torchvision's operations has imported them.
    operations = [sys.modules[name] for name in ("torchvision.ops",) if name in sys.modules]
    try:
        with evaluation_mode(module):
            return fx.Tracer(autowrap_modules=tuple(operations)).trace(module)
    except _NO_GRAPH as error:
        raise ConfigError(
            "the model cannot be split: its control flow depends on tensor values, so torch.fx "
            f"cannot trace it ({first_line(error)}); leave out the split point"
        ) from error


def _ends(graph: fx.Graph) -> dict[str, fx.Node | int]:
    """Return the last node of each layer, or the number of its runs if that is not 1.

    Layers after which nothing is computed are not included.
    """
    calls: dict[str, set[str]] = {}
    last: dict[str, fx.Node] = {}
    for node in graph.nodes:
        for key, (path, _) in node.meta.get("nn_module_stack", {}).items():
            if path:
                calls.setdefault(path, set()).add(key)
                last[path] = node
    computing = [node for node in graph.nodes if node.op in _CALLS]
    return {
        path: node if len(calls[path]) == 1 else len(calls[path])
        for path, node in last.items()
        if computing and node < computing[-1]
    }


def _split(module: nn.Module, graph: fx.Graph, layer: str) -> tuple[nn.Module, nn.Module]:
    ends = _ends(graph)
    end = ends.get(layer)
    if end is None:
        raise ConfigError(_no_split_message(layer, ends, dict(module.named_modules())))
    if isinstance(end, int):
        raise ConfigError(
            f"the model cannot be split after {layer}: it runs {end} times, not once; "
            f"{_advice(layer, ends)}"
        )
    nodes = list(graph.nodes)
    position = nodes.index(end) + 1
    before, after = nodes[:position], nodes[position:]
    later = set(after)
    needed = [node for node in before if node.op != "get_attr" and later & set(node.users)]
    first, second = fx.Graph(), fx.Graph()
    known: dict[fx.Node, fx.Node] = {}
    weights = [node for node in before if node.op == "get_attr" and later & set(node.users)]
    for node in before:
        if node not in weights or not later.issuperset(node.users):
            known[node] = first.node_copy(node, known.__getitem__)
    first.output(tuple(known[node] for node in needed))
    known = {node: second.placeholder(f"crossing_{k}") for k, node in enumerate(needed)}
    for node in [*weights, *after]:
        known[node] = second.node_copy(node, known.__getitem__)
    parts = fx.GraphModule(module, first), fx.GraphModule(module, second)
    originals = set(module.modules())
    for inner_module in {inner for part in parts for inner in part.modules()} - originals:
        inner_module.training = module.training
    _check_disjoint(*parts, layer)
    return parts


def _check_disjoint(first: nn.Module, second: nn.Module, layer: str) -> None:
    shared = {id(weights) for weights in first.parameters()}
    common = [name for name, weights in second.named_parameters() if id(weights) in shared]
    if common:
        raise ConfigError(
            f"the model cannot be split after {layer}: both parts would need {common[0]}; "
            "split it after another layer"
        )


def _no_split_message(layer: str, ends: Mapping[str, object], modules: Mapping[str, object]) -> str:
    if layer and layer in modules:
        reason = "nothing is computed after it, or it does not run"
        return f"the model cannot be split after {layer}: {reason}; {_advice('', ends)}"
    return f"the model has no layer {layer!r}; {_advice(layer, ends)}"


def _advice(layer: str, ends: Mapping[str, object]) -> str:
    points = [path for path, end in ends.items() if isinstance(end, fx.Node)]
    if layer and (near := did_you_mean(layer, points)):
        return f"{near} ({len(points)} split points)"
    outer = [path for path in points if path.count(".") == 0] or points[:_MAX_POINTS]
    names = ", ".join(outer)
    return f"it can be split after {names} ({len(points)} split points with inner layers)"

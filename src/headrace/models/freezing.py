"""Which weights of a model are trained: its head alone, or all from some layer on."""

from collections.abc import Iterator
from functools import partial

from torch import nn
from torch.utils.checkpoint import checkpoint

from headrace.errors import ConfigError
from headrace.models.features import no_such_layer


def freeze_before(module: nn.Module, head: str, layer: str | None = None) -> tuple[str, ...]:
    """Freeze all weights but those of `layer` and of what is declared behind it.

    torchvision's classifiers declare their layers in the order in which a picture goes through.

    Args:
        module: Whose weights they are.
        head: Name of its head, which is always trained.
        layer: Name of the first layer that is trained, as `named_modules()` tells it; None trains
            the head alone.

    Returns:
        Names of the weights that are trained.

    Raises:
        ConfigError: there is no such layer.
    """
    known = {name: inner for name, inner in module.named_modules() if name}
    if layer is not None and layer not in known:
        raise ConfigError(no_such_layer(layer, known))
    places = {name: place for place, (name, _) in enumerate(module.named_modules())}
    first = places[head] if layer is None else min(places[layer], places[head])
    trained = []
    for name, weights in module.named_parameters():
        is_trained = places[name.rpartition(".")[0]] >= first
        weights.requires_grad_(is_trained)
        if is_trained:
            trained.append(name)
    return tuple(trained)


def recompute(module: nn.Module) -> int:
    """Let the trained blocks of a model recompute inside what they would keep for the backward.

    Less memory for one more forward of these blocks. A frozen layer before the first trained one
    keeps nothing anyway. The model must draw nothing at random: it is in evaluation mode.

    Returns:
        How many blocks recompute; 0: nothing is saved.
    """
    blocks = list(_trained_blocks(module))
    for block in blocks:
        block.forward = partial(
            checkpoint, block.forward, use_reentrant=False, preserve_rng_state=False
        )
    return len(blocks)


def _trained_blocks(module: nn.Module) -> Iterator[nn.Module]:
    """Yield the outermost modules that are trained whole; of plain sequences, what is in them."""
    for child in module.children():
        weights = list(child.parameters())
        is_sequence = type(child) in (nn.Sequential, nn.ModuleList)
        is_whole = weights and all(each.requires_grad for each in weights)
        if is_sequence or not is_whole:
            yield from _trained_blocks(child)
        elif list(child.children()):
            yield child

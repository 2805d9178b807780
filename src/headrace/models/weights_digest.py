"""One text for all weights of a model: the same for the same numbers, wherever they came from."""

import hashlib

import torch
from torch import nn


def weights_digest(module: nn.Module) -> str:
    """Return `sha256:…` over the names, types, shapes and numbers of all weights and buffers.

    About 1 GB a second, and a copy to main memory of what lies on a GPU. Compiling, wrapping for
    several GPUs, or another place in memory change names or layout: take it before.
    """
    digest = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        tensor = value.detach().cpu().contiguous()
        digest.update(f"{name}\0{tensor.dtype}\0{list(tensor.shape)}\0".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return f"sha256:{digest.hexdigest()}"

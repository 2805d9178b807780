"""What torch.compile found among what it had compiled before and kept on disk."""

from torch._dynamo.utils import counters


def cache_hits() -> int:
    """Return how many graphs this process took from PyTorch's cache so far.

    Source: "Compile Time Caching in torch.compile", PyTorch's tutorials, which ask these counters.
    """
    return int(counters["inductor"]["fxgraph_cache_hit"])

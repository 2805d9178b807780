"""Keys and results that tests of caches are made with."""

from typing import Any

import numpy as np

from headrace.cache.entry import Arrays
from headrace.cache.key import ChunkKey

GROUPS: dict[str, Any] = {
    "selection": {"pts": [0, 512, 1024]},
    "decode": {"backend": "pyav"},
    "preprocess": {"crop": 224, "mean": [0.5, 0.25]},
    "model": {"name": "resnet18", "weights": "sha256:11"},
    "numerics": {"precision": "float32"},
}


def key(chunk: int | None = None, **changed: Any) -> ChunkKey:
    """A key; those of other chunks differ, and those with something changed."""
    numbered = {} if chunk is None else {"selection": {"chunk": chunk}}
    return ChunkKey(
        **{"kind": "features 1", "content": "sha256:00", **GROUPS, **numbered, **changed}
    )


def arrays(chunk: int = 0, *, width: int = 16) -> Arrays:
    """A result: features float32 [4, width] and pts int64 [4], other ones for other chunks."""
    features = np.arange(4 * width, dtype=np.float32).reshape(4, width) + chunk
    return {"features": features, "pts": np.arange(4, dtype=np.int64) * 512 + chunk}


def same(found: Arrays, expected: Arrays) -> bool:
    """Whether names, types, shapes and all numbers are the same."""
    return list(found) == list(expected) and all(
        array.dtype == expected[name].dtype
        and array.shape == expected[name].shape
        and array.tobytes() == expected[name].tobytes()
        for name, array in found.items()
    )

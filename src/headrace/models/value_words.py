"""Descriptions of values for errors: type, dtype and shape."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import torch

_SHOWN: Final = 4
"""Max entries of a mapping in a description."""


def value_words(value: Any) -> str:
    """Return the description of a value: "tensor float32 [8, 512]", "list of 3 x tensor int64 []".

    Lists and tuples are described by their first entry; contents of tensors are left out.
    """
    if isinstance(value, torch.Tensor):
        where = "" if value.device.type == "cpu" else f" on {value.device}"
        return f"tensor {str(value.dtype).removeprefix('torch.')} {[*value.shape]}{where}"
    if isinstance(value, np.ndarray):
        return f"numpy array {value.dtype} {[*value.shape]}"
    kind = type(value).__name__
    if isinstance(value, Mapping):
        named = [f"{name!r}: {value_words(item)}" for name, item in list(value.items())[:_SHOWN]]
        return f"{kind} of {', '.join(named)}" if named else f"empty {kind}"
    if isinstance(value, list | tuple):
        return f"{kind} of {len(value)} x {value_words(value[0])}" if value else f"empty {kind}"
    return kind

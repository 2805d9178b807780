"""The groups of a key that no model has a part in, read off the values that a run is made of."""

from importlib.metadata import version
from typing import Any

from headrace.decode.decoding import Decoding


def decode_facts(decoding: Decoding, *, on_error: str) -> dict[str, Any]:
    """What decides the pixels: `ChunkKey.decode`.

    PyAV's version stands for FFmpeg's, which comes inside it.
    """
    return {
        "backend": decoding.backend,
        "version": version("av"),
        "device": decoding.device.partition(":")[0],
        "on_error": on_error,
    }

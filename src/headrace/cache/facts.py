"""The groups of a key that no model has a part in, read off the values that a run is made of."""

from importlib.metadata import version
from typing import Any

from headrace.decode.decoding import Decoding


def decode_facts(decoding: Decoding, *, on_error: str) -> dict[str, Any]:
    """What decides the pixels: `ChunkKey.decode`.

    PyAV's version stands for FFmpeg's, which comes inside it; torchcodec's does not, and frames by
    any of those it loads are the same within a tolerance.
    """
    return {
        "backend": decoding.backend,
        "version": version("av" if decoding.backend == "pyav" else decoding.backend),
        "device": decoding.device.partition(":")[0],
        "on_error": on_error,
    }

"""A GPU where there is none: the CPU decodes for it, and does wrong what a test asks for."""

from collections.abc import Callable, Iterator

import pytest

from headrace.decode import open_decoder as open
from headrace.decode.decoder_config import ON_CPU, DecoderConfig
from headrace.decode.gpu import device_scheduler
from headrace.decode.pyav import PyavDecoder
from headrace.errors import BackendError

GPU = "cuda:0"


class Double(PyavDecoder):
    """A decoder in place of one on a GPU."""

    def __init__(self, index, shape=None, decoding=ON_CPU, *converter) -> None:
        super().__init__(index, shape, ON_CPU, *converter)

    def run(self, job, out=None) -> Iterator:
        """Yield what the CPU does."""
        return self.changed(super().run(job, out))

    def changed(self, frames):
        """Return what the GPU makes of it."""
        return frames


class Fails(Double):
    """Gives two frames, then none of its memory is left."""

    def changed(self, frames):
        for number, pixels in frames:
            if number >= 2:
                pixels[...] = 99
                raise BackendError(f"GPU 0 returned no frame {number}; leave gpu out")
            yield number, pixels


class PassesOver(Double):
    """Gives every frame but each fifth."""

    def changed(self, frames):
        return (found for found in frames if found[0] % 5 != 3)


def stands_in(monkeypatch: pytest.MonkeyPatch, double: Callable = Double) -> list[DecoderConfig]:
    """Have GPU 0, and decoders on it made by `double`; return how each decoder is made from now."""
    made = []

    def open_one(index, shape=None, decoding=ON_CPU, *converter):
        made.append(decoding)
        one = PyavDecoder if decoding.gpu is None else double
        return one(index, shape, decoding, *converter)

    monkeypatch.setattr(device_scheduler, "cpu_only_reason", lambda _: None)
    monkeypatch.setattr(open, "PyavDecoder", open_one)
    return made

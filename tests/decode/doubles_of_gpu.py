"""Fake GPU: the CPU decodes in its place, with faults that a test selects."""

from collections.abc import Callable, Iterator

import pytest

from headrace.decode import open_decoder as open
from headrace.decode.decoder_config import ON_CPU, DecoderConfig
from headrace.decode.gpu import device_scheduler
from headrace.decode.pyav import PyavDecoder
from headrace.errors import BackendError

GPU = "cuda:0"


class Double(PyavDecoder):
    """Fake of a decoder on a GPU."""

    def __init__(self, index, shape=None, decoding=ON_CPU, *converter) -> None:
        super().__init__(index, shape, ON_CPU, *converter)

    def run(self, job, out=None) -> Iterator:
        """Yield the CPU's frames, changed."""
        return self.changed(super().run(job, out))

    def changed(self, frames):
        """Return the frames with the GPU's faults."""
        return frames


class Fails(Double):
    """Returns two frames, then fails for lack of memory."""

    def changed(self, frames):
        for number, pixels in frames:
            if number >= 2:
                pixels[...] = 99
                raise BackendError(f"GPU 0 returned no frame {number}; leave gpu out")
            yield number, pixels


class PassesOver(Double):
    """Skips each fifth frame."""

    def changed(self, frames):
        return (found for found in frames if found[0] % 5 != 3)


def stands_in(monkeypatch: pytest.MonkeyPatch, double: Callable = Double) -> list[DecoderConfig]:
    """Fake GPU 0 with decoders `double`; return the list of configurations of later decoders."""
    made = []

    def open_one(index, shape=None, decoding=ON_CPU, *converter):
        made.append(decoding)
        one = PyavDecoder if decoding.gpu is None else double
        return one(index, shape, decoding, *converter)

    monkeypatch.setattr(device_scheduler, "cpu_only_reason", lambda _: None)
    monkeypatch.setattr(open, "PyavDecoder", open_one)
    return made

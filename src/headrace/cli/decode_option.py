"""The option `--decode`: what decodes, and where."""

from typing import Annotated, Final

import typer

from headrace.cli.early import checking

_WAYS: Final = {
    "cpu": "PyAV, on the CPU",
    "cuda": "NVDEC, on the first NVIDIA GPU",
    "auto": "the CPU and the first NVIDIA GPU, each where it is sooner",
    "torchcodec": "torchcodec, on the CPU",
    "torchcodec:cuda": "torchcodec, on the first NVIDIA GPU",
    "pynvvideocodec:cuda": "PyNvVideoCodec, on the first NVIDIA GPU",
}
"""What a shell completes -> what it says of it; `cuda:1` is the second GPU."""


def _check(way: str) -> None:
    """Raise ConfigError where `way` names no way to decode."""
    from headrace.decode.decoding import Decoding

    Decoding.named(way)


def _completed(begun: str) -> list[tuple[str, str]]:
    return [(way, words) for way, words in _WAYS.items() if way.startswith(begun)]


Decode = Annotated[
    str,
    typer.Option(
        metavar="cpu|cuda[:N]|auto|torchcodec[:cuda:N]|pynvvideocodec:cuda[:N]",
        help="What decodes files, and where: the CPU, an NVIDIA GPU, both, or another library.",
        callback=checking(_check),
        autocompletion=_completed,
    ),
]

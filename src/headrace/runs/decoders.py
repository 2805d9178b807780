"""Decoder checks of a run, before it reads files and before it writes results."""

from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import Final

from headrace.decode.decoder_config import ON_CPU, DecoderConfig, to_option_words, use_option_words
from headrace.decode.open_decoder import capabilities_of
from headrace.errors import BackendError, ConfigError, MediaError
from headrace.extraction.image_reader import ImageReader
from headrace.loaders.loader_options import check_gpu
from headrace.runs.model_setup import StartupTimer
from headrace.runs.run_inputs import Reader, RunInputs, batches_of
from headrace.runs.run_options import RunOptions
from headrace.video.stream_index import StreamIndex

_MAX_FILES_IN_NOTES: Final = 100
"""Max files named in the notes of a run."""


def check_decoder(options: RunOptions) -> None:
    """Check that the decoder exists and fits the other options. Does not initialize CUDA.

    Raises:
        ConfigError: options contradict each other.
        BackendError: a GPU or a package is missing.
    """
    name, decoding = options.input.decode, options.decoding()
    if decoding.keeps_on_device and decoding.gpu:
        raise ConfigError(
            f"--decode {name} leaves frames on GPU {decoding.gpu}, and --prep-on-gpu preprocesses "
            "them on GPU 0; give --decode cuda, with CUDA_VISIBLE_DEVICES for another GPU, or "
            "leave --prep-on-gpu out"
        )
    if decoding.backend == "torchcodec" and options.input.on_error == "conceal":
        raise ConfigError(
            "--on-error conceal needs a decoder that reports damaged frames, and --decode "
            f"{name} does not; leave --decode out, or give --on-error skip"
        )
    with use_option_words():
        check_gpu(decoding.gpu)
        capabilities_of(decoding)


def check_inputs(inputs: RunInputs, options: RunOptions) -> None:
    """Check that the decoder supports every input, by its index.

    Raises:
        ConfigError: inputs are images, which only the CPU decodes.
        BackendError: the decoder does not support a video.
    """
    name, decoding = options.input.decode, options.decoding()
    if inputs.images and decoding != ON_CPU:
        raise ConfigError(
            f"--decode {name} is for videos, and {inputs.images[0].path} is an image; leave "
            "--decode out"
        )
    capabilities = capabilities_of(decoding)
    for index in inputs.indexes:
        try:
            capabilities.check(decoding, index)
        except BackendError as error:
            if options.input.rate is not None:
                raise ConfigError(
                    f"--decode {name} is for videos, and {index.source} is an image sequence "
                    "(--framerate); leave --decode out"
                ) from error
            raise BackendError(to_option_words(str(error))) from error


def try_decoder(
    indexes: Sequence[StreamIndex], decoding: DecoderConfig, timer: StartupTimer
) -> None:
    """Decode one frame of the first video of each codec; do nothing if the CPU may decode.

    So a driver without a codec is an error before any result is written. The run itself handles
    damaged files.

    Raises:
        BackendError: the device cannot decode a codec.
    """
    if decoding == ON_CPU or decoding.is_auto:
        return
    first_of_codec = {index.info.codec: index for index in reversed(indexes)}
    for index in first_of_codec.values():
        reader = batches_of([index], batch_size=1, max_batches=1, decoding=decoding)
        with (
            timer.part("decoder"),
            use_option_words(),
            suppress(MediaError),
            closing(iter(reader)) as batches,
        ):
            next(batches, None)


def decoding_notes(batches: Reader) -> tuple[str, ...]:
    """Return notes on `--decode auto`: jobs per device, and why a file was decoded by the CPU."""
    if isinstance(batches, ImageReader) or batches.decoded_by is None:
        return ()
    counters = batches.decoded_by
    files = [f"decoded by the CPU: {file}: {reason}" for file, reason in counters.on_cpu.items()]
    excess = len(files) - _MAX_FILES_IN_NOTES
    more = [f"and {excess} more files"] if excess > 0 else []
    return (
        f"decoded by {replace(counters, on_cpu={})}",
        *files[:_MAX_FILES_IN_NOTES],
        *more,
    )

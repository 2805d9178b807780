"""What decodes a run: checked before anything is read, and tried before anything is written."""

from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import Final

from headrace.decode.decoder_config import ON_CPU, DecoderConfig, in_option_words, saying_option
from headrace.decode.open_decoder import capabilities_of
from headrace.errors import BackendError, ConfigError, MediaError
from headrace.extraction.image_reader import ImageReader
from headrace.loaders.devices import check_gpu
from headrace.runs.model_setup import StartWatch
from headrace.runs.run_inputs import Reader, RunInputs, batches_of
from headrace.runs.run_options import RunOptions
from headrace.video.stream_index import StreamIndex

_NAMED: Final = 100
"""Files that notes name."""


def check_decoder(options: RunOptions) -> None:
    """Check that what is to decode is here, and goes together with the rest. Starts no CUDA.

    Raises:
        ConfigError: it does not go together.
        BackendError: a GPU or a package is missing.
    """
    way, decoding = options.input.decode, options.decoding()
    if decoding.keeps_on_device and decoding.gpu:
        raise ConfigError(
            f"--decode {way} leaves frames on GPU {decoding.gpu}, and --prep-on-gpu preprocesses "
            "them on GPU 0; give --decode cuda, with CUDA_VISIBLE_DEVICES for another GPU, or "
            "leave --prep-on-gpu out"
        )
    if decoding.backend == "torchcodec" and options.input.on_error == "conceal":
        raise ConfigError(
            f"--on-error conceal needs to be told which frames are damaged, which --decode {way} "
            "does not tell; leave --decode out, or give --on-error skip"
        )
    with saying_option():
        check_gpu(decoding.gpu)
        capabilities_of(decoding)


def check_media(media: RunInputs, options: RunOptions) -> None:
    """Check that all that is to be read can be decoded that way, as far as the indexes tell.

    Raises:
        ConfigError: pictures were given, which only the CPU decodes.
        BackendError: a video cannot be decoded that way.
    """
    way, decoding = options.input.decode, options.decoding()
    if media.pictures and decoding != ON_CPU:
        raise ConfigError(
            f"--decode {way} is for videos, and {media.pictures[0].path} is a picture; leave "
            "--decode out"
        )
    able = capabilities_of(decoding)
    for index in media.indexes:
        try:
            able.check(decoding, index)
        except BackendError as error:
            if options.input.rate is not None:
                raise ConfigError(
                    f"--decode {way} is for videos, and {index.source} is pictures (--framerate); "
                    "leave --decode out"
                ) from error
            raise BackendError(in_option_words(str(error))) from error


def try_decoder(indexes: Sequence[StreamIndex], decoding: DecoderConfig, watch: StartWatch) -> None:
    """Decode a frame of the first video of each codec; nothing where the CPU is there for it.

    So a driver that lacks something, or a GPU that does not decode such video, is told of before
    anything is written. A file that is damaged is left to the run.

    Raises:
        BackendError: it cannot be decoded that way.
    """
    if decoding == ON_CPU or decoding.is_auto:
        return
    firsts = {index.info.codec: index for index in reversed(indexes)}
    for index in firsts.values():
        reader = batches_of([index], batch_size=1, max_batches=1, decoding=decoding)
        with (
            watch.part("decoder"),
            saying_option(),
            suppress(MediaError),
            closing(iter(reader)) as batches,
        ):
            next(batches, None)


def notes_on_decoding(batches: Reader) -> tuple[str, ...]:
    """Return what the CPU and the GPU did by `--decode auto`, and why files stayed on the CPU."""
    if isinstance(batches, ImageReader) or batches.decoded_by is None:
        return ()
    told = batches.decoded_by
    files = [f"decoded by the CPU: {file}: {reason}" for file, reason in told.on_cpu.items()]
    more = [f"and {len(files) - _NAMED} files more"] if len(files) > _NAMED else []
    return (f"decoded by {replace(told, on_cpu={})}", *files[:_NAMED], *more)

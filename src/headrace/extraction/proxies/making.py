"""One proxy: every frame of a video decoded, encoded, compared, and read back from the disk."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headrace.decode.packet_table import ProxyPackets
from headrace.decode.pixels import Array
from headrace.decode.protocol import Decoder
from headrace.errors import StageError, first_line, reason_of
from headrace.extraction.jobs import JobLine, jobs
from headrace.extraction.proxies.encoder import Look, ProxyFile
from headrace.extraction.proxies.read_back import FAULTS, digests_of, packets_of
from headrace.extraction.proxies.request import Recipe
from headrace.extraction.proxies.times import PlayTimes
from headrace.extraction.step_watch import StepWatch
from headrace.planning.stretches import stretches
from headrace.video.metadata import read_metadata
from headrace.video.shape import TAG_BYTES
from headrace.video.stream_index import StreamIndex

PARTS: Final = ("decode", "encode", "compare")
"""They follow each other in one worker."""
_JOB_BYTES: Final = 16 << 20
"""Of frames that are decoded before they are encoded."""
_SQUARE: Final = Fraction(1, 50)
"""How far from square pixels may be that players are told to be: sides are rounded to even."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MadeProxy:
    """What there is to know of a proxy that lies on disk."""

    look: Look
    packets: ProxyPackets
    psnr: Mapping[str, float]
    ssim: Mapping[str, float]


def make_proxy(
    decoder: Decoder[Array],
    recipe: Recipe,
    path: Path,
    watch: StepWatch,
    wanted: NDArray[np.int64] | None = None,
) -> MadeProxy:
    """Write the proxy of a video to `path`, and read it back.

    Args:
        decoder: Of the video; gives frames packed as YUV 4:2:0, in the size of the proxy.
        recipe: How it is encoded.
        path: Where it is written; it lies there when this returns, and only then.
        watch: Times `PARTS`.
        wanted: Indices of the frames of a sample, int64, ascending; None: all, as of a proxy.

    Raises:
        ConfigError: it cannot be written.
        BackendError: the encoder refuses frames of this size.
        DecodeError: a frame cannot be decoded.
        StageError: what lies on disk is not what was written.
    """
    index, size = decoder.index, decoder.shape.size
    assert size is not None
    lost: list[int] = []
    wanted = np.arange(len(index)) if wanted is None else wanted
    frames = _timed(_frames(decoder, recipe, wanted, lost), watch)
    first = next(frames)
    look = Look.of(recipe.codec, recipe.gop, size, _colour(first[1]), _pixel_aspect(index, size))
    with ProxyFile(path, look, PlayTimes.of(index)) as file:
        for number, packed in chain([first], frames):
            with watch.part("encode"):
                coded = file.write(packed)
            with watch.part("compare"):
                file.compare(coded)
            watch.came(number)
        with watch.part("encode"):
            coded = file.finish()
        with watch.part("compare"):
            file.compare(coded)
            packets = _read_back(file, index, len(wanted), lost)
    watch.end_step()
    return MadeProxy(
        look=look,
        packets=packets,
        psnr=file.likeness.psnr,
        ssim=file.likeness.ssim,
    )


def _read_back(file: ProxyFile, index: StreamIndex, frames: int, lost: list[int]) -> ProxyPackets:
    """Return where the packets of a file are, which show what was compared."""
    fault: Exception | None = None
    try:
        packets = packets_of(file.path, file.look, lost)
        is_whole = len(packets.offsets) == frames
        if is_whole and list(digests_of(file.path, packets)) == file.digests:
            return packets
    except FAULTS as error:
        fault = error
    file.path.unlink(missing_ok=True)
    reason = reason_of(fault) if isinstance(fault, OSError) else fault and first_line(fault)
    why = f" ({reason})" if reason else ""
    raise StageError(
        f"the proxy of {index.source} reads back otherwise than it was written to {file.path}"
        f"{why}; check the disk, and run the same command again",
        stage="compare",
    ) from fault


def _frames(
    decoder: Decoder[Array], recipe: Recipe, wanted: NDArray[np.int64], lost: list[int]
) -> Iterator[tuple[int, Array]]:
    """Yield the wanted frames in order; add those that are concealed to `lost`."""
    size = decoder.shape.size
    assert size is not None
    (num_bytes,) = decoder.shape.array_shape(size)
    most = max(1, _JOB_BYTES // num_bytes)
    planned = list(stretches(0, decoder.index, wanted, at_least=most))
    line = JobLine(jobs(planned, conceals=recipe.conceals))
    while taken := line.take(most):
        for job in taken:
            # Concealed ones come last.
            found = sorted(decoder.run(job), key=lambda frame: frame[0])
            lost += decoder.concealed
            yield from found


def _timed(frames: Iterator[tuple[int, Array]], watch: StepWatch) -> Iterator[tuple[int, Array]]:
    while True:
        with watch.part("decode"):
            found = next(frames, None)
        if found is None:
            return
        yield found


def _colour(packed: Array) -> tuple[int, int]:
    matrix, span = packed[-TAG_BYTES:].tolist()
    return matrix, span


def _pixel_aspect(index: StreamIndex, size: tuple[int, int]) -> Fraction:
    """Return what players are told, so that they show a proxy as they show its original."""
    (height, width), (tall, wide) = size, index.info.upright_size
    asked = read_metadata(index).pixel_aspect or Fraction(1)
    aspect = asked * Fraction(wide * height, width * tall)
    return Fraction(1) if abs(aspect - 1) < _SQUARE else aspect.limit_denominator(255)

"""The methods that `bench decode` compares: backends of headrace by device, and decord."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final, Literal, TypeAlias

import numpy as np

from headrace.decode.decoding import Decoding
from headrace.decode.open import capabilities_of, open_decoder
from headrace.decode.pixels import Array
from headrace.decode.protocol import DecodeJob
from headrace.decode.tolerance import Apart
from headrace.errors import BackendError
from headrace.video.stream_index import StreamIndex

Access = Literal["in-order", "random"]
_HELD: Final = 8
"""Stretches of which a picture is held against PyAV's."""
_COUNT: Final = {"in-order": 8, "random": 24}
_LENGTH: Final = {"in-order": 32, "random": 1}
"""Frames."""
_GOLDEN_RATIO: Final = 0.618_033_988_749_895


@dataclass(frozen=True, kw_only=True)
class Method:
    """One way to decode."""

    way: str
    """What it is called."""
    device: Literal["CPU", "GPU"]
    decoding: Decoding | None
    """How headrace decodes that way; None: it is not headrace that does."""


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """What one decoder reads at once: frames of one video, ascending."""

    video: int
    wanted: tuple[int, ...]


Pictures: TypeAlias = Sequence[Array]
"""For each stretch its last frame; an empty array for those that are not held."""
_Frames: TypeAlias = Callable[[tuple[int, ...]], Iterator[Array]]
"""Indices → their frames."""


def methods(gpu: int) -> tuple[Method, ...]:
    """Return all there are; the first is what the others are compared with."""
    there = f"cuda:{gpu}"
    torchcodec = Decoding(backend="torchcodec")
    on_gpu = Decoding(backend="torchcodec", device=there)
    by_nvidia = Decoding(backend="pynvvideocodec", device=there)
    return (
        Method(way="PyAV", device="CPU", decoding=Decoding()),
        Method(way="torchcodec CPU", device="CPU", decoding=torchcodec),
        Method(way="torchcodec CUDA", device="GPU", decoding=on_gpu),
        Method(way="NVDEC", device="GPU", decoding=Decoding(device=there)),
        Method(way="PyNvVideoCodec", device="GPU", decoding=by_nvidia),
        Method(way="decord", device="CPU", decoding=None),
    )


def why_not(method: Method, gpu: int) -> tuple[str, str] | None:
    """Return why a method cannot run here, in a word or two and in full; None where it may."""
    import torch

    if method.decoding is None and find_spec("decord") is None:
        return "not installed", "decord is not installed (pip install decord)"
    if method.decoding is not None:
        try:
            capabilities_of(method.decoding)
        except BackendError as error:
            is_missing = isinstance(error.__cause__, ImportError)
            return "not installed" if is_missing else "not usable", str(error)
    count = torch.cuda.device_count()
    if method.device == "GPU" and gpu >= count:
        found = f"{count} of them" if count else "no NVIDIA GPU"
        return "no GPU", f"it needs GPU {gpu}, and PyTorch {torch.__version__} sees {found} here"
    return None


def stretches_of(indexes: Sequence[StreamIndex], access: Access) -> tuple[Stretch, ...]:
    """Return what every method reads: spread over all videos, the same each time."""
    stretches = []
    for number in range(_COUNT[access]):
        video = number % len(indexes)
        index = indexes[video]
        place = int((number + 1) * _GOLDEN_RATIO % 1 * len(index))
        start = index.gop_range(index.gop_of(place))[0] if access == "in-order" else place
        wanted = range(start, min(len(index), start + _LENGTH[access]))
        stretches.append(Stretch(video=video, wanted=tuple(wanted)))
    return tuple(stretches)


class Reader(AbstractContextManager["Reader"]):
    """Reads stretches by one method, one decoder for each video, in this thread."""

    def __init__(self, method: Method, indexes: Sequence[StreamIndex]) -> None:
        """Open all videos.

        Raises:
            BackendError, MediaError: the method cannot decode one.
        """
        self._stack = ExitStack()
        with ExitStack() as stack:
            self._open = [_opened(method, index, stack) for index in indexes]
            self._stack = stack.pop_all()

    def read(self, stretch: Stretch) -> Iterator[Array]:
        """Yield the frames of a stretch, uint8 [H, W, 3], RGB, on the CPU."""
        return self._open[stretch.video](stretch.wanted)

    def count(self, stretch: Stretch) -> int:
        """Read a stretch; return how many frames it has."""
        return sum(1 for _ in self.read(stretch))

    def __exit__(self, *_: object) -> None:
        self._open.clear()
        self._stack.close()


def last_pictures(reader: Reader, stretches: Sequence[Stretch]) -> list[Array]:
    """Read every stretch once; return the last frame of each of 8, [] for the others."""
    every = max(1, len(stretches) // _HELD)
    nothing = np.empty(0, np.uint8)
    pictures = []
    for number, stretch in enumerate(stretches):
        last = nothing
        for frame in reader.read(stretch):
            last = frame
        pictures.append(last if number % every == 0 else nothing)
    return pictures


def compared(found: Sequence[Array], expected: Pictures) -> list[Apart | None]:
    """Return how far the pictures that were held are apart; None where they differ in size."""
    return [
        Apart.between(ours, theirs)
        for ours, theirs in zip(found, expected, strict=True)
        if theirs.size
    ]


def _opened(method: Method, index: StreamIndex, stack: ExitStack) -> _Frames:
    """Return what yields frames by index."""
    if method.decoding is None:
        return _opened_by_decord(index)
    decoder = open_decoder(index, None, method.decoding)
    stack.callback(decoder.close)
    return lambda wanted: (frame for _, frame in decoder.run(DecodeJob(wanted)))


def _opened_by_decord(index: StreamIndex) -> _Frames:
    """Return what yields frames by decord's own numbers, of which it has as many as we.

    Raises:
        BackendError: it cannot open the file, or counts other frames.
    """
    import decord

    asked = f"decord was asked for to decode {index.source}"
    try:
        reader = decord.VideoReader(str(index.source.path), ctx=decord.cpu(0), num_threads=1)
    except (RuntimeError, OSError, decord.DECORDError) as error:
        raise BackendError(f"{asked}: {str(error).partition(chr(10))[0]}") from error
    if len(reader) != len(index):
        raise BackendError(f"{asked}: it counts {len(reader)} frames, and there are {len(index)}")

    def frames(wanted: tuple[int, ...]) -> Iterator[Array]:
        try:
            for number in wanted:
                yield np.asarray(reader[number].asnumpy(), np.uint8)
        except (RuntimeError, IndexError, decord.DECORDError) as error:
            raise BackendError(f"{asked}: {str(error).partition(chr(10))[0]}") from error

    return frames

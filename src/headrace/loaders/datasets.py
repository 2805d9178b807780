"""ItemDataset: map-style dataset that decodes its items; VideoDataset: a clip of each video."""

import os
from collections.abc import Callable
from typing import Any, Final, Generic, Literal, Self, TypedDict, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from headrace.argument_names import answers_names
from headrace.decode.decoder_config import ON_CPU, DecoderConfig
from headrace.decode.index_store import IndexStore
from headrace.decode.open_decoder import DecoderPool
from headrace.decode.protocol import (
    DecodeCounters,
    DecodeJob,
    OnError,
    check_on_error,
    decode_stacked,
)
from headrace.decode.spilled_decoder import open_spill
from headrace.errors import BackendError, ConfigError, DecodeError, MediaError
from headrace.loaders.collate import Transform, check_transforms, transform_samples
from headrace.loaders.loader_options import check_decoding
from headrace.loaders.sampled_set import Given, SampledSet
from headrace.planning.chunks import split_ranges
from headrace.sampling.clip_shape import Boundary, clip_indices, clip_span
from headrace.sampling.counter_rng import ATTEMPTS, CounterRng, RngStream
from headrace.units import check_integers
from headrace.video.frame_format import Fit, FrameFormat, Interpolation, PixelType

_Item = TypeVar("_Item")


class DecodingDataset(Dataset[_Item]):
    """Dataset that owns a pool of decoders."""

    def __init__(self, pool: DecoderPool) -> None:
        self._pool = pool

    @property
    def counters(self) -> DecodeCounters:
        """Decode counters of this process; each worker of a DataLoader has its own."""
        return self._pool.counters

    def close(self) -> None:
        """Close the files of this process; the dataset can be used again."""
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ClipItem(TypedDict):
    """A clip of T frames with its video, indices and times."""

    frames: Any
    """uint8 [T, 3, H, W] in [0, 255], RGB, upright, channels innermost in memory; or the result of
    `transform`."""
    row: int
    """Position of the row in the manifest; for a list of videos, the same as `video`. The other
    columns of the row are entries too: `item["label"]`."""
    video: int
    """Position of the video in the given list, or in `manifest.videos`."""
    index: torch.Tensor
    """int64 [T]: index of each frame in presentation order."""
    pts_seconds: torch.Tensor
    """float64 [T]: presentation time of each frame, in seconds."""
    is_concealed: torch.Tensor
    """bool [T]: as in `FrameItem`."""


_NO_EPOCH = -1
"""Epoch before the first call of `set_epoch`."""
NONE: Final = -1
"""Frame id of an item that has no usable frame."""


class ItemDataset(DecodingDataset[_Item], Generic[_Item]):
    """Dataset whose video indexes are read once, in the main process.

    Forked workers share the indexes, spawned workers receive a copy; no worker reads them from
    disk. Each process opens the video files itself. One thread per process may use it.
    """

    def __init__(
        self,
        videos: Given,
        shape: FrameFormat,
        transform: Transform | None,
        *,
        on_error: OnError,
        seed: int,
        decoding: DecoderConfig,
        index_store: IndexStore | None,
        max_open: int,
        spill: str | os.PathLike[str] | None,
    ) -> None:
        check_on_error(on_error)
        check_transforms(transform)
        check_integers(0, seed=seed)
        decoding = DecoderConfig.resolve(decoding)
        if decoding.keeps_on_device:
            raise BackendError(
                f"frames of a dataset cannot stay on {decoding.device}: DataLoader workers pass "
                "CPU memory only; use FrameLoader or ClipLoader, or leave out keeps_on_device"
            )
        check_decoding(decoding)
        store = open_spill(spill, decoding)
        super().__init__(DecoderPool(shape, max_open, decoding=decoding, spill=store))
        self._transform = transform
        self._on_error: OnError = on_error
        self._seed = seed
        skip_bad = on_error != "raise"
        self._sampled = SampledSet.open(videos, skip_bad=skip_bad, index_store=index_store)
        self._videos = self._sampled.videos
        self._videos.check_fit(shape.fit)
        # In shared memory, so that persistent workers see a new epoch.
        self._epoch = share_memory(torch.full((), _NO_EPOCH, dtype=torch.int64))

    @property
    def skipped_videos(self) -> tuple[MediaError, ...]:
        """Errors of skipped videos and rows; each names its file."""
        return self._sampled.skipped

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch that random numbers are drawn from, in workers too."""
        check_integers(0, epoch=epoch)
        self._epoch.fill_(epoch)

    @property
    def _current_epoch(self) -> int | None:
        """The epoch of `set_epoch`; None before its first call."""
        epoch = int(self._epoch)
        return None if epoch == _NO_EPOCH else epoch

    def _format(self, video: int) -> FrameFormat | None:
        """Return the format of a video's frames; None: the dataset's format."""
        return None

    def _decode_frames(
        self, video: int, wanted: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Decode `wanted` frames of a video, strictly ascending; return pixels and `is_concealed`.

        uint8 [N, H, W, 3] and bool [N].

        Raises:
            MediaError: a frame cannot be decoded.
        """
        index = self._videos.indexes[video]
        conceals = self._on_error == "conceal"
        jobs = (
            DecodeJob(gop_range.wanted, conceals=conceals)
            for gop_range in split_ranges(video, index, wanted)
        )
        pixels, concealed = decode_stacked(
            self._pool.decoder(index, shape=self._format(video)), jobs
        )
        return pixels, np.isin(wanted, list(concealed))

    def _find_lost(
        self, video: int, wanted: NDArray[np.int64], error: MediaError
    ) -> NDArray[np.bool_]:
        """Return which `wanted` frames are lost by an error, bool [N]; raise it for `raise`."""
        if self._on_error == "raise":
            raise error
        self._pool.drop(self._videos.indexes[video], None)
        lost = np.isin(wanted, error.missing if isinstance(error, DecodeError) else ())
        return lost if lost.any() else np.ones(len(wanted), bool)

    def _decode_items(
        self,
        requested: NDArray[np.int64],
        frames_of: Callable[[NDArray[np.int64]], NDArray[np.int64]],
        num_items: int,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], dict[int, tuple[NDArray[np.uint8], bool]]]:
        """Decode items; return them with substitutes for bad ones, their frame ids, and the frames.

        The frames are a dict: frame id → pixels and `is_concealed`.

        Args:
            requested: int64 [N]: items.
            frames_of: Returns the frame ids of items, [N] or [N, S]; `NONE` for an unusable item.
            num_items: Number of items that substitutes are drawn from.
        """
        items, decoded = requested.copy(), dict[int, tuple[NDArray[np.uint8], bool]]()
        attempt, bad = 0, {NONE}
        while True:
            frames = frames_of(items)
            bad |= self._decode_into(decoded, np.setdiff1d(frames, [NONE, *decoded]))
            is_bad = np.isin(frames, [*bad]).any(axis=tuple(range(1, frames.ndim)))
            if not is_bad.any():
                return items, frames, decoded
            for k in np.flatnonzero(is_bad).tolist():
                items[k] = self._substitute(int(requested[k]), attempt, num_items)
            attempt += 1

    def _decode_into(
        self, decoded: dict[int, tuple[NDArray[np.uint8], bool]], frames: NDArray[np.int64]
    ) -> set[int]:
        """Add `frames`, strictly ascending, to `decoded`; return the bad ones."""
        bad = set[int]()
        videos, indices = self._videos.population.locate(frames)
        for video in np.unique(videos).tolist():
            ids, wanted = frames[videos == video], indices[videos == video]
            while len(wanted):
                try:
                    pixels, concealed = self._decode_frames(video, wanted)
                except MediaError as error:
                    lost = self._find_lost(video, wanted, error)
                    bad.update(ids[lost].tolist())
                    ids, wanted = ids[~lost], wanted[~lost]
                    continue
                pairs = zip(pixels, concealed.tolist(), strict=True)
                decoded.update(zip(ids.tolist(), pairs, strict=True))
                break
        return bad

    def _substitute(self, item: int, attempt: int, num_items: int) -> int:
        """Return the substitute of a bad item, one of `num_items`."""
        if attempt == ATTEMPTS:
            raise ConfigError(
                f"item {item} and {ATTEMPTS} substitutes cannot be decoded; check the files with "
                "headrace index, and leave out bad ones"
            )
        draws = CounterRng(
            seed=self._seed, epoch=self._current_epoch or 0, purpose=RngStream.SUBSTITUTE
        )
        return int(draws.integers(item * ATTEMPTS + attempt, num_items))


@answers_names
class VideoDataset(ItemDataset[ClipItem]):
    """One clip of each video: `dataset[i]` is a clip of video i.

        clips = VideoDataset(files, clip_len=16, stride=2, transform=None, size=(256, 256))
        for batch in DataLoader(clips, batch_size=4, num_workers=2): ...

    An item is a `ClipItem`, a dict; a batch is a dict with the same keys. The start of a clip is
    drawn from (seed, epoch, i), among all starts with which it is inside its video; it does not
    depend on the process or the order of requests. The epoch is set by `set_epoch`; before its
    first call, it is the number of earlier requests for the clip, so each pass has new clips.
    """

    def __init__(
        self,
        files: Given,
        clip_len: int = 16,
        stride: int = 2,
        transform: Transform | None = None,
        *,
        size: tuple[int, int] | None = None,
        fit: Fit = "stretch",
        interpolation: Interpolation = "area",
        dtype: PixelType = "uint8",
        start: int | Literal["random"] = "random",
        boundary: Boundary = "error",
        on_error: OnError = "raise",
        seed: int = 0,
        decoding: DecoderConfig = ON_CPU,
        index_store: IndexStore | None = None,
        max_open: int = 4,
        spill: str | os.PathLike[str] | None = None,
    ) -> None:
        """Open the index of every video. Decodes nothing.

        Args:
            files: Paths of the videos; or a `Manifest`, whose rows are sampled like videos.
            clip_len: Frames of a clip, T.
            stride: Distance between frames of a clip; 1: consecutive frames of the video.
            transform: Function of each clip, or `WithSample`; random by (seed, epoch, i).
            size: (height, width) of the frames; None: the video's, equal within a batch.
            fit: Rule for a `size` with another aspect ratio: `stretch`, `cover` or `contain`.
            interpolation: `area`, or torchvision's antialiased `bilinear` or `bicubic`.
            dtype: `uint8`, or `uint16` for video of more than 8 bits.
            start: Index of the first frame, the same for every video and epoch, or `random`.
            boundary: Rule for a clip that reaches beyond its video: see `clip_indices`.
            on_error: Policy for bad media. `skip` skips videos that cannot be opened, and draws
                others for bad clips, by (seed, epoch, i). `conceal` delivers concealed frames.
            seed: Seed of random clips.
            decoding: Decoder and device. For a GPU, workers of a DataLoader must be spawned.
            index_store: Store of the indexes; None: the user's cache folder.
            max_open: Max open files per process.
            spill: Folder of decoded frames on a local disk, read and written: see `headrace.open`.

        Raises:
            ConfigError: an argument is out of range, or a video is too short for a clip.
            OpenError, ScanError: a video cannot be read, and `on_error` is "raise".
        """
        self._clip_len, self._stride, self._start = _checked_clip(clip_len, stride, start)
        self._boundary: Boundary = boundary
        super().__init__(
            files,
            FrameFormat(size=size, fit=fit, interpolation=interpolation, dtype=dtype),
            transform,
            on_error=on_error,
            seed=seed,
            decoding=decoding,
            index_store=index_store,
            max_open=max_open,
            spill=spill,
        )
        self._visits = share_memory(torch.zeros(len(self), dtype=torch.int64))
        self.clip_indices(int(self._sampled.population.frames_per_video.argmin()))

    def __len__(self) -> int:
        """Number of videos, or of rows."""
        return self._sampled.population.num_videos

    def clip_indices(self, video: int) -> NDArray[np.int64]:
        """Return the frame indices of a video's next clip, int64 [T]; of a row, from its start."""
        population = self._sampled.population
        length = int(population.frames_per_video[video])
        start = self._start
        if start == "random":
            draws = CounterRng(
                seed=self._seed, epoch=self._epoch_of(video), purpose=RngStream.START
            )
            starts = max(1, length - clip_span(self._clip_len, self._stride) + 1)
            start = int(draws.integers(video, starts))
        try:
            return clip_indices(length, start, self._clip_len, self._stride, self._boundary)
        except ConfigError as error:
            raise ConfigError(f"no clip fits into {population.name(video)}: {error}") from error

    def __getitem__(self, video: int) -> ClipItem:
        """Return the clip of a video.

        Raises:
            IndexError: `video` is out of range.
            OpenError, DecodeError: the file has changed, or the clip cannot be decoded, and
                `on_error` is "raise". For a worker, a DataLoader raises RuntimeError with the same
                message.
        """
        if not 0 <= video < len(self):
            raise IndexError(f"video {video} is out of range: the dataset has {len(self)}")
        check_integers(0, video=video)
        draws = CounterRng(
            seed=self._seed, epoch=self._epoch_of(video), purpose=RngStream.TRANSFORM
        )
        item = self._clip(video)
        self._visits[video] += 1
        if self._transform is not None:
            sample = {name: value for name, value in item.items() if name != "frames"}
            seeds = [int(draws.words(video))]
            [item["frames"]] = transform_samples(self._transform, [item["frames"]], [sample], seeds)
        return item

    def _epoch_of(self, video: int) -> int:
        epoch = self._current_epoch
        return int(self._visits[video]) if epoch is None else epoch

    def _clip(self, video_or_row: int) -> ClipItem:
        """Decode the clip of a video or row, or of its substitute."""
        row, attempt = video_or_row, 0
        while True:
            ids = self._sampled.population.frame_ids(np.array(row), self.clip_indices(row))
            videos, wanted = self._videos.population.locate(self._sampled.frames_of(ids))
            video = int(videos[0])
            unique, inverse = np.unique(wanted, return_inverse=True)
            try:
                pixels, concealed = self._decode_frames(video, unique)
                break
            except MediaError as error:
                self._find_lost(video, unique, error)
                row = self._substitute(video_or_row, attempt, len(self))
                attempt += 1
        if len(unique) < len(wanted):
            pixels, concealed = pixels[inverse], concealed[inverse]
        seconds = self._videos.pts_seconds(videos, wanted)
        [entries] = self._sampled.entries(ids[:1])
        item = {
            **entries,
            "frames": torch.from_numpy(pixels).movedim(-1, -3),
            "video": int(self._videos.number[video]),
            "index": torch.from_numpy(wanted),
            "pts_seconds": torch.from_numpy(seconds),
            "is_concealed": torch.from_numpy(concealed),
        }
        return cast(ClipItem, item)


def share_memory(tensor: torch.Tensor) -> torch.Tensor:
    """Move a tensor to memory shared with forked and spawned processes, and return it."""
    return tensor.share_memory_()  # type: ignore[no-untyped-call,no-any-return]


def _checked_clip(
    clip_len: int, stride: int, start: int | Literal["random"]
) -> tuple[int, int, int | Literal["random"]]:
    check_integers(1, clip_len=clip_len, stride=stride)
    if start != "random" and not isinstance(start, int | np.integer):
        raise ConfigError(f"start must be a frame index or 'random', got {start!r}")
    return clip_len, stride, start

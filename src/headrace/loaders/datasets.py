"""VideoDataset and FrameDataset: map-style datasets for a stock DataLoader."""

import os
import warnings
from collections.abc import Sequence
from typing import Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.argument_names import answers_names
from headrace.decode.decoder_config import ON_CPU, DecoderConfig
from headrace.decode.index_store import IndexStore
from headrace.decode.protocol import OnError
from headrace.errors import ConfigError, MediaError
from headrace.loaders.collate import Transform, apply_transform, transform_samples
from headrace.loaders.dataset_items import ClipItem, FrameItem, ItemDataset, share_memory
from headrace.loaders.sampled_set import Given
from headrace.sampling.clip_shape import Boundary, clip_indices, clip_span
from headrace.sampling.counter_rng import CounterRng, RngStream
from headrace.sampling.population import Population
from headrace.sampling.sampler import SamplerContext
from headrace.units import check_integers
from headrace.video.frame_format import Fit, FrameFormat, Interpolation, PixelType

_FEW_SINGLE_FRAMES = 64
"""Single-frame requests before the warning about their cost."""


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


@answers_names
class FrameDataset(ItemDataset[FrameItem]):
    """Frames of all videos: `dataset[n]` is frame n, counted over all videos in order.

        frames = FrameDataset(videos, size=(256, 256))
        sampler = EpochSampler(frames, ShuffledFrames())
        for batch in DataLoader(frames, batch_size=128, sampler=sampler, num_workers=2): ...

    A DataLoader requests one batch at a time. Each GOP is then decoded once for all frames of the
    batch, up to the last of them; `FrameLoader` decodes it once for many batches. A dataset that
    wraps this one must forward `__getitems__`, as PyTorch's `Subset` does; otherwise a GOP is
    decoded again for each of its frames, with one warning.
    """

    def __init__(
        self,
        videos: Given,
        size: tuple[int, int] | None = (256, 256),
        transform: Transform | None = None,
        *,
        on_error: OnError = "raise",
        seed: int = 0,
        fit: Fit = "stretch",
        interpolation: Interpolation = "area",
        dtype: PixelType = "uint8",
        decoding: DecoderConfig = ON_CPU,
        index_store: IndexStore | None = None,
        max_open: int = 16,
        spill: str | os.PathLike[str] | None = None,
    ) -> None:
        """Open the index of every video. Decodes nothing.

        Args:
            videos: Paths of the videos; or a `Manifest`, whose rows are sampled like videos, and
                whose columns are entries of each item.
            size: (height, width) of the frames; None: each video's size.
            fit: Rule for a `size` with another aspect ratio: `stretch`, `cover` or `contain`.
            interpolation: `area`, or torchvision's antialiased `bilinear` or `bicubic`.
            dtype: `uint8`, or `uint16` for video of more than 8 bits.
            transform: Function of each frame, uint8 [3, H, W], or `WithSample`. Its random numbers
                from PyTorch, NumPy or `random` depend on (seed, epoch, frame) after the first
                `set_epoch`, which `EpochSampler` calls; before it, on the process's generators.
            on_error: Policy for bad media. `skip` skips a video that cannot be opened, and replaces
                a frame that cannot be decoded by another, drawn from (seed, epoch, frame), with its
                `video` and `index`. `conceal` delivers damaged frames as FFmpeg conceals them,
                marked in `is_concealed`.
            seed: Seed of transforms and replacements.
            decoding: Decoder and device. For a GPU, workers of a DataLoader must be spawned.
            index_store: Store of the indexes; None: the user's cache folder.
            max_open: Max open files per process.
            spill: Folder of decoded frames on a local disk, read and written: see `headrace.open`.

        Raises:
            ConfigError: there is no video, or an argument is out of range.
            OpenError, ScanError: a video cannot be read, and `on_error` is "raise".
        """
        super().__init__(
            videos,
            FrameFormat(size=size, fit=fit, interpolation=interpolation, dtype=dtype),
            transform,
            on_error=on_error,
            seed=seed,
            decoding=decoding,
            index_store=index_store,
            max_open=max_open,
            spill=spill,
        )
        manifest = self._sampled.manifest
        if manifest is not None and "frame" in manifest.columns:
            raise ConfigError(
                "the manifest has a column 'frame', which is the name of the pixels in items of a "
                "FrameDataset; rename the column"
            )
        self._single, self._decoded_for_single, self._is_warned = 0, 0, False

    @property
    def population(self) -> Population:
        """Population of frames: frame ids, their videos and GOPs."""
        return self._sampled.population

    def use(self, *, batch_size: int | None, ranks: int) -> SamplerContext:
        """Return the context for a sampler of its frames; arguments as for `SamplerContext`."""
        return self._sampled.sampler_context(seed=None, batch_size=batch_size, ranks=ranks)

    def timed_population(self) -> Population:
        """Return the population with durations, for uniform sampling in time; 8 bytes per frame."""
        return self._sampled.timed_population()

    @property
    def checksum(self) -> int:
        """Checksum of the videos and rows, in their order."""
        return self._sampled.checksum

    def __len__(self) -> int:
        """Number of frames of all videos or rows; a frame in two rows counts twice."""
        return self.population.num_frames

    def __getitem__(self, frame: int) -> FrameItem:
        """Return one frame. Raises as `__getitems__` does."""
        before = self.counters.frames_decoded
        [item] = self.__getitems__([frame])
        self._single += 1
        self._decoded_for_single += self.counters.frames_decoded - before
        is_costly = self._decoded_for_single >= 2 * self._single >= 2 * _FEW_SINGLE_FRAMES
        if is_costly and not self._is_warned:
            self._is_warned = True
            warnings.warn(
                f"{self._decoded_for_single} frames were decoded for {self._single} requests of "
                "single frames; a dataset that wraps this one must have `def __getitems__(self, "
                "ids)`, which calls this one's __getitems__, so that a batch decodes each GOP once",
                stacklevel=2,
            )
        return item

    def __getitems__(self, frames: Sequence[int]) -> list[FrameItem]:
        """Return frames by id, in the given order; ids may repeat.

        Raises:
            IndexError: an id is out of range.
            OpenError, DecodeError: a file has changed, or a frame cannot be decoded, and `on_error`
                is "raise". For a worker, a DataLoader raises RuntimeError with the same message.
        """
        wanted = np.asarray(frames) if len(frames) else np.zeros(0, np.int64)
        if wanted.dtype.kind not in "iu":
            raise ConfigError(f"frame ids must be integers, got {frames!r:.80}")
        for frame in wanted[(wanted < 0) | (wanted >= len(self))]:
            raise IndexError(f"frame {frame} is out of range: the dataset has {len(self)}")
        wanted = wanted.astype(np.int64)
        ids, frame_ids, decoded = self._decode_items(wanted, self._sampled.frames_of, len(self))
        video, index = self._videos.population.locate(frame_ids)
        entries = self._sampled.entries(ids)
        seconds = self._videos.pts_seconds(video, index)
        is_repeated = len(np.unique(frame_ids)) < len(frame_ids)
        items = []
        for k, frame in enumerate(frame_ids.tolist()):
            pixels, is_concealed = decoded[frame]
            # Items must not share memory: a transform may work in place.
            pixels = pixels.copy() if is_repeated else pixels
            item = {
                **entries[k],
                "frame": torch.from_numpy(pixels).movedim(-1, -3),
                "video": int(self._videos.number[video[k]]),
                "index": int(index[k]),
                "pts_seconds": float(seconds[k]),
                "is_concealed": is_concealed,
            }
            items.append(cast(FrameItem, item))
        return self._apply_transform(items, wanted)

    def _apply_transform(self, items: list[FrameItem], ids: NDArray[np.int64]) -> list[FrameItem]:
        if self._transform is None:
            return items
        frames = [item["frame"] for item in items]
        samples = [
            {name: value for name, value in item.items() if name != "frame"} for item in items
        ]
        epoch = self._current_epoch
        if epoch is None:
            pairs = zip(frames, samples, strict=True)
            results = [apply_transform(self._transform, *pair) for pair in pairs]
        else:
            draws = CounterRng(seed=self._seed, epoch=epoch, purpose=RngStream.TRANSFORM)
            seeds = [int(word) for word in draws.words(ids)]
            results = transform_samples(self._transform, frames, samples, seeds)
        for item, frame in zip(items, results, strict=True):
            item["frame"] = frame
        return items


def _checked_clip(
    clip_len: int, stride: int, start: int | Literal["random"]
) -> tuple[int, int, int | Literal["random"]]:
    check_integers(1, clip_len=clip_len, stride=stride)
    if start != "random" and not isinstance(start, int | np.integer):
        raise ConfigError(f"start must be a frame index or 'random', got {start!r}")
    return clip_len, stride, start

"""Map-style datasets for a stock DataLoader: clips of videos, and single frames of all of them."""

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
from headrace.loaders.dataset_items import ClipItem, FrameItem, ItemDataset, shared
from headrace.loaders.sampled_set import Given
from headrace.loaders.transforms import Transform, transformed_each, transformed_one
from headrace.sampling.clip_shape import Boundary, clip_indices, clip_span
from headrace.sampling.counter_rng import CounterRng, RngStream
from headrace.sampling.population import Population
from headrace.sampling.sampler import SamplerContext
from headrace.units import check_integers
from headrace.video.frame_format import Fit, FrameFormat, Interpolation, PixelType

_FEW_SINGLE_FRAMES = 64
"""Frames asked for one by one, before it is said what that costs."""


@answers_names
class VideoDataset(ItemDataset[ClipItem]):
    """One clip of each video: `dataset[i]` is a clip of video i.

        clips = VideoDataset(files, clip_len=16, stride=2, transform=None, size=(256, 256))
        for batch in DataLoader(clips, batch_size=4, num_workers=2): ...

    An item is a `ClipItem`, a dict, and a batch one of the same names. A clip starts at a frame
    drawn from (seed, epoch, i) among those from which it lies inside its video, whatever process
    asks and in whatever order. The epoch is that of `set_epoch`; as long as nobody has called it,
    it is how often the clip was asked for before, so that each pass gives other clips.
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
    ) -> None:
        """Open the index of every video; decodes nothing yet.

        Args:
            files: Paths of the videos; or a `Manifest`, whose rows are clipped as videos are.
            clip_len: Frames of a clip, T.
            stride: From one frame of a clip to the next; 1 means consecutive.
            transform: Called with each clip, or `WithSample`; its chance is of (seed, epoch, i).
            size: (height, width) of the frames; None keeps each video's own, and a batch then
                needs videos of one size, or a transform that makes them equal.
            fit: Where `size` has another aspect ratio: `stretch`, `cover` or `contain`.
            interpolation: `area`, or torchvision's antialiased `bilinear` or `bicubic`.
            dtype: `uint8`, or `uint16` for video of more than 8 bits.
            start: Index of the first frame, the same for every video and epoch, or `random`.
            boundary: What happens where a video ends before its clip: see `clip_indices`.
            on_error: What bad media does. With `skip`, a video that cannot be opened is left out,
                and a clip that cannot be decoded is replaced by one drawn from (seed, epoch, i);
                `video` says of which. With `conceal`, damaged frames come, and `is_concealed`.
            seed: Another one gives other random clips.
            decoding: What decodes, and where. Workers of a DataLoader must be spawned for a GPU.
            index_store: Where indexes are kept; None means the user's cache folder.
            max_open: Files that each process keeps open.

        Raises:
            ConfigError: an argument is out of range, or a video is too short for a clip.
            OpenError, ScanError: a video cannot be read, and bad media is not to be skipped.
        """
        _check_clip(clip_len, stride, start)
        super().__init__(
            files,
            FrameFormat(size=size, fit=fit, interpolation=interpolation, dtype=dtype),
            transform,
            on_error=on_error,
            seed=seed,
            decoding=decoding,
            index_store=index_store,
            max_open=max_open,
        )
        self._clip_len, self._stride, self._start = clip_len, stride, start
        self._boundary: Boundary = boundary
        self._visits = shared(torch.zeros(len(self), dtype=torch.int64))
        self.clip_indices(int(self._sampled.population.frames_per_video.argmin()))

    def __len__(self) -> int:
        """How many videos there are, or rows."""
        return self._sampled.population.num_videos

    def clip_indices(self, video: int) -> NDArray[np.int64]:
        """Return the frames that make the clip of a video when it is asked for next, int64 [T].

        Those of a row are counted from its first.
        """
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
            raise ConfigError(f"no clip of {population.name(video)}: {error}") from error

    def __getitem__(self, video: int) -> ClipItem:
        """Return the clip of a video.

        Raises:
            IndexError: there is no such video.
            OpenError, DecodeError: its file has changed, or cannot be decoded there, and bad media
                is not to be skipped. A DataLoader passes it on from a worker as RuntimeError, with
                its words.
        """
        if not 0 <= video < len(self):
            raise IndexError(f"video {video} was asked for, there are {len(self)}")
        check_integers(0, video=video)
        draws = CounterRng(
            seed=self._seed, epoch=self._epoch_of(video), purpose=RngStream.TRANSFORM
        )
        found = self._clip(video)
        self._visits[video] += 1
        if self._transform is not None:
            sample = {name: value for name, value in found.items() if name != "frames"}
            seeds = [int(draws.words(video))]
            [found["frames"]] = transformed_each(
                self._transform, [found["frames"]], [sample], seeds
            )
        return found

    def _epoch_of(self, video: int) -> int:
        said = self._epoch_said
        return int(self._visits[video]) if said is None else said

    def _clip(self, asked: int) -> ClipItem:
        """Return the clip of a video as it was decoded, or that of one which stands in for it."""
        row, attempt = asked, 0
        while True:
            places = self._sampled.population.frame_ids(np.array(row), self.clip_indices(row))
            videos, wanted = self._videos.population.locate(self._sampled.frames_of(places))
            video = int(videos[0])
            different, place = np.unique(wanted, return_inverse=True)
            try:
                pixels, concealed = self._read(video, different)
                break
            except MediaError as error:
                self._lost(video, different, error)
                row = self._substitute(asked, attempt, len(self))
                attempt += 1
        if len(different) < len(wanted):
            pixels, concealed = pixels[place], concealed[place]
        seconds = self._videos.pts_seconds(videos, wanted)
        [said] = self._sampled.entries(places[:1])
        item = {
            **said,
            "frames": torch.from_numpy(pixels).movedim(-1, -3),
            "video": int(self._videos.number[video]),
            "index": torch.from_numpy(wanted),
            "pts_seconds": torch.from_numpy(seconds),
            "is_concealed": torch.from_numpy(concealed),
        }
        return cast(ClipItem, item)


def _check_clip(clip_len: int, stride: int, start: object) -> None:
    check_integers(1, clip_len=clip_len, stride=stride)
    if start != "random" and not isinstance(start, int | np.integer):
        raise ConfigError(f"start must be an index of a frame, or 'random', got {start!r}")


@answers_names
class FrameDataset(ItemDataset[FrameItem]):
    """Every frame of all videos, by its id: `dataset[n]` is frame n, counted through all videos.

        frames = FrameDataset(videos, size=(256, 256))
        sampler = EpochSampler(frames, ShuffledFrames())
        for batch in DataLoader(frames, batch_size=128, sampler=sampler, num_workers=2): ...

    A DataLoader asks for a batch at a time, and each GOP is then decoded once for all frames of
    the batch, no further than the last of them. `FrameLoader` does so for many batches. A dataset
    that wraps this one passes `__getitems__` on, as `Subset` of PyTorch does: frame by frame, a GOP
    is decoded anew for each of its frames, of which is warned once.
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
    ) -> None:
        """Open the index of every video; decodes nothing yet.

        Args:
            videos: Paths of the videos; or a `Manifest`, whose rows stand in place of videos, and
                whose columns come with each item.
            size: (height, width) of the frames; None keeps each video's own.
            fit: Where `size` has another aspect ratio: `stretch`, `cover` or `contain`.
            interpolation: `area`, or torchvision's antialiased `bilinear` or `bicubic`.
            dtype: `uint8`, or `uint16` for video of more than 8 bits.
            transform: Called with each frame, uint8 [3, H, W], or `WithSample`. What it draws from
                PyTorch, NumPy or `random` follows from (seed, epoch, frame) once `set_epoch` was
                called, as `EpochSampler` does; before, chance is that of the process.
            on_error: What bad media does. With `skip`, a video that cannot be opened is left out,
                and a frame that cannot be decoded is replaced by another one, drawn from (seed,
                epoch, frame); `video` and `index` say which. With `conceal`, damaged frames come as
                FFmpeg shows them, marked in `is_concealed`.
            seed: Of transforms and of what stands in for bad frames.
            decoding: What decodes, and where. Workers of a DataLoader must be spawned for a GPU.
            index_store: Where indexes are kept; None means the user's cache folder.
            max_open: Files that each process keeps open.

        Raises:
            ConfigError: there is no video, or an argument is out of range.
            OpenError, ScanError: a video cannot be read, and bad media is not to be skipped.
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
        )
        manifest = self._sampled.manifest
        if manifest is not None and "frame" in manifest.columns:
            raise ConfigError(
                "the manifest has a column 'frame', which is what a FrameDataset calls the pixels; "
                "rename it"
            )
        self._single = self._decoded_for_single = 0
        self._is_warned = False

    @property
    def population(self) -> Population:
        """Which video each frame id belongs to, and where GOPs begin."""
        return self._sampled.population

    def use(self, *, batch_size: int | None, ranks: int) -> SamplerContext:
        """Return what a sampler of its frames is used for; arguments as for `SamplerContext`."""
        return self._sampled.use(seed=None, batch_size=batch_size, ranks=ranks)

    def timed_population(self) -> Population:
        """Return the population with durations, to sample uniformly in time; 8 bytes a frame."""
        return self._sampled.timed_population()

    @property
    def checksum(self) -> int:
        """A number that other videos, or another order of them, are most unlikely to share."""
        return self._sampled.checksum

    def __len__(self) -> int:
        """How many frames all videos have, or all rows: one that lies in two counts twice."""
        return self.population.num_frames

    def __getitem__(self, frame: int) -> FrameItem:
        """Return one frame. Raises as `__getitems__` does."""
        before = self.counters.frames_decoded
        [item] = self.__getitems__([frame])
        self._single += 1
        self._decoded_for_single += self.counters.frames_decoded - before
        is_dear = self._decoded_for_single >= 2 * self._single >= 2 * _FEW_SINGLE_FRAMES
        if is_dear and not self._is_warned:
            self._is_warned = True
            warnings.warn(
                f"{self._single} frames were asked for one by one, and {self._decoded_for_single} "
                "decoded for them; where a dataset wraps this one, give it `def __getitems__(self, "
                "ids)` that asks this one's __getitems__, so that a batch decodes a GOP once",
                stacklevel=2,
            )
        return item

    def __getitems__(self, frames: Sequence[int]) -> list[FrameItem]:
        """Return frames by id, in the order they were asked for; one may be asked for twice.

        Raises:
            IndexError: there is no such frame.
            OpenError, DecodeError: a file has changed, or cannot be decoded there, and bad media is
                not to be skipped. A DataLoader passes it on from a worker as RuntimeError, with its
                words.
        """
        wanted = np.asarray(frames) if len(frames) else np.zeros(0, np.int64)
        if wanted.dtype.kind not in "iu":
            raise ConfigError(f"frames are asked for by integers, got {frames!r:.80}")
        for frame in wanted[(wanted < 0) | (wanted >= len(self))]:
            raise IndexError(f"frame {frame} was asked for, there are {len(self)}")
        wanted = wanted.astype(np.int64)
        places, given, pictures = self._pictures(wanted)
        video, index = self._videos.population.locate(given)
        entries = self._sampled.entries(places)
        seconds = self._videos.pts_seconds(video, index)
        is_repeated = len(np.unique(given)) < len(given)
        items = []
        for place, frame in enumerate(given.tolist()):
            pixels, is_concealed = pictures[frame]
            # No two items share memory: a transform may work in place.
            pixels = pixels.copy() if is_repeated else pixels
            item = {
                **entries[place],
                "frame": torch.from_numpy(pixels).movedim(-1, -3),
                "video": int(self._videos.number[video[place]]),
                "index": int(index[place]),
                "pts_seconds": float(seconds[place]),
                "is_concealed": is_concealed,
            }
            items.append(cast(FrameItem, item))
        return self._transformed(items, wanted)

    def _transformed(self, items: list[FrameItem], asked: NDArray[np.int64]) -> list[FrameItem]:
        if self._transform is None:
            return items
        pictures = [item["frame"] for item in items]
        samples = [{n: each for n, each in item.items() if n != "frame"} for item in items]
        epoch = self._epoch_said
        if epoch is None:
            pairs = zip(pictures, samples, strict=True)
            made = [transformed_one(self._transform, *pair) for pair in pairs]
        else:
            draws = CounterRng(seed=self._seed, epoch=epoch, purpose=RngStream.TRANSFORM)
            seeds = [int(each) for each in draws.words(asked)]
            made = transformed_each(self._transform, pictures, samples, seeds)
        for item, frame in zip(items, made, strict=True):
            item["frame"] = frame
        return items

    def _pictures(
        self, asked: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], dict[int, tuple[NDArray[np.uint8], bool]]]:
        """Return the ids given for those asked for, and of which frames of the videos they are.

        And, of each of these, the pixels and if it is damaged.
        """
        places, found = asked.copy(), dict[int, tuple[NDArray[np.uint8], bool]]()
        attempt, bad = 0, set[int]()
        while True:
            given = self._sampled.frames_of(places)
            bad |= self._decode(np.setdiff1d(given, [*found]), found)
            lost = [place for place, frame in enumerate(given.tolist()) if frame in bad]
            if not lost:
                return places, given, found
            for place in lost:
                places[place] = self._substitute(int(asked[place]), attempt, len(self))
            attempt += 1

    def _decode(
        self, frames: NDArray[np.int64], found: dict[int, tuple[NDArray[np.uint8], bool]]
    ) -> set[int]:
        """Put `frames`, ascending, none twice, into `found`, and return those that are bad."""
        bad = set[int]()
        video, index = self._videos.population.locate(frames)
        for each in np.unique(video).tolist():
            ids, wanted = frames[video == each], index[video == each]
            while len(wanted):
                try:
                    pixels, concealed = self._read(each, wanted)
                except MediaError as error:
                    lost = self._lost(each, wanted, error)
                    bad.update(ids[lost].tolist())
                    ids, wanted = ids[~lost], wanted[~lost]
                    continue
                pairs = zip(pixels, concealed.tolist(), strict=True)
                found.update(zip(ids.tolist(), pairs, strict=True))
                break
        return bad

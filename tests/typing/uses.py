"""A user's programs: every line is what a strict type checker must take."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, assert_type

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.utils.data import DataLoader

import headrace
from headrace import (
    Alignment,
    Batch,
    CameraBatch,
    CameraLayout,
    CameraLoader,
    CameraStreamDataset,
    CameraStreamSampler,
    CameraWindowBatch,
    CameraWindowLoader,
    Clip,
    ClipAugment,
    ClipLoader,
    DecoderConfig,
    DeltaFrames,
    EpochOrder,
    EpochSampler,
    FrameBatch,
    FrameDataset,
    FrameLoader,
    FrameReader,
    HeadraceError,
    IndexStore,
    LeRobotLoader,
    LiveResult,
    LoaderStatistics,
    Manifest,
    MediaError,
    Moments,
    Population,
    Proxies,
    RandomClips,
    ResultBatch,
    Sampler,
    SamplerTraits,
    Session,
    ShuffledFrames,
    SinkContext,
    SlotMemory,
    Source,
    StreamIndex,
    VideoDataset,
    VideoMetadata,
    VideoReader,
    WithSample,
)
from headrace.extraction.features.feature_extraction import FeatureExtraction
from headrace.extraction.features.feature_options import FeatureOptions
from headrace.extraction.features.model_spec import SampleSpec, TorchvisionModelSpec
from headrace.extraction.frame_extraction import FrameExtraction, FrameExtractionOptions
from headrace.extraction.image_encoder import ImageEncoder
from headrace.sampling.selection import ByRate, EveryNth


def train_on_frames(videos: list[str], model: nn.Module) -> LoaderStatistics:
    """Train on random frames, and go on from a state."""
    with FrameLoader(
        videos,
        batch_size=32,
        size=(112, 112),
        sampling=ShuffledFrames(),
        memory_budget="256MiB",
        index_store=IndexStore(Path("indexes")),
        decoding=DecoderConfig(backend="pyav"),
        on_error="skip",
        transform=lambda frame: frame.float() / 255,
    ) as loader:
        state: dict[str, int] = loader.state_dict()
        loader.load_state_dict(state)
        steps: int = len(loader)
        for batch in loader:
            assert_type(batch, Batch)
            assert_type(batch.frames, torch.Tensor)
            assert_type(batch.index, torch.Tensor)
            scores: torch.Tensor = model(batch.to("cpu").frames.float())
            print(scores[batch.video].argmax())
            batch.show(samples=4, frames=8).save("batch.png")
        for error in loader.skipped_videos:
            assert_type(error, MediaError)
            print(steps, error.source, error.pts)
        assert_type(loader.epoch, int)
        return loader.statistics


def train_on_clips(paths: tuple[Path, ...]) -> Iterator[torch.Tensor]:
    """Give clips at a rate, of rows with labels."""
    rows = Manifest.of_rows([{"path": str(path), "label": path.parent.name} for path in paths])
    with ClipLoader(
        rows,
        clips=RandomClips(num_frames=8, fps=4),
        batch_size=4,
        size=(56, 56),
        transform=lambda clip: clip.float() / 255,
        batch_transform=lambda clips: clips * 2 - 1,
    ) as loader:
        for batch in loader:
            assert_type(batch, Batch)
            yield batch.frames[~batch.is_pad.any(dim=1)]


def train_on_windows(rows: Manifest) -> None:
    """Give windows of episodes around drawn frames."""
    windows = DeltaFrames(delta_seconds=(-0.2, 0.0), sampling=ShuffledFrames(seed=1))
    for batch in ClipLoader(rows, clips=windows, transform=WithSample(with_label)):
        print(batch.pts_seconds)


def with_label(frames: torch.Tensor, sample: Mapping[str, Any]) -> torch.Tensor:
    """Use what else is known of a sample."""
    return frames if sample["label"] else frames.flip(-1)


def train_on_robots(root: Path) -> None:
    """Read a LeRobot dataset."""
    deltas = {"observation.images.wrist": [-0.1, 0.0], "action": [k / 30 for k in range(16)]}
    with LeRobotLoader(root, delta_timestamps=deltas, batch_size=64, size=(96, 96)) as loader:
        for batch in loader:
            assert_type(batch, dict[str, Any])
        assert_type(loader.fps, float)
        assert_type(loader.episodes, tuple[int, ...])
        for values in loader.stats.values():
            assert_type(values, Mapping[str, NDArray[Any]])


def stream_cameras(index_file: Path) -> None:
    """Read cameras as streams, and in windows."""
    memory = SlotMemory(torch.zeros(256, 64))
    alignment = Alignment(sync="nearest", tolerance_ms=20, on_missing="mask")
    with CameraLoader(index_file, group_num=4, size=(256, 704), alignment=alignment) as loader:
        for batch in loader:
            assert_type(batch, CameraBatch)
            memory.keep(batch, memory.of(batch))
            assert_type(batch.clip_name, list[str])
    layout = CameraLayout.read(index_file)
    with CameraWindowLoader(
        layout, moments=Moments.rate(2.0), augment=ClipAugment(flip=0.5)
    ) as windows:
        for window in windows:
            assert_type(window, CameraWindowBatch)


def stock_loaders(files: list[str], index_file: str) -> None:
    """Give datasets to a stock DataLoader."""
    clips = VideoDataset(files, clip_len=16, stride=2, size=(64, 64))
    item = clips[0]
    assert_type(item["index"], torch.Tensor)
    assert_type(item["pts_seconds"], torch.Tensor)
    frames = FrameDataset(files, size=(64, 64))
    sampler = EpochSampler(frames, batch_size=8, sampling=ShuffledFrames())
    for batch in DataLoader(frames, batch_size=8, sampler=sampler, num_workers=2):
        print(batch["frames"])
    assert_type(frames[3]["video"], int)
    cameras = CameraStreamDataset(index_file, size=(64, 64))
    slots = CameraStreamSampler(cameras, group_num=2)
    for batch in DataLoader(cameras, batch_sampler=slots, num_workers=1):
        print(batch["frames"])


def read_one(path: str) -> Clip:
    """Read frames of one video by index and by time."""
    with headrace.open(path, size=(224, 224), fit="cover") as video:
        assert_type(video, VideoReader)
        assert_type(video[0], NDArray[np.uint8])
        assert_type(video[[7, 3, 7]], NDArray[np.uint8])
        assert_type(video[10:50:2], NDArray[np.uint8])
        assert_type(video.metadata, VideoMetadata)
        assert_type(video.get_frame_played_at(1.5), Clip)
        assert_type(video.get_frames_played_at([0.5, "1/3", Fraction(1, 2)]), Clip)
        for frame in video:
            print(frame.mean())
        return video.clip(start=5, num_frames=8, stride=2)


def read_many(paths: list[Path]) -> int:
    """Read the frames of many videos, in order."""
    count = 0
    reader = headrace.read_frames(paths, size=(64, 64))
    assert_type(reader, FrameReader)
    for batch in reader:
        assert_type(batch, FrameBatch)
        count += len(batch)
    return count


def indexes(path: Path) -> NDArray[np.int64]:
    """Look at an index, and at proxies."""
    index = headrace.open_index(Source(path, "v:0"), IndexStore())
    assert_type(index, StreamIndex)
    for proxy in Proxies("proxies").all([path]):
        print(proxy.proxy_bytes)
    return index.pts


def live(addresses: list[str]) -> None:
    """Run a model on live frames."""
    results = headrace.live(addresses, nn.Identity(), max_staleness="200ms")
    for result in results:
        assert_type(result, LiveResult)
        assert_type(result.frames, NDArray[np.uint8])
    for result in headrace.live(0, lambda batch: batch.float().mean(dim=(1, 2, 3))):
        print(result.latency_ms)


def observe(loader: DataLoader[tuple[torch.Tensor, int]]) -> Session:
    """Profile a loop over any loader; batches keep their type."""
    with headrace.profile_loader(loader, on_verdict=print) as profile:
        print(sum(1 for _ in profile))
    with FrameLoader(["a.mp4"]) as frames, headrace.profile_loader(frames) as profiled:
        for batch in profiled:
            assert_type(batch, Batch)
    return profile.session


def extract(out: Path) -> int:
    """Extract frames and features."""
    frames = FrameExtractionOptions(
        sources=("video.mp4",),
        selection=ByRate(Fraction(1, 2)),
        out=out / "frames",
        pictures=ImageEncoder(format="jpg"),
    )
    features = FeatureOptions(
        sources=("video.mp4",),
        model=TorchvisionModelSpec(name="squeezenet1_1", weights="none"),
        out=out / "features",
        sampling=SampleSpec(selection=EveryNth(10)),
    )
    result = FrameExtraction.prepare(frames).run()
    assert_type(result.session, Session)
    return result.came + FeatureExtraction.prepare(features).run().came


class Printer:
    """A sink of one's own."""

    def open(self, context: SinkContext) -> None:
        """Begin."""
        print(context)

    def write(self, results: ResultBatch) -> None:
        """Take the results of a step."""
        print(results)

    def close(self) -> None:
        """End."""


sink: headrace.Sink = Printer()


class EveryTenth:
    """A sampler of one's own."""

    traits = SamplerTraits(identity="every 10th", is_random=False, has_replacement=False)

    def order(self, population: Population, epoch: int) -> EpochOrder:
        """Return the frames of an epoch."""
        length = -(-population.num_frames // 10)
        return EpochOrder(length=length, frames_at=lambda n: n * 10)


def train_on_every_tenth(videos: list[str]) -> None:
    """Give a loader a sampler of one's own."""
    sampler: Sampler = EveryTenth()
    print(len(FrameLoader(videos, sampling=sampler)))


def guarded(path: str) -> str:
    """Handle errors by their kind."""
    try:
        return str(headrace.load_clip(path, start=0, num_frames=4))
    except MediaError as error:
        return error.source
    except HeadraceError as error:
        return str(error)

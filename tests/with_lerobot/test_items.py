"""Items, batches and losses of the example equal those of lerobot's dataset in a DataLoader."""

import shutil
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from lerobot.datasets import video_utils
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.datasets.video_utils import FrameTimestampError
from torch.utils.data import DataLoader
from torchvision.transforms import v2

from headrace import DecodeError, LeRobotFrames, LeRobotLoader, SequentialFrames
from with_lerobot.written import KINDS

# Warnings of lerobot and its dependencies.
pytestmark = pytest.mark.filterwarnings("ignore")

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_lerobot.py"
FRAME = 1 / 30
CAMERA = "observation.images.camera0"
WINDOWS: dict[str, dict[str, list[float]] | None] = {
    "no windows": None,
    "two past frames": {CAMERA: [-FRAME, 0.0], "observation.state": [-FRAME, 0.0]},
    "sixteen past frames": {CAMERA: [k * FRAME for k in range(-15, 1)]},
    "ahead, and values alone": {
        "action": [k * FRAME for k in range(16)],
        "observation.images.camera1": [0.1],
        "lidar": [-0.1, 0.0, 0.1],
        "next.reward": [0.0, 0.1],
    },
}
EACH = pytest.mark.parametrize("kind", KINDS)
ITEMS = 100
TOLERANCE = 3 / 255
"""Max difference of lerobot's two decoders, which convert colors differently."""


def dataset_of(folder: Any, windows: str, backend: str = "pyav", **options: Any) -> LeRobotDataset:
    return LeRobotDataset(
        "headrace/drawn",
        root=folder,
        delta_timestamps=WINDOWS[windows],
        video_backend=backend,
        **options,
    )


def assert_same(theirs: dict[str, Any], ours: dict[str, Any], tolerance: float = 0.0) -> None:
    """Compare keys and their order, shapes, dtypes and values."""
    assert list(ours) == list(theirs)
    for key, value in theirs.items():
        if not isinstance(value, torch.Tensor):
            assert ours[key] == value, key
            continue
        assert (ours[key].dtype, ours[key].shape) == (value.dtype, value.shape), key
        if tolerance and value.ndim > 3:
            assert (ours[key] - value).abs().max() <= tolerance, key
        else:
            assert torch.equal(ours[key], value), key


def chosen(length: int, count: int = ITEMS) -> list[int]:
    """Return the first item, the last item and random items."""
    draws = np.random.default_rng(length)
    return [0, length - 1, *draws.choice(length, count - 2, replace=False).tolist()]


@EACH
@pytest.mark.parametrize("windows", WINDOWS)
def test_items_equal_those_of_pyav_bit_for_bit(written: Any, kind: str, windows: str) -> None:
    dataset = dataset_of(written(kind), windows)
    with LeRobotFrames(dataset) as frames:
        assert len(frames) == len(dataset)
        wanted = chosen(len(dataset))
        for item, ours in zip(wanted, frames.__getitems__(wanted), strict=True):
            assert_same(dataset[item], ours)


def test_frames_off_their_timestamp_are_refused_like_in_lerobot(
    written: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "shifted"
    shutil.copytree(written("H.264, g=30"), folder)
    [file] = (folder / "meta" / "episodes").glob("*/*.parquet")
    table = pq.read_table(file)
    name = f"videos/{CAMERA}/from_timestamp"
    starts = [start + 0.004 * (k == 3) for k, start in enumerate(table[name].to_pylist())]
    column = pa.array(starts, table[name].type)
    pq.write_table(table.set_column(table.column_names.index(name), name, column), file)
    dataset, refusals = dataset_of(folder, "two past frames"), 0
    with LeRobotFrames(dataset) as frames:
        for item in range(0, 200, 4):
            try:
                theirs = dataset[item]
            except FrameTimestampError:
                refusals += 1
                with pytest.raises(DecodeError, match="off its timestamp"):
                    frames[item]
            else:
                assert_same(theirs, frames[item])
    assert refusals > 1


@EACH
def test_items_are_close_to_those_of_torchcodec(written: Any, kind: str) -> None:
    dataset = dataset_of(written(kind), "two past frames", backend="torchcodec")
    with LeRobotFrames(dataset) as frames:
        for item in chosen(len(dataset), 50):
            assert_same(dataset[item], frames[item], tolerance=TOLERANCE)
    video_utils._default_decoder_cache.clear()


@EACH
@pytest.mark.parametrize("windows", WINDOWS)
def test_an_epoch_in_order_equals_that_of_a_dataloader(
    written: Any, kind: str, windows: str
) -> None:
    episodes = [3, 4, 11, 30]
    dataset = dataset_of(written(kind), windows, episodes=episodes)
    with LeRobotLoader(
        written(kind),
        delta_timestamps=WINDOWS[windows],
        episodes=episodes,
        batch_size=16,
        sampling=SequentialFrames(),
    ) as loader:
        theirs = DataLoader(dataset, batch_size=16)
        assert len(loader) == len(theirs)
        for batch, ours in zip(theirs, loader, strict=True):
            assert_same(batch, ours)


@EACH
def test_two_ranks_deliver_the_items_of_one(written: Any, kind: str) -> None:
    def loader(**options: Any) -> LeRobotLoader:
        windows = WINDOWS["two past frames"]
        return LeRobotLoader(written(kind), delta_timestamps=windows, seed=3, **options)

    def batches_of(opened: LeRobotLoader) -> list[dict[str, Any]]:
        with opened:
            return [*islice(opened, 6)]

    single = batches_of(loader(batch_size=8))
    ranks = [batches_of(loader(batch_size=4, rank=rank, num_replicas=2)) for rank in (0, 1)]
    dataset = dataset_of(written(kind), "two past frames")
    for step, whole in enumerate(single):
        for position in range(8):
            part = ranks[position % 2][step]
            item = {key: values[position // 2] for key, values in part.items()}
            assert_same({key: values[position] for key, values in whole.items()}, item)
            assert_same(dataset[int(item["index"])], item)


@EACH
def test_a_resumed_loader_continues_at_the_next_batch(written: Any, kind: str) -> None:
    def loader() -> LeRobotLoader:
        return LeRobotLoader(written(kind), batch_size=8, seed=5, memory_budget="64MiB")

    with loader() as whole, loader() as first, loader() as second:
        batches = [*islice(whole, 9)]
        [*islice(first, 4)]
        second.load_state_dict(first.state_dict())
        for batch, resumed in zip(batches[4:], second, strict=False):
            assert_same(batch, resumed)


def test_transforms_and_uint8(written: Any) -> None:
    folder = written("H.264, g=30")
    transforms = v2.Compose([v2.Resize((24, 32)), v2.Normalize([0.5] * 3, [0.25] * 3)])
    dataset = dataset_of(folder, "two past frames", image_transforms=transforms)
    with (
        LeRobotFrames(dataset) as frames,
        LeRobotLoader(
            folder,
            delta_timestamps=WINDOWS["two past frames"],
            image_transforms=transforms,
            sampling=SequentialFrames(),
        ) as loader,
    ):
        batch = next(iter(loader))
        for item in range(8):
            assert_same(dataset[item], frames[item])
            assert_same(dataset[item], {key: values[item] for key, values in batch.items()})
    with LeRobotLoader(folder, return_uint8=True, sampling=SequentialFrames()) as loader:
        pictures = next(iter(loader))[CAMERA]
        plain = dataset_of(folder, "no windows")
        assert pictures.dtype == torch.uint8
        for item in range(8):
            assert torch.equal(pictures[item] / 255, plain[item][CAMERA])


def test_workers_of_a_dataloader_decode_equal_items(written: Any) -> None:
    dataset = dataset_of(written("H.264, g=30"), "two past frames", episodes=[*range(10)])
    with LeRobotFrames(dataset) as frames:
        loader = DataLoader(frames, batch_size=16, num_workers=2)
        for batch, ours in zip(DataLoader(dataset, batch_size=16), loader, strict=True):
            assert_same(batch, ours)


@EACH
def test_the_statistics_equal_those_of_lerobot(written: Any, kind: str) -> None:
    dataset = dataset_of(written(kind), "no windows")
    with LeRobotLoader(written(kind)) as loader:
        assert loader.stats.keys() == dataset.meta.stats.keys()
        for feature, values in dataset.meta.stats.items():
            for name, value in values.items():
                np.testing.assert_array_equal(loader.stats[feature][name], value)
        assert loader.fps == dataset.fps
        assert loader.episodes == tuple(range(dataset.num_episodes))


RUNS = """
import runpy, sys

for loader in ("headrace", "lerobot"):
    sys.argv = [*sys.argv[:2], "--steps", "2", "--batch_size", "2", "--loader", loader]
    print("loader", loader)
    runpy.run_path(EXAMPLE, run_name="__main__")
"""


def test_both_loaders_give_the_same_items_and_losses(written: Any) -> None:
    """Both run in one process, because the import of lerobot takes most of the time."""
    run = subprocess.run(
        [sys.executable, "-c", f"EXAMPLE = {str(EXAMPLE)!r}{RUNS}", written("H.264, g=30")],
        capture_output=True,
        text=True,
        check=True,
    )
    of_headrace, of_lerobot = (
        [line for line in part.splitlines() if line.startswith("step ")]
        for part in run.stdout.split("loader lerobot")
    )
    assert len(of_headrace) == 2
    assert of_headrace == of_lerobot

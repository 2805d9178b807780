"""How many items per second does a LeRobot dataset give, by lerobot's loader and by headrace's?

python -m benchmarks.bench_lerobot --repeats 1 --codecs h264-g30    # a first look, 10 minutes
python -m benchmarks.bench_lerobot                                  # the figures of the docs

Episodes of three cameras, 480x640, are cut from real clips and written by lerobot's own writer: AV1
with a keyframe at every second frame, as lerobot does, and H.264 with one at every 30th. Items are
taken in random order, in batches of 8. lerobot is timed with both of its decoders and 0, 2 and 4
workers; its best counts. Needs lerobot in the same environment: see `make test-lerobot`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import DataLoader

from benchmarks.adapters import Delivery
from benchmarks.kit import Benchmark, rounds
from benchmarks.lerobot_writer import created
from benchmarks.markdown import figure, machine, table
from benchmarks.media import DEFAULT_ROOT, pictures, shots
from benchmarks.record import Repeat, Row, TimedResult, origin
from benchmarks.worker import steady
from headrace import LeRobotFrames, LeRobotLoader

CODECS: Final = {"av1-g2": ("libsvtav1", 2), "h264-g2": ("h264", 2), "h264-g30": ("h264", 30)}
"""Kind of dataset → codec and frames from one keyframe to the next."""
FPS, HEIGHT, WIDTH, BATCH = 30, 480, 640, 8
CAMERAS: Final = tuple(f"observation.images.camera{number}" for number in range(3))
WINDOWS: Final = {"1 frame": 1, "2 frames": 2, "16 frames": 16}
"""Name → frames of each camera in an item, up to its own."""
SIZES: Final = {"480x640": None, "224x224": (224, 224)}
_LEROBOT: Final = tuple(f"{way} {n}" for way in ("torchcodec", "pyav") for n in (0, 2, 4))
"""lerobot's decoders and numbers of workers."""
_OURS: Final = "headrace"
_WARM_UP_SECONDS: Final = 120.0
"""Limit of the warm-up, which takes as many items as a loader plans together."""
_BUDGET: Final = "4GiB"
"""Memory of headrace: three batches of 16 frames of 3 cameras take one; lerobot's workers, more."""


def measure(
    *,
    media: Path = DEFAULT_ROOT,
    codecs: tuple[str, ...] = tuple(CODECS),
    sizes: tuple[str, ...] = tuple(SIZES),
    episodes: int = 20,
    frames: int = 120,
    repeats: int = 3,
    seconds: float = 5.0,
) -> Iterator[TimedResult]:
    """Prove that items are equal, then time all, in turns.

    Args:
        media: folder of the datasets
        codecs: kinds of datasets
        sizes: of pictures
        episodes: of each
        frames: of an episode
        repeats: of each, in turn
        seconds: that a turn is timed for, after a warm-up
    """
    result = TimedResult(
        provenance=origin(episodes=episodes, frames=frames, seconds=seconds, batch=BATCH), rows=()
    )
    for codec in codecs:
        folder = write(media, codec, episodes, frames)
        for windows in WINDOWS:
            prove_equal(folder, deltas_of(windows))
            for size in sizes:
                kind = f"{codec}, {windows}, {size}"
                rows = [Row(name=name, kind=kind) for name in (*_LEROBOT, _OURS)]
                take = partial(take_turn, folder, deltas_of(windows), SIZES[size], seconds)
                *_, rows = rounds(rows, take, repeats)
                result = result.model_copy(update={"rows": (*result.rows, *rows)})
                yield result


def write(media: Path, codec: str, episodes: int, frames: int) -> Path:
    """Write a dataset with lerobot's writer, once; return its folder."""
    folder = media / f"lerobot-{codec}-{episodes}x{frames}"
    if (folder / ".written").exists():
        return folder
    axes = ["height", "width", "channels"]
    images = {"dtype": "video", "shape": (HEIGHT, WIDTH, 3), "names": axes}
    values = {"dtype": "float32", "shape": (6,), "names": [*"abcdef"]}
    features: dict[str, Any] = dict.fromkeys(CAMERAS, images)
    features |= {"observation.state": values, "action": values}
    with created(folder, FPS, features, *CODECS[codec], image_writer_threads=4) as dataset:
        for episode in range(episodes):
            shown = [
                pictures(shots(len(CAMERAS) * episode + camera)[0], HEIGHT, WIDTH)
                for camera in range(len(CAMERAS))
            ]
            for number, row in enumerate(islice(zip(*shown, strict=False), frames)):
                state = np.full(6, number, np.float32)
                images = {
                    name: frame.to_ndarray(format="rgb24")
                    for name, frame in zip(CAMERAS, row, strict=True)
                }
                dataset.add_frame(
                    {**images, "observation.state": state, "action": state, "task": "move"}
                )
            dataset.save_episode()
    (folder / ".written").touch()
    return folder


def deltas_of(windows: str) -> dict[str, list[float]]:
    """Return `delta_timestamps` of a window."""
    times = [number / FPS for number in range(1 - WINDOWS[windows], 1)]
    return dict.fromkeys((*CAMERAS, "observation.state"), times)


def dataset_of(folder: Path, deltas: dict[str, list[float]], way: str, **more: Any) -> Any:
    """Return lerobot's dataset, decoded by `torchcodec` or `pyav`."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    return LeRobotDataset(
        "headrace/bench", root=folder, delta_timestamps=deltas, video_backend=way, **more
    )


def prove_equal(folder: Path, deltas: dict[str, list[float]], items: int = 16) -> None:
    """Compare random items with those of lerobot's pyav, bit for bit."""
    dataset = dataset_of(folder, deltas, "pyav")
    chosen = np.random.default_rng(0).choice(len(dataset), items, replace=False).tolist()
    with LeRobotFrames(dataset) as frames:
        for item, ours in zip(chosen, frames.__getitems__(chosen), strict=True):
            theirs = dataset[item]
            assert [*ours] == [*theirs], f"keys of item {item} differ"
            for key, value in theirs.items():
                same = torch.equal(ours[key], value) if key != "task" else ours[key] == value
                assert same, f"{key} of item {item} differs"


def take_turn(
    folder: Path,
    deltas: dict[str, list[float]],
    size: tuple[int, int] | None,
    seconds: float,
    row: Row,
) -> Row:
    """Add the time of one entrant."""
    batches = of_headrace if row.name == _OURS else partial(of_lerobot, row.name)
    with batches(folder, deltas, size) as (taken, lookahead):
        counted = (range(len(batch["index"])) for batch in taken)
        times = steady(Delivery(counted, lookahead), seconds, warm_up_seconds=_WARM_UP_SECONDS)
    return row.timed(Repeat(**times))


Taken = tuple[Iterator[dict[str, Any]], Callable[[], int]]
"""Batches without end, and the items that a loader plans together."""


@contextmanager
def of_headrace(
    folder: Path, deltas: dict[str, list[float]], size: tuple[int, int] | None
) -> Iterator[Taken]:
    """Provide the batches of headrace."""
    with LeRobotLoader(
        folder, delta_timestamps=deltas, batch_size=BATCH, size=size, memory_budget=_BUDGET
    ) as loader:
        frames = len(CAMERAS) * len(deltas[CAMERAS[0]])
        yield chain.from_iterable(repeat(loader)), lambda: loader.lookahead // frames


@contextmanager
def of_lerobot(
    name: str, folder: Path, deltas: dict[str, list[float]], size: tuple[int, int] | None
) -> Iterator[Taken]:
    """Provide the batches of lerobot, with a decoder and a number of workers."""
    from lerobot.datasets import video_utils
    from torchvision.transforms import v2

    video_utils._default_decoder_cache.clear()  # a forked worker cannot use its parent's decoders
    way, workers = name.split()
    resize = None if size is None else v2.Resize(size)
    dataset = dataset_of(folder, deltas, way, image_transforms=resize)
    loader = DataLoader(
        dataset,
        batch_size=BATCH,
        shuffle=True,
        num_workers=int(workers),
        persistent_workers=workers != "0",
    )
    batches = iter(chain.from_iterable(repeat(loader)))
    yield batches, lambda: BATCH * 4


def text(result: TimedResult) -> str:
    """Return a line per kind: the best of lerobot, headrace, and how many times as fast."""
    lines = []
    for kind in dict.fromkeys(row.kind for row in result.rows):
        rows = {row.name: row for row in result.rows if row.kind == kind}
        ours, theirs = rows.pop(_OURS), max(rows.values(), key=lambda row: row.speed)
        ratio = ours.speed / theirs.speed if theirs.speed else None
        lines.append(
            [
                kind,
                *(figure(rows[name].speed, ",.1f") for name in _LEROBOT),
                f"**{figure(ours.speed, ',.1f')}**",
                f"{figure(ratio, '.1f')} (of {theirs.name})",
            ]
        )
    header = ["items per second", *_LEROBOT, _OURS, "times as fast"]
    asked = result.provenance.configuration
    return table(
        header,
        lines,
        f"Batches of {BATCH} items of 3 cameras; {asked['episodes']} episodes of "
        f"{asked['frames']} frames. lerobot by decoder and number of workers. Items equal those of "
        f"its pyav decoder, bit for bit, at 480x640. {machine(result)}",
    )


BENCHMARK = Benchmark("lerobot", __doc__, measure, text)

if __name__ == "__main__":
    BENCHMARK.main()

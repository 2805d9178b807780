"""How many items of a LeRobot dataset per second do lerobot's loader and headrace's deliver?

python -m benchmarks.bench_lerobot --repeats 1 --codecs h264-g30    # a first look, 10 minutes
python -m benchmarks.bench_lerobot                                  # the full run

Episodes of three cameras, 480x640, are cut from real clips and written by lerobot's writer: as AV1
with a keyframe every 2 frames, lerobot's default, and as H.264 with a keyframe every 2 or 30
frames. Items come in random order, in batches of 8. lerobot runs with each of its decoders and with
0, 2 and 4 workers; headrace is compared with the fastest. Needs lerobot in the same environment:
see `make test-lerobot`.
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
"""Kind of dataset → codec and GOP length."""
FPS, HEIGHT, WIDTH, BATCH = 30, 480, 640, 8
CAMERAS: Final = tuple(f"observation.images.camera{number}" for number in range(3))
WINDOWS: Final = {"1 frame": 1, "2 frames": 2, "16 frames": 16}
"""Name → frames of each camera in an item, ending with the frame of the item."""
SIZES: Final = {"480x640": None, "224x224": (224, 224)}
_LEROBOT: Final = tuple(f"{decoder} {n}" for decoder in ("torchcodec", "pyav") for n in (0, 2, 4))
"""lerobot's decoders and numbers of workers."""
_OURS: Final = "headrace"
_WARM_UP_SECONDS: Final = 120.0
"""Time limit of the warm-up, which lasts until the lookahead is full."""
_BUDGET: Final = "4GiB"
"""Memory budget of headrace. Three batches of 16 frames of 3 cameras take 1 GiB; lerobot's workers
use more."""


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
    """Compare items, then time all loaders, interleaved.

    Args:
        media: folder of the datasets
        codecs: kinds of datasets
        sizes: frame sizes
        episodes: episodes per dataset
        frames: frames per episode
        repeats: repeats per loader
        seconds: min seconds per repeat, after a warm-up
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
                take = partial(timed, folder, deltas_of(windows), SIZES[size], seconds)
                *_, rows = rounds(rows, take, repeats)
                result = result.model_copy(update={"rows": (*result.rows, *rows)})
                yield result


def write(media: Path, codec: str, episodes: int, frames: int) -> Path:
    """Return the folder of a dataset; writes it with lerobot's writer if missing."""
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
            cameras = [
                pictures(shots(len(CAMERAS) * episode + camera)[0], HEIGHT, WIDTH)
                for camera in range(len(CAMERAS))
            ]
            for number, row in enumerate(islice(zip(*cameras, strict=False), frames)):
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


def dataset_of(folder: Path, deltas: dict[str, list[float]], decoder: str, **more: Any) -> Any:
    """Return lerobot's dataset, decoded by `torchcodec` or `pyav`."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    return LeRobotDataset(
        "headrace/bench", root=folder, delta_timestamps=deltas, video_backend=decoder, **more
    )


def prove_equal(folder: Path, deltas: dict[str, list[float]], items: int = 16) -> None:
    """Assert that random items equal those of lerobot's pyav decoder, bit for bit."""
    dataset = dataset_of(folder, deltas, "pyav")
    chosen = np.random.default_rng(0).choice(len(dataset), items, replace=False).tolist()
    with LeRobotFrames(dataset) as frames:
        for item, ours in zip(chosen, frames.__getitems__(chosen), strict=True):
            theirs = dataset[item]
            assert [*ours] == [*theirs], f"keys of item {item} differ"
            for key, value in theirs.items():
                is_equal = torch.equal(ours[key], value) if key != "task" else ours[key] == value
                assert is_equal, f"{key} of item {item} differs"


def timed(
    folder: Path,
    deltas: dict[str, list[float]],
    size: tuple[int, int] | None,
    seconds: float,
    row: Row,
) -> Row:
    """Return the row with a further repeat."""
    opened = of_headrace if row.name == _OURS else partial(of_lerobot, row.name)
    with opened(folder, deltas, size) as (batches, lookahead):
        items = (range(len(batch["index"])) for batch in batches)
        times = steady(Delivery(items, lookahead), seconds, warm_up_seconds=_WARM_UP_SECONDS)
    return row.timed(Repeat(**times))


Opened = tuple[Iterator[dict[str, Any]], Callable[[], int]]
"""Endless batches, and a function that returns the lookahead in items."""


@contextmanager
def of_headrace(
    folder: Path, deltas: dict[str, list[float]], size: tuple[int, int] | None
) -> Iterator[Opened]:
    """Yield the batches of headrace."""
    with LeRobotLoader(
        folder, delta_timestamps=deltas, batch_size=BATCH, size=size, memory_budget=_BUDGET
    ) as loader:
        frames = len(CAMERAS) * len(deltas[CAMERAS[0]])
        yield chain.from_iterable(repeat(loader)), lambda: loader.lookahead // frames


@contextmanager
def of_lerobot(
    name: str, folder: Path, deltas: dict[str, list[float]], size: tuple[int, int] | None
) -> Iterator[Opened]:
    """Yield the batches of lerobot; `name` is a decoder and a number of workers."""
    from lerobot.datasets import video_utils
    from torchvision.transforms import v2

    video_utils._default_decoder_cache.clear()  # a forked worker cannot use its parent's decoders
    decoder, workers = name.split()
    resize = None if size is None else v2.Resize(size)
    dataset = dataset_of(folder, deltas, decoder, image_transforms=resize)
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
    """Return a line per kind: the rates of lerobot and headrace, and the speedup."""
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
                f"{figure(ratio, '.1f')} ({theirs.name})",
            ]
        )
    header = ["items per second", *_LEROBOT, _OURS, "speedup"]
    parameters = result.provenance.configuration
    return table(
        header,
        lines,
        f"Batches of {BATCH} items of 3 cameras; {parameters['episodes']} episodes of "
        f"{parameters['frames']} frames. Columns of lerobot: decoder and number of workers. "
        "*Speedup*: over the fastest of them, in parentheses. At 480x640, items equal those of "
        f"lerobot's pyav decoder, bit for bit. {machine(result)}",
    )


BENCHMARK = Benchmark("lerobot", __doc__, measure, text)

if __name__ == "__main__":
    BENCHMARK.main()

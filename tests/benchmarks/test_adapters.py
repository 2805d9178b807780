"""Every installed library delivers the requested frames."""

from dataclasses import replace
from itertools import islice
from pathlib import Path
from threading import Lock

import numpy as np
import pytest
import torch

from benchmarks import adapters
from benchmarks.adapters import RandomAccess, grouped_by_file, pyav_loop
from benchmarks.bench_random_frames import CLIPS as CLIP_VARIANTS
from benchmarks.bench_random_frames import ENTRANTS as FRAMES
from benchmarks.cases import task_of
from benchmarks.equality import compare_picked, shrink, thumbnails
from headrace import Population, UniformFrames, open_index
from headrace.testing.synth import SynthClip, write_clip

SIZE = (96, 128)
CLIPS = [
    SynthClip(num_frames=60, size=SIZE, gop=30, b_frames=2),
    SynthClip(num_frames=45, size=SIZE, gop=15),
]
LIBRARIES = {"opencv": "cv2", "decord": "decord", "spdl": "spdl.io", "torchcodec": "torchcodec"}
BATCHES = 3


@pytest.fixture(scope="session")
def clips(tmp_path_factory):
    """Return two clips that every library can read."""
    folder = tmp_path_factory.mktemp("clips")
    return [write_clip(folder / f"clip-{number}", clip) for number, clip in enumerate(CLIPS)]


@pytest.fixture(scope="session")
def reference(clips):
    """Return the thumbnails of their plain linear decode."""
    every = adapters.every_frame(pyav_loop, clips, SIZE, workers=1)
    return thumbnails(every.batches, len(clips))


@pytest.fixture
def delivered(clips, monkeypatch, tmp_path_factory):
    """Return a function that takes an entrant and a clip, and returns its delivery and the task.

    Indexes are stored apart from the user's. PyTorch's number of threads is restored.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    threads = torch.get_num_threads()

    def deliver(entrant, clip=None):
        options = dict(entrant)
        if "frames_per_burst" in options:
            options["frames_per_burst"] = 4  # two small clips have too few frames for more
        library = options.pop("library")
        if library == "headrace":
            options["memory_budget"] = "16MiB"
        pytest.importorskip(LIBRARIES.get(library, "av"))
        options |= {"paths": [*map(str, clips)], "size": list(SIZE), "workers": 2}
        task = task_of(batch_size=2 if clip else 16, clip=clip, **options)
        return adapters.random_access(adapters.adapter(library), task), task

    yield deliver
    torch.set_num_threads(threads)


@pytest.mark.parametrize(
    ("entrant", "clip"),
    [
        *(pytest.param(entrant, None, id=name) for name, entrant in FRAMES.items()),
        *(
            pytest.param(entrant, (8, 2), id=f"{name}-clips")
            for name, entrant in CLIP_VARIANTS.items()
        ),
    ],
)
def test_delivered_frames_equal_a_linear_decode(entrant, clip, delivered, reference):
    delivery, task = delivered(entrant, clip)
    frames = list(islice(delivery.batches, BATCHES))
    delivery.batches.close()
    requests = np.concatenate(list(islice(task.requests(), BATCHES)))
    equality = compare_picked(reference, requests, shrink(np.concatenate(frames)))
    assert equality.holds
    assert equality.frames == BATCHES * 16
    if entrant["library"] == "headrace" and entrant.get("hold") is None and clip is None:
        assert equality.max_mean_difference == 0, "the pixels of headrace differ"


@pytest.mark.parametrize("name", ["headrace_1GiB", "headrace_naive"])
def test_headrace_counts_decoded_frames_seeks_and_opens(name, delivered):
    delivery, _ = delivered(FRAMES[name])
    next(delivery.batches)
    cost = delivery.cost()
    delivery.batches.close()
    assert min(cost.values()) > 0
    assert list(cost) == ["decoded", "seeks", "opens"]


def test_only_a_lookahead_needs_a_long_warm_up(delivered):
    naive, ahead = (
        delivered(FRAMES[name])[0].lookahead() for name in ("headrace_naive", "headrace_1GiB")
    )
    assert naive == 1
    assert ahead > 16


REQUESTS = np.array([[1, 9], [0, 4], [1, 2], [1, 9], [0, 4], [2, 0]])
TASK = RandomAccess(
    paths=[Path(f"{number}.mp4") for number in range(3)],
    size=(2, 2),
    workers=2,
    batch_size=len(REQUESTS),
    sampling=UniformFrames(),
    requests=lambda: iter([REQUESTS, REQUESTS[::-1]]),
)


class Files:
    """Files whose frames encode their video and index; keeps the requests."""

    def __init__(self):
        self.requests: list[tuple[int, list[int]]] = []
        self._lock = Lock()

    def open(self, path, size):
        def read(indices):
            video = int(path.stem)
            with self._lock:
                self.requests.append((video, list(indices)))
            return [np.full((*size, 3), 10 * video + index, np.uint8) for index in indices]

        return read


def test_frames_come_in_the_order_of_the_requests():
    batches = [batch[:, 0, 0, 0].tolist() for batch in grouped_by_file(TASK, Files().open)]
    wanted = (10 * REQUESTS[:, 0] + REQUESTS[:, 1]).tolist()
    assert batches == [wanted, wanted[::-1]]


def test_each_file_is_read_once_per_batch_and_no_batch_ahead():
    files = Files()
    next(grouped_by_file(replace(TASK, workers=1), files.open))
    assert sorted(files.requests) == [(0, [4]), (1, [2, 9]), (2, [0])]


@pytest.mark.parametrize("seed", [0, 3])
def test_requests_follow_the_uniform_order_of_a_seed(clips, delivered, seed):
    population = Population.of([open_index(path).gop_lengths for path in clips])
    video, index = population.locate(UniformFrames(seed=seed).order(population, 0)[:16])
    _, task = delivered({"library": "headrace", "seed": seed})
    assert next(task.requests()).tolist() == np.stack([video, index], axis=1).tolist()


def test_requests_are_repeatable_and_continue_with_the_next_epoch(delivered):
    _, task = delivered({"library": "headrace"})
    batches = -(-105 // task.batch_size)
    once, again = (list(islice(task.requests(), 2 * batches)) for _ in range(2))
    assert [batch.tolist() for batch in once] == [batch.tolist() for batch in again]
    assert sum(map(len, once[:batches])) == 105
    assert once[0].tolist() != once[batches].tolist()


def test_clips_are_requested_frame_by_frame(delivered):
    _, task = delivered({"library": "headrace"}, (4, 3))
    requests = np.concatenate(list(islice(task.requests(), 3))).reshape(6, 4, 2)
    assert (requests[:, :, 0] == requests[:, :1, 0]).all()
    assert (np.diff(requests[:, :, 1], axis=1) == 3).all()
    assert (requests[:, -1, 1] < np.array([60, 45])[requests[:, 0, 0]]).all()

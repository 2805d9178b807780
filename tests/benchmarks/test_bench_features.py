"""bench_features and bench_correlation: compared features, caches, and bursts."""

import numpy as np
import pytest

from benchmarks.bench_correlation import cut
from benchmarks.bench_features import contest, least_cosine
from benchmarks.worker import WorkerError

PARAMETERS = {"paths": ["a.mp4"], "weights": "w.pth", "rate": 5}


@pytest.mark.parametrize(
    ("theirs", "least"), [([[2.0, 0.0], [0.0, 1.0]], 1.0), ([[0.0, 1.0]] * 2, 0.0), ([[1, 0]], 0.0)]
)
def test_features_are_compared_with_the_bare_loop(tmp_path, theirs, least):
    def ask(request, *, cache):
        expected = [[1.0, 0.0], [0.0, 1.0]]
        np.save(request["kept"], np.array(expected if request["way"] == "bare" else theirs))

    assert least_cosine(PARAMETERS, tmp_path, ask) == least


def test_a_second_run_uses_the_cache_folder_of_the_first(monkeypatch):
    requests = []

    def ask(request, *, cache):
        requests.append((request["way"], request["cache"].partition(":")[0], cache))
        if request["way"] == "one_by_one":
            raise WorkerError("no cv2")
        return {"wall_seconds": 2.0, "frames": 10}

    rows = {row.name: row for row in contest(PARAMETERS, 2, ask)}
    assert [row.name for row in rows.values() if row.failure] == ["one_by_one"]
    assert all(len(row.repeats) == 2 for row in rows.values() if not row.failure)
    ours = [("headrace", cache) for cache in ("none", "sqlite", "redis") for _ in range(2)]
    commands = [(way, cache) for way, cache, _ in requests[:9]]
    assert commands == [("bare", "none"), ("bare", "none"), ("one_by_one", "none"), *ours]
    folders = [folder for *_, folder in requests[:9]]
    assert folders[5] == folders[6] != folders[7] == folders[8]


def test_pairs_with_stride_two_are_disjoint():
    burst, video = cut([np.array([9]), np.array([4])], frames_per_burst=2, distance=2)
    assert burst.tolist() == [0, 1, 0, 1, 2, 3, 2, 3, -1, 4, 5, 4, 5]
    assert video.tolist() == [0] * 9 + [1] * 4


def test_bursts_stay_inside_their_gop():
    burst, video = cut([np.array([5, 3]), np.array([7])], frames_per_burst=3, distance=1)
    assert burst.tolist() == [0, 0, 0, -1, -1, 1, 1, 1, 2, 2, 2, 3, 3, 3, -1]
    assert video.tolist() == [0] * 8 + [1] * 7

"""How many frames per second does each way deliver as random clips, 16 frames 2 apart?

python -m benchmarks.bench_random_clips --rounds 1 --kinds cam     # a first look
python -m benchmarks.bench_random_clips                            # the figures of the README
"""

from pathlib import Path

from benchmarks.random_main import run
from benchmarks.random_runner import Entrant
from benchmarks.record import RESULTS

ENTRANTS = [
    Entrant(name="baseline_clips", way="baseline_clips"),
    Entrant(name="opencv", way="opencv"),
    Entrant(name="decord", way="decord"),
    Entrant(name="spdl", way="spdl"),
    Entrant(name="torchcodec", way="torchcodec"),
    Entrant(name="headrace_naive", way="headrace_naive"),
    Entrant(name="headrace_256MiB", way="headrace", memory_budget="256MiB"),
    Entrant(name="headrace_256MiB_yuv420", way="headrace", memory_budget="256MiB", hold="yuv420"),
    Entrant(name="headrace_1GiB", way="headrace", memory_budget="1GiB"),
]
OUT: Path = RESULTS / "random_clips.json"

if __name__ == "__main__":
    run(__doc__ or "", ENTRANTS, batch_size=8, clip=(16, 2), out=OUT)

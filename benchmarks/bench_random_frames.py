"""How many uniformly random frames per second does each way deliver, in batches of 128?

python -m benchmarks.bench_random_frames --rounds 1 --kinds cam    # a first look
python -m benchmarks.bench_random_frames                           # the figures of the README
"""

from pathlib import Path

from benchmarks.random_main import run
from benchmarks.random_runner import Entrant
from benchmarks.record import RESULTS

ENTRANTS = [
    Entrant(name="baseline", way="baseline"),
    Entrant(name="baseline_kept", way="baseline_kept"),
    Entrant(name="opencv", way="opencv"),
    Entrant(name="decord", way="decord"),
    Entrant(name="spdl", way="spdl"),
    Entrant(name="torchcodec", way="torchcodec"),
    Entrant(name="headrace_naive", way="headrace_naive"),
    Entrant(name="headrace_256MiB", way="headrace", memory_budget="256MiB"),
    Entrant(name="headrace_256MiB_yuv420", way="headrace", memory_budget="256MiB", hold="yuv420"),
    Entrant(name="headrace_1GiB", way="headrace", memory_budget="1GiB"),
    Entrant(name="headrace_bursts_256MiB", way="headrace_bursts", memory_budget="256MiB"),
]
OUT: Path = RESULTS / "random_frames.json"

if __name__ == "__main__":
    run(__doc__ or "", ENTRANTS, batch_size=128, clip=None, out=OUT)

"""How many frames per second does each way deliver as random clips, 16 frames 2 apart?

python -m benchmarks.bench_random_clips --repeats 1 --kinds cam    # a first look
python -m benchmarks.bench_random_clips                            # the figures of the docs
"""

from benchmarks.bench_random_frames import HEADRACE, LIBRARIES
from benchmarks.kit import Entrant, compared

ENTRANTS = [
    Entrant(name="baseline_clips", asked={"library": "dataloader", "keeps_files": True}),
    *LIBRARIES,
    *HEADRACE,
]
BENCHMARK = compared(
    "random_clips",
    __doc__,
    ENTRANTS,
    "cases:random_frames",
    seconds=8,
    asked={"batch_size": 8, "clip": (16, 2)},
)

if __name__ == "__main__":
    BENCHMARK.main()

"""How many frames per second does each way deliver as random clips, 16 frames 2 apart?

python -m benchmarks.bench_random_clips --repeats 1 --kinds cam    # a first look
python -m benchmarks.bench_random_clips                            # the figures of the docs
"""

from benchmarks.bench_random_frames import KEPT, OTHERS, random_access
from benchmarks.kit import contest

ENTRANTS = {"baseline_clips": KEPT, **OTHERS}
BENCHMARK = contest(
    "random_clips",
    __doc__,
    ENTRANTS,
    "cases:random_frames",
    seconds=8,
    text=random_access,
    batch_size=8,
    clip=(16, 2),
)

if __name__ == "__main__":
    BENCHMARK.main()

"""How many frames per second does each variant deliver as random clips of 16 frames, stride 2?

python -m benchmarks.bench_random_clips --repeats 1 --kinds cam    # a first look
python -m benchmarks.bench_random_clips                            # the full run
"""

from benchmarks.bench_random_frames import CLIPS, random_access
from benchmarks.kit import contest

BENCHMARK = contest(
    "random_clips", __doc__, CLIPS, "cases:random_frames", random_access, batch_size=8, clip=(16, 2)
)

if __name__ == "__main__":
    BENCHMARK.main()

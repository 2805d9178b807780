"""How many frames per second does each way deliver as random clips, 16 frames 2 apart?

python -m benchmarks.bench_random_clips --repeats 1 --kinds cam    # a first look
python -m benchmarks.bench_random_clips                            # the figures of the docs
"""

from benchmarks.compare import run, way

ENTRANTS = [
    way("baseline_clips"),
    way("opencv"),
    way("decord"),
    way("spdl"),
    way("torchcodec"),
    way("headrace_naive"),
    way("headrace", memory_budget="256MiB"),
    way("headrace", memory_budget="256MiB", hold="yuv420"),
    way("headrace", memory_budget="1GiB"),
]

if __name__ == "__main__":
    run(
        __doc__ or "",
        ENTRANTS,
        question="random_frames",
        out="random_clips",
        seconds=8,
        asked={"batch_size": 8, "clip": (16, 2)},
    )

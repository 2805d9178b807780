"""How many uniformly random frames per second does each way deliver, in batches of 128?

python -m benchmarks.bench_random_frames --repeats 1 --kinds cam    # a first look
python -m benchmarks.bench_random_frames                            # the figures of the docs
"""

from benchmarks.compare import run, way

ENTRANTS = [
    way("baseline"),
    way("baseline_kept"),
    way("opencv"),
    way("decord"),
    way("spdl"),
    way("torchcodec"),
    way("headrace_naive"),
    way("headrace", memory_budget="256MiB"),
    way("headrace", memory_budget="256MiB", hold="yuv420"),
    way("headrace", memory_budget="1GiB"),
    way("headrace_bursts", memory_budget="256MiB"),
]

if __name__ == "__main__":
    run(
        __doc__ or "",
        ENTRANTS,
        question="random_frames",
        out="random_frames",
        seconds=8,
        asked={"batch_size": 128, "clip": None},
    )

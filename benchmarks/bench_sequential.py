"""How many frames per second does each library deliver, every frame in order, at model size?

python -m benchmarks.bench_sequential --count 8 --repeats 3    # a first look
python -m benchmarks.bench_sequential                          # the full run
"""

from statistics import median

from benchmarks.kit import REFERENCE, contest
from benchmarks.markdown import by_name, comparison, quickest_first
from benchmarks.record import TimedResult

NAMES = {
    "pyav_loop": "bare PyAV loop (the limit)",
    "headrace": "**headrace**",
    "spdl": "SPDL",
    "decord": "decord",
    "torchcodec": "torchcodec",
    "opencv_linear": "OpenCV, bilinear without antialiasing",
    "opencv": "OpenCV, area",
}


def sequential(result: TimedResult) -> str:
    """Return a line per library, sorted by its rate on the first kind of media."""
    parameters = result.provenance.configuration
    return comparison(
        result,
        quickest_first(by_name(result)),
        NAMES,
        limit=REFERENCE,
        heads=("library", "÷ limit", "peak memory"),
        digits=2,
        peaks=lambda row: [median(row.values("peak_rss_bytes") or [0])],
        rounds=f"Median (min–max) of {parameters['repeats']} interleaved rounds. Each library runs "
        f"in its own process on the same {parameters['workers']} cores. *÷ limit*: ratio to the "
        "bare PyAV loop, median over the rounds.",
        reference="the bare PyAV loop",
        unmeasured="other codecs, 10-bit video, decoding on a GPU, other numbers of cores",
    )


LINEAR = {"library": "opencv", "scaler": "linear"}
ENTRANTS = {name: {"library": name} for name in NAMES} | {"opencv_linear": LINEAR}
BENCHMARK = contest(
    "sequential", __doc__, ENTRANTS, "cases:every_frame", sequential, is_endless=False
)

if __name__ == "__main__":
    BENCHMARK.main()

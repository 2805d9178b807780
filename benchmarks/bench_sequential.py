"""How many frames per second does each library deliver, every frame in order, at model size?

python -m benchmarks.bench_sequential --count 8 --repeats 3    # a first look
python -m benchmarks.bench_sequential                          # the figures of the docs
"""

from statistics import median

from benchmarks.comparison import Columns, by_name, comparison, difference, quickest_first
from benchmarks.kit import REFERENCE, Entrant, compared
from benchmarks.markdown import machine, media, others, versions
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
LINEAR = {"library": "opencv", "scaler": "linear"}
ENTRANTS = [
    Entrant(name=name, asked=LINEAR if name == "opencv_linear" else {"library": name})
    for name in NAMES
]
BENCHMARK = compared("sequential", __doc__, ENTRANTS, "cases:every_frame")
COLUMNS = Columns(
    names=NAMES,
    name="library",
    limit=REFERENCE,
    ratio="of the limit",
    digits=2,
    memory="peak memory",
    peaks=lambda row: [median(each.peak_rss_bytes or 0 for each in row.repeats)],
)


def sequential(result: TimedResult) -> str:
    """One line per library, the quickest on the first kind of media on top."""
    said = result.provenance.configuration
    notes = [
        f"Median of {said['repeats']} interleaved rounds (lowest–highest), each library in its own "
        f"process on the same {said['workers']} cores; *of the limit* is the median of the ratios "
        "within a round.",
        media(result),
        "Equal frames were proved first: none differs from the limit's by more than "
        f"{difference(result):.2f} grey levels in the mean.",
        f"{others(result.rows)} {machine(result)}",
        versions(result.rows),
        "Not measured: other codecs, 10-bit video, decoding on a GPU, other numbers of cores.",
    ]
    return "\n\n".join([comparison(quickest_first(by_name(result)), COLUMNS), "\n".join(notes)])


if __name__ == "__main__":
    BENCHMARK.main()

"""How many frames per second does each library deliver, every frame in order, at model size?

python -m benchmarks.bench_sequential --count 8 --repeats 3    # a first look
python -m benchmarks.bench_sequential                          # the figures of the docs
"""

from statistics import median

from benchmarks import markdown
from benchmarks.kit import REFERENCE, contest
from benchmarks.markdown import comparison, machine, others
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
    """Return a line per library, the fastest on the first kind of media first."""
    said = result.provenance.configuration
    notes = [
        f"Median of {said['repeats']} interleaved rounds (min–max), each library in its own "
        f"process on the same {said['workers']} cores; *of the limit* is the median of the ratios "
        "within a round.",
        markdown.media(result),
        "Equal frames were proved first: none differs from the limit's by more than "
        f"{markdown.difference(result):.2f} grey levels in the mean.",
        f"{others(result.rows)} {machine(result)}",
        markdown.versions(result.rows),
        "Not measured: other codecs, 10-bit video, decoding on a GPU, other numbers of cores.",
    ]
    drawn = comparison(
        markdown.quickest_first(markdown.by_name(result)),
        NAMES,
        limit=REFERENCE,
        heads=("library", "of the limit", "peak memory"),
        digits=2,
        peaks=lambda row: [median(row.values("peak_rss_bytes") or [0])],
    )
    return markdown.notes_below(drawn, notes)


LINEAR = {"library": "opencv", "scaler": "linear"}
ENTRANTS = {name: {"library": name} for name in NAMES} | {"opencv_linear": LINEAR}
BENCHMARK = contest(
    "sequential", __doc__, ENTRANTS, "cases:every_frame", sequential, is_endless=False
)

if __name__ == "__main__":
    BENCHMARK.main()

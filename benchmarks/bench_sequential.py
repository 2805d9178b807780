"""How many frames per second does each library deliver, every frame in order, at model size?

python -m benchmarks.bench_sequential --count 8 --repeats 3    # a first look
python -m benchmarks.bench_sequential                          # the figures of the docs
"""

from benchmarks.compare import run
from benchmarks.runner import Entrant

LIBRARIES = ("pyav_loop", "headrace", "spdl", "decord", "torchcodec", "opencv_linear", "opencv")
ENTRANTS = [Entrant(name=name, asked={"library": name}) for name in LIBRARIES]

if __name__ == "__main__":
    run(__doc__ or "", ENTRANTS, question="every_frame", out="sequential")

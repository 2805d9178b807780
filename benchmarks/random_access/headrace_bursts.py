"""headrace with bursts: the only way here that samples otherwise, each frame once in an epoch."""

from benchmarks.random_access.headrace import PACKAGES, deliver
from headrace import Bursts

__all__ = ["PACKAGES", "SAMPLING", "deliver"]

SAMPLING = Bursts(frames_per_burst=8, lanes=128)

"""ρ, where nobody has measured it: how alike frames of one burst are taken to be."""

from typing import Final

TAKEN_RHO: Final = 0.95
"""Correlation of the gradients of two frames of one burst. Cautious: features of 8
neighbouring frames of real clips gave 0.933 to 0.959 (`docs/sampling.md`, measured by
`benchmarks/bench_correlation.py`), and gradients usually correlate less. Where they do, bursts are
worth more than is predicted with it."""

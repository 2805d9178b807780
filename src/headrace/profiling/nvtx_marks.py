"""Marks as NVTX ranges, which Nsight Systems draws beside what the GPU did."""

from collections.abc import Sequence
from typing import Any, Protocol

from headrace.runtime.marks import Mark


class NvtxDomain(Protocol):
    """What is used of a domain of the package `nvtx`; free while no tool listens."""

    def push_range(self, *, message: str, category: str) -> Any:
        """Begin a range in this thread."""

    def pop_range(self) -> Any:
        """End the range of this thread that began last."""


class NvtxMarks:
    """Each range is called after its stage and item, `model 17`; its category is the stage."""

    def __init__(self, domain: NvtxDomain) -> None:
        """Ranges go to this domain: `nvtx.get_domain("headrace")`."""
        self._domain = domain

    def range(self, stage: str, number: int) -> Mark:
        """Return a range of the domain."""
        return _NvtxRange(self._domain, stage, number)

    def gathered(self, stage: str, number: int, parts: Sequence[int]) -> None:
        """Say nothing: NVTX knows no such thing."""


class _NvtxRange:
    __slots__ = ("_domain", "_number", "_stage")

    def __init__(self, domain: NvtxDomain, stage: str, number: int) -> None:
        self._domain = domain
        self._stage = stage
        self._number = number

    def __enter__(self) -> None:
        self._domain.push_range(message=f"{self._stage} {self._number}", category=self._stage)

    def __exit__(self, *_: object) -> None:
        self._domain.pop_range()

    def arrived(self, number: int, since_ns: int) -> None:
        """Leave the name: it was given when the range began."""

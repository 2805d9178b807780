"""Complete custom benchmark: the fastest checksum of the user's videos."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Annotated, Literal, get_args

from headrace.bench.benchmark import Context
from headrace.bench.config import BenchmarkConfig
from headrace.bench.variant_benchmark import VariantBenchmark, VariantRecord, VariantSet
from headrace.config_fields import Option

Checksum = Literal["sha256", "blake2b", "crc32"]
FUNCTIONS = {"sha256": sha256, "blake2b": blake2b, "crc32": zlib.crc32}


@dataclass(frozen=True, kw_only=True)
class ChecksumsConfig(BenchmarkConfig):
    """Options of the benchmark."""

    checksums: Annotated[tuple[Checksum, ...], Option("Checksums to compare.")] = get_args(Checksum)
    repeats: Annotated[int, Option("Repetitions per checksum.", least=1)] = 3


@contextmanager
def prepared(config: ChecksumsConfig, context: Context) -> Iterator[VariantSet[VariantRecord]]:
    """Read the files; each variant computes the checksum of all."""
    files = [Path(video).read_bytes() for video in config.videos]

    def megabytes(checksum: str) -> float:
        return sum(len(file) for file in files if FUNCTIONS[checksum](file)) / 1e6

    variants = {checksum: partial(megabytes, checksum) for checksum in config.checksums}
    yield VariantSet(variants=variants, record=VariantRecord)


CHECKSUMS = VariantBenchmark(
    name="checksums",
    summary="Time checksums of whole files; name the fastest.",
    config=ChecksumsConfig,
    record=VariantRecord,
    prepare=prepared,
    title=lambda record: "Megabytes per second by checksum",
    head="checksum",
    unit="MB",
).benchmark()

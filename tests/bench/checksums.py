"""A thirteenth experiment, whole: which checksum tells one's videos apart the fastest?"""

import zlib
from dataclasses import dataclass
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Annotated, Final, Literal, get_args

from headrace.bench.benchmark import Context, Experiment
from headrace.bench.contest import (
    ContestRecord,
    contest_answer,
    contest_columns,
    contest_rows,
    hold_contest,
)
from headrace.measuring.config_fields import Option, Videos, check_options

Checksum = Literal["sha256", "blake2b", "crc32"]
_FUNCTIONS = {"sha256": sha256, "blake2b": blake2b, "crc32": zlib.crc32}


@dataclass(frozen=True, kw_only=True)
class ChecksumsConfig:
    """What is measured."""

    videos: Videos
    checksums: Annotated[tuple[Checksum, ...], Option("Which to compare.")] = get_args(Checksum)
    repeats: Annotated[int, Option("Turns of each checksum.", least=1)] = 3

    def __post_init__(self) -> None:
        check_options(self)


def measure_checksums(config: ChecksumsConfig, context: Context) -> ContestRecord:
    """Take the checksum of every video, by each function in turn."""
    made = context.provenance(config)
    files = [Path(video).read_bytes() for video in config.videos]

    def megabytes(checksum: str) -> float:
        return sum(len(file) for file in files if _FUNCTIONS[checksum](file)) / 1e6

    ways = {checksum: lambda c=checksum: megabytes(c) for checksum in config.checksums}
    turns = hold_contest(ways, repeats=config.repeats, context=context)
    return ContestRecord(provenance=made, turns=turns)


CHECKSUMS: Final = Experiment(
    name="checksums",
    summary="Time checksums of whole files; name the fastest.",
    config=ChecksumsConfig,
    record=ContestRecord,
    measure=measure_checksums,
    title=lambda record: "Megabytes per second by checksum",
    rows=contest_rows,
    columns=contest_columns("checksum", "MB"),
    reading=lambda record, rows: "Medians over the turns.",
    answer=lambda record, rows: contest_answer(record, rows, "MB"),
)

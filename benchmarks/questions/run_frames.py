"""How long does it take until every frame of some videos, as large as they are, was seen?"""

import zlib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.resources import Meter, peak_rss_bytes, versions
from headrace import FrameBatch, open_index, read_frames
from headrace.models.model import Model
from headrace.models.results import Labels
from headrace.preprocess.levels import Frames
from headrace.preprocess.spec import InputSpec
from headrace.runs.options import ComputeOptions, InputOptions, OutputOptions, RunOptions
from headrace.runs.run import Runner
from headrace.sinks.seen import Seen

PACKAGES = ("headrace", "av", "torch")


class Kept:
    """A sink that counts frames, or keeps their checksums."""

    outputs = ()

    def __init__(self, *, keeps_sums: bool) -> None:
        self.frames = 0
        self.sums: list[int] = []
        self._keeps_sums = keeps_sums

    def take(self, batch: FrameBatch) -> None:
        """Count the frames of a batch."""
        self.frames += len(batch)
        if self._keeps_sums:
            self.sums += [zlib.crc32(frame) for frame in batch.frames]

    def write(self, seen: Seen) -> None:
        """Count the frames that a model saw."""
        self.take(seen.batch)

    def close(self) -> None:
        """Nothing is open."""


def answer(
    *, way: str, preprocesses: bool, paths: list[str], pictures: str | None, **_: Any
) -> dict[str, Any]:
    """Time `way`, `read_frames` or `run`, or keep the frames' checksums in `pictures`."""
    kept = Kept(keeps_sums=pictures is not None)
    if not pictures:
        _go(way, preprocesses, Path(paths[0]), Kept(keeps_sums=False))
    meter = Meter()
    for path in paths:
        _go(way, preprocesses, Path(path), kept)
    if pictures:
        np.savez(pictures, sums=np.array(kept.sums, np.uint32))
        return {"versions": versions(PACKAGES)}
    return {
        **meter.read(),
        "first_seconds": 0.0,
        "frames": kept.frames,
        "peak_rss_bytes": peak_rss_bytes(),
    }


def _go(way: str, preprocesses: bool, path: Path, kept: Kept) -> None:
    if way == "read_frames":
        for batch in read_frames([path]):
            kept.take(batch)
        return
    with TemporaryDirectory() as folder:
        runner = Runner(
            options=RunOptions(
                input=InputOptions(sources=(str(path),)),
                compute=ComputeOptions(prep_level="simple"),
                output=OutputOptions(out=Path(folder), video=False),
            ),
            indexes=(open_index(path),),
            model=_idle(),
            preprocess=None if preprocesses else _nothing,
            sinks=(kept,),
        )
        session = runner.run()
        assert session.outcome == "complete", session.error


def _idle() -> Model[Labels]:
    """Return a model of 224x224 pictures that computes nothing."""
    return Model(
        name="idle",
        module=nn.Identity().eval(),
        input=InputSpec(
            resize=224, crop=224, mean=(0.0,) * 3, std=(1.0,) * 3, interpolation="bilinear"
        ),
        output=lambda batch: Labels(
            names=(("none",),) * len(batch), confidence=((1.0,),) * len(batch)
        ),
        origin="benchmark",
    )


def _nothing(frames: Frames) -> torch.Tensor:
    return torch.zeros(len(frames), 3, 1, 1)

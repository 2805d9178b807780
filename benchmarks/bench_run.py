"""Is a run with an idle model as fast as reading its frames?

python -m benchmarks.bench_run --count 2 --repeats 3    # a first look
python -m benchmarks.bench_run                          # the full run

`read_frames` reads every frame at full size. `run` passes the same frames through the stages of
`headrace run`, with an idle model and without preprocessing. `run_prepared` also preprocesses for a
model of 224x224, on the cores that decode. All variants read the same frames, compared bit for bit:
clips of 10 s, one after another, and one clip of 80 s.
"""

import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks import kit
from benchmarks.media import DEFAULT_ROOT, KINDS, loop_media, paths
from benchmarks.record import TimedResult
from benchmarks.worker import Meter, peak_rss_bytes, versions
from headrace import FrameBatch, open_index, read_frames
from headrace.models.model import Model
from headrace.models.results import Labels
from headrace.preprocess.spec import InputSpec
from headrace.runs.file_run import Runner
from headrace.runs.run_inputs import RunInputs
from headrace.runs.run_options import ComputeOptions, InputOptions, OutputOptions, RunOptions
from headrace.sinks.batch_results import BatchResults

ENTRANTS: kit.Entrants = {
    "read_frames": {"way": "read_frames"},
    "run": {"way": "run"},
    "run_prepared": {"way": "run", "preprocesses": True},
}

TIMES = 8
"""Number of times that the longer video repeats a clip."""


def measure(
    *, media: Path = DEFAULT_ROOT, count: int = 4, repeats: int = 5, workers: int = kit.CORES
) -> Iterator[TimedResult]:
    """Compare frames and time all variants, for each kind of media.

    Args:
        media: folder of the videos
        count: videos per kind
        repeats: repeats per variant
        workers: threads and cores
    """
    result = TimedResult(**kit.begin(workers=workers, repeats=repeats))
    clips = {kind: paths(media, kind, count) for kind in KINDS}
    longer = {f"{kind}_x{TIMES}": [loop_media(files[0], TIMES)] for kind, files in clips.items()}
    for kind, files in (clips | longer).items():
        task = kit.task_of("bench_run", files, workers)
        rows = kit.prove(ENTRANTS, task, kind, reference=ENTRANTS["read_frames"])
        if not all(row.is_sound for row in rows):
            sys.exit(f"the variants read different frames: {rows}")
        for after_round in kit.rounds(rows, kit.timed_by(ENTRANTS, task), repeats):
            result = result.updated(after_round, list(ENTRANTS))
            yield result


def text(result: TimedResult) -> str:
    """Return a line per variant: its rate, and the ratio to the rate of reading."""
    lines = []
    for row in result.rows:
        reading = result.row("read_frames", row.kind)
        share = f", {row.speed / reading.speed:.2f}" if reading and reading.repeats else ""
        lines.append(f"{row.words}: {row.failure or f'{row.speed:.0f} frames/s{share}'}")
    return "\n".join(lines)


class CountingSink:
    """Sink that counts frames, and keeps their checksums if requested."""

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

    def write(self, seen: BatchResults[Any]) -> None:
        """Count the frames of a classified batch."""
        self.take(seen.batch)

    def close(self) -> None:
        """Do nothing: no file is open."""


def answer(
    *,
    way: str,
    paths: Sequence[str],
    pictures: str | None = None,
    preprocesses: bool = False,
    **_: Any,
) -> dict[str, Any]:
    """Time `read_frames` or `run`; with `pictures`, write checksums of the frames instead."""
    sink = CountingSink(keeps_sums=pictures is not None)
    if not pictures:
        _read(way, preprocesses, Path(paths[0]), CountingSink(keeps_sums=False))
    meter = Meter()
    for path in paths:
        _read(way, preprocesses, Path(path), sink)
    if pictures:
        np.savez(pictures, sums=np.array(sink.sums, np.uint32))
        return {"versions": versions(("headrace", "av", "torch"))}
    return {**meter.read(), "frames": sink.frames, "peak_rss_bytes": peak_rss_bytes()}


def _read(way: str, preprocesses: bool, path: Path, sink: CountingSink) -> None:
    if way == "read_frames":
        for batch in read_frames([path]):
            sink.take(batch)
        return
    with TemporaryDirectory() as folder:
        runner = Runner(
            options=RunOptions(
                input=InputOptions(sources=(str(path),)),
                compute=ComputeOptions(prep_level="simple"),
                output=OutputOptions(out=Path(folder), video=False),
            ),
            inputs=RunInputs(indexes=(open_index(path),)),
            model=_idle(),
            preprocess=None if preprocesses else lambda frames: torch.zeros(len(frames), 3, 1, 1),
            sinks=(sink,),
        )
        session = runner.run()
        assert session.outcome == "complete", session.error


def _idle() -> Model[Labels]:
    """Return a model for 224x224 images that computes nothing."""
    mean, std = (0.0,) * 3, (1.0,) * 3
    return Model(
        name="idle",
        module=nn.Identity().eval(),
        input=InputSpec(resize=224, crop=224, mean=mean, std=std, interpolation="bilinear"),
        output=lambda batch: Labels(
            names=(("none",),) * len(batch), confidence=((1.0,),) * len(batch)
        ),
        origin="benchmark",
    )


BENCHMARK = kit.Benchmark("run", __doc__, measure, text)

if __name__ == "__main__":
    BENCHMARK.main()

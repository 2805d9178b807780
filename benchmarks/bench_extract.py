"""How long do headrace and ffmpeg take to extract the same frames as image files?

python -m benchmarks.bench_extract --repeats 1      # a first look
python -m benchmarks.bench_extract                  # the full run, about 6 minutes

Whole commands are timed, from their start until the last file is written, on videos without a
stored index. headrace's time includes its other files: table, record and report. Before timing,
each image is compared with a linear decode.
"""

import os
import subprocess
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Literal

import av
import numpy as np
from PIL import Image

from benchmarks import kit
from benchmarks import media as clips
from benchmarks.equality import SIDE, Pictures, shrink
from benchmarks.markdown import known, machine, others, rendered, spread
from benchmarks.record import Row, TimedResult, ratios
from benchmarks.worker import Ask, Meter, ask_worker, headrace_command, versions

VARIANTS = ("headrace", "ffmpeg", "ffmpeg_at_once", "ffmpeg_predicted")
Command = list[str]
_QUALITY = {"jpg": ["-q:v", "2"], "png": []}
"""Options of FFmpeg's encoders; 2 is the best JPEG quality that its guides recommend."""
_BOX = 8 * SIDE


@dataclass(frozen=True, kw_only=True)
class Case:
    """One line of the table."""

    name: str
    kind: str
    """Kind of media."""
    videos: int = 1
    times: int = 1
    """Number of times that a video repeats its clip of 10 s."""
    has_one_keyframe: bool = False
    frames: Literal["fps", "keyframes"] = "fps"
    rate: int = 1
    """Frames per second of media, for `fps`."""
    format: Literal["jpg", "png"] = "jpg"

    def paths(self, root: Path) -> list[Path]:
        """Return its videos; creates missing ones."""
        paths = clips.paths(root, self.kind, self.videos)
        if self.has_one_keyframe:
            paths = [clips.one_keyframe(path) for path in paths]
        return [clips.loop_media(path, self.times) if self.times > 1 else path for path in paths]

    @property
    def seconds(self) -> float:
        """Total duration of its videos."""
        return 10.0 * self.times * self.videos


PNG = Case(name="a web video of 10 s, 3 frames/s, png", kind="web", rate=3, format="png")
CASES = (
    Case(name="a web video of 80 s, 1 frame/s, jpg", kind="web", times=8),
    Case(name="a camera video of 80 s, 1 frame/s, jpg", kind="cam", times=8),
    Case(name="keyframes of the web video, jpg", kind="web", times=8, frames="keyframes"),
    Case(name="8 web videos of 10 s, 1 frame/s, jpg", kind="web", videos=8),
    PNG,
    replace(PNG, name="the same with one keyframe", has_one_keyframe=True),
)


def measure(
    *, media: Path = clips.DEFAULT_ROOT, cores: int = kit.CORES, repeats: int = 3
) -> Iterator[TimedResult]:
    """Compare the images of each case, then time it on one core and on several.

    Args:
        media: folder of the videos
        cores: number of cores besides one
        repeats: repeats per command
    """
    result = TimedResult(**kit.begin(repeats=repeats, cores=cores))
    for case in CASES:
        result = contest(result, case, media, cores, repeats)
        yield result


def contest(
    result: TimedResult, case: Case, root: Path, cores: int, repeats: int, ask: Ask = ask_worker
) -> TimedResult:
    """Return the result with a case added: on one core, and on `cores`."""
    parameters = {"frames": case.frames, "rate": case.rate, "picture": case.format}
    task = kit.task_of("bench_extract", case.paths(root), cores, size=kit.SIZE, **parameters)
    # As JPEG, neighbors that hardly differ could not be told apart.
    compared = kit.prove(variants(case, cores), {**task, "picture": "png"}, case.name, ask)
    for count in sorted({1, cores}):
        entrants = variants(case, count)
        update = {"kind": kind(case, count)}
        rows = [row.model_copy(update=update) for row in compared if row.name in entrants]
        take = kit.timed_by(entrants, {**task, "cores": count, "workers": count}, ask)
        for after_round in kit.rounds(rows, take, repeats):
            result = result.updated(after_round, VARIANTS)
    return result


def kind(case: Case, cores: int) -> str:
    """Return the name of a case on a number of cores, in rows of the result."""
    return f"{case.name}; {cores} core{'s' if cores > 1 else ''}"


def variants(case: Case, cores: int) -> kit.Entrants:
    """Return the variants of a case; a process per video needs several videos and cores."""
    at_once = ["ffmpeg_at_once"] if case.videos > 1 and cores > 1 else []
    predicted = ["ffmpeg_predicted"] if case.format == "png" else []
    return {name: {"way": name} for name in ("headrace", "ffmpeg", *at_once, *predicted)}


def answer(
    *,
    way: str,
    paths: Sequence[str],
    frames: str,
    rate: int,
    picture: str,
    workers: int,
    pictures: str | None = None,
    **_: Any,
) -> dict[str, Any]:
    """Time commands; with `pictures`, write thumbnails of their output to that file instead.

    The videos have no stored index. The commands use the cores of this process.
    """
    with TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        files = [Path(path) for path in paths]
        commands = commands_of(way, files, frames, rate, picture, out)
        environment = {**os.environ, "XDG_CACHE_HOME": str(Path(folder) / "cache")}

        def run(command: Command) -> None:
            subprocess.run(command, check=True, capture_output=True, env=environment)

        meter = Meter()
        with ThreadPoolExecutor(workers if way == "ffmpeg_at_once" else 1) as pool:
            list(pool.map(run, commands))
        times = meter.read()
        images = sorted(out.glob(f"*.{picture}"))
        if pictures:
            frames_of = [wanted(file, frames, rate) for file in files]
            requests = [(video, n) for video, indices in enumerate(frames_of) for n in indices]
            if len(images) != len(requests):
                raise ValueError(f"{len(images)} images were written for {len(requests)} frames")
            thumbnails = np.stack([*map(_thumbnail, images)])
            np.savez(pictures, requests=np.array(requests), pictures=thumbnails)
            return {"versions": versions(("headrace", "av", "pillow"))}
        written = sum(file.stat().st_size for file in images)
        return {**times, "frames": len(images), "written_bytes": written}


def commands_of(
    way: str, paths: Sequence[Path], frames: str, rate: int, picture: str, out: Path
) -> list[Command]:
    """Return the commands of a variant as a user types them; headrace has one for all videos.

    By default, ffmpeg's `fps` filter takes the frame nearest to the middle of each second. Rounding
    up takes the frame shown at the start of the second, as headrace does, at the same cost.
    `-skip_frame nokey` decodes only keyframes. `-pred mixed` enables PNG filters, off by default in
    FFmpeg, for files as small as Pillow's.
    """
    if way == "headrace":
        options = ["--keyframes"] if frames == "keyframes" else ["--fps", str(rate)]
        options += ["--format", picture, "--json"]
        return [headrace_command("extract", "frames", *paths, "-o", out, *options)]
    out.mkdir()
    if frames == "keyframes":
        before, after = ["-skip_frame", "nokey"], ["-fps_mode", "passthrough"]
    else:
        before, after = [], ["-vf", f"fps={rate}:round=up:eof_action=pass"]
    after += [*_QUALITY[picture], *(["-pred", "mixed"] if way == "ffmpeg_predicted" else [])]
    begin = ["ffmpeg", "-v", "error", "-nostdin", *before]
    return [
        [*begin, "-i", str(path), *after, str(out / f"{number:03d}_%06d.{picture}")]
        for number, path in enumerate(paths)
    ]


def wanted(path: Path, frames: str, rate: int) -> list[int]:
    """Return the indices of the requested frames, from packets only."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        base = stream.time_base or Fraction(1)
        shown = sorted(
            (packet.pts * base, packet.is_keyframe)
            for packet in container.demux(stream)
            if packet.pts is not None
        )
    if frames == "keyframes":
        return [index for index, (_, is_keyframe) in enumerate(shown) if is_keyframe]
    return at_rate([seconds - shown[0][0] for seconds, _ in shown], rate)


def at_rate(seconds: Sequence[Fraction], rate: int) -> list[int]:
    """Return the indices of the frames shown at each multiple of 1 / `rate` seconds."""
    moments = [Fraction(n, rate) for n in range(int(seconds[-1] * rate) + 1)]
    return sorted({bisect_right(seconds, moment) - 1 for moment in moments})


def _thumbnail(file: Path) -> Pictures:
    with Image.open(file) as picture:
        small = np.asarray(picture.convert("RGB").resize((_BOX, _BOX), Image.Resampling.BOX))
    thumbnail: Pictures = shrink(small[np.newaxis])[0]
    return thumbnail


_OTHERS = {"ffmpeg_at_once": "one process per core", "ffmpeg_predicted": "`-pred mixed`"}


def extracting(result: TimedResult) -> str:
    """Return a line per case on one core, and on all."""
    parameters = result.provenance.configuration
    counts = sorted({1, int(str(parameters["cores"]))})

    def row(line: tuple[Case, int], way: str) -> Row | None:
        return result.row(way, kind(*line))

    def seconds(line: tuple[Case, int], way: str) -> str:
        return known(row(line, way), lambda row: spread(row.values("wall_seconds"), ".1f"))

    return rendered(
        [(case, count) for case in CASES for count in counts],
        {
            "": lambda line: kind(*line),
            "headrace, s": lambda line: seconds(line, "headrace"),
            "ffmpeg, s": lambda line: seconds(line, "ffmpeg"),
            "speedup": lambda line: spread(
                ratios(row(line, "ffmpeg"), row(line, "headrace"), "wall_seconds"), ".2f"
            ),
            "ffmpeg variant, s": lambda line: "; ".join(
                f"{_OTHERS[name]}: {seconds(line, name)}"
                for name in variants(*line)
                if name in _OTHERS
            ),
            "kB per image": lambda line: " / ".join(
                _kilobytes(row(line, name)) for name in ("headrace", "ffmpeg")
            ),
        },
        "Whole commands, from their start until the last file is written, on videos without a "
        f"stored index; median (min–max) of {parameters['repeats']} interleaved rounds. *Speedup*: "
        "ffmpeg's time ÷ headrace's, median over the rounds. *kB per image*: headrace / ffmpeg. "
        "Before timing, the images were compared, as png, with a linear decode. ffmpeg runs with "
        "`-vf fps=N:round=up` or `-skip_frame nokey`, and with `-q:v 2` for jpg; headrace's jpg "
        "quality is 90. `-pred mixed` enables PNG filters, which Pillow uses by default. headrace "
        "also scans each video, starts a process per core, and writes a table and a report.",
        f"H.264, 1280×720. {others(result.rows)} {machine(result)}",
    )


def _kilobytes(row: Row | None) -> str:
    repeats = row.repeats if row else ()
    sizes = [repeat.written_bytes / repeat.frames for repeat in repeats if repeat.written_bytes]
    return f"{median(sizes) / 1e3:.0f}" if sizes else ""


BENCHMARK = kit.Benchmark("extract", __doc__, measure, extracting)

if __name__ == "__main__":
    BENCHMARK.main()

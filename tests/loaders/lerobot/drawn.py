"""LeRobot datasets as they lie in a folder, written without LeRobot: small videos with barcodes.

A frame's pixels carry camera, episode and frame as one number, and values follow from them, so that
an item is checked against its definition: `item_of`.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from headrace.testing.synth import read_number
from headrace.testing.synth_pixels import draw_picture

FPS = 10
CAMERAS = ("observation.images.top", "observation.images.wrist")
TASKS = ("pick the cube", "place it", "wipe")
SUBTASKS = ("reach", "grasp")
AXES = ["height", "width", "channels"]
VALUES: dict[str, tuple[str, tuple[int, ...]]] = {
    "observation.state": ("float32", (3,)),
    "action": ("float64", (2,)),
    "grid": ("float32", (2, 2)),
    "next.reward": ("float32", (1,)),
    "next.done": ("bool", (1,)),
    "mode": ("uint8", (1,)),
    "count": ("int64", (2,)),
    "remark": ("string", (1,)),
    "timestamp": ("float32", (1,)),
    "frame_index": ("int64", (1,)),
    "episode_index": ("int64", (1,)),
    "index": ("int64", (1,)),
    "task_index": ("int64", (1,)),
}
"""Column → its dtype and shape."""
SUBTASK = {"subtask_index": ("int64", (1,))}
"""The same of a dataset with subtasks."""
PATHS = {
    "v2.1": {
        "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "video_path": "videos/chunk-{episode_chunk:03d}/{video_key}/"
        "episode_{episode_index:06d}.mp4",
    },
    "v3.0": {
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
    },
}


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A dataset as it is drawn."""

    version: str = "v3.0"
    lengths: tuple[int, ...] = (7, 5, 9, 6)
    """Rows of each episode."""
    sizes: Mapping[str, tuple[int, int]] = field(
        default_factory=lambda: dict.fromkeys(CAMERAS, (48, 64))
    )
    """Camera → (height, width)."""
    frames: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """(Camera, episode) → frames of its video, where they are not as many as rows."""
    gop: int = 4
    keyframes: bool = True
    """Whether each episode starts with a keyframe."""
    subtasks: bool = False
    depths: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Camera that shows depths → what `info` says of them."""

    @property
    def cameras(self) -> tuple[str, ...]:
        return tuple(self.sizes)

    @property
    def columns(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Column → its dtype and shape."""
        return {**VALUES, **(SUBTASK if self.subtasks else {})}

    @property
    def rows(self) -> list[tuple[int, int]]:
        """(episode, frame) of each row."""
        return [(e, f) for e, length in enumerate(self.lengths) for f in range(length)]

    def num_frames(self, camera: str, episode: int) -> int:
        return self.frames.get((camera, episode), self.lengths[episode])

    def video_file(self, camera: str, episode: int) -> tuple[str, list[int]]:
        """Return the path of the video of an episode, and all episodes in it: two of them."""
        path = PATHS[self.version]["video_path"]
        if self.version == "v2.1":
            return path.format(episode_chunk=0, episode_index=episode, video_key=camera), [episode]
        file = episode // 2
        episodes = [e for e in range(len(self.lengths)) if e // 2 == file]
        return path.format(chunk_index=0, file_index=file, video_key=camera), episodes

    def data_file(self, episode: int) -> str:
        """Return the path of the rows of an episode; of v3.0 three episodes are in a file."""
        path = PATHS[self.version]["data_path"]
        if self.version == "v2.1":
            return path.format(episode_chunk=0, episode_index=episode)
        return path.format(chunk_index=1, file_index=episode // 3)

    def begin(self, camera: str, episode: int) -> int:
        """Return the frame of the file at which an episode starts."""
        _, episodes = self.video_file(camera, episode)
        return sum(self.num_frames(camera, e) for e in episodes if e < episode)


DRAWN = {
    version: Drawn(version=version, subtasks=version == "v3.0") for version in ("v2.1", "v3.0")
}


def number_of(camera: int, episode: int, frame: int) -> int:
    """Return the number in the pixels of a frame."""
    return camera * 10_000 + episode * 100 + frame


def value_of(column: str, drawn: Drawn, episode: int, frame: int) -> Any:
    """Return the value of a row, as Python has it."""
    row = sum(drawn.lengths[:episode]) + frame
    base = episode * 10 + frame
    return {
        "observation.state": [base, base + 0.25, -base],
        "action": [base / 3, -base / 3],
        "grid": [[base, 1.5], [2.5, -base]],
        "next.reward": frame / 8,
        "next.done": frame % 3 == 0,
        "mode": 200 + episode,
        "count": [row, -row],
        "remark": f"row {row}",
        "timestamp": frame / FPS,
        "frame_index": frame,
        "episode_index": episode,
        "index": row,
        "task_index": (episode + frame // 4) % len(TASKS),
        "subtask_index": frame % len(SUBTASKS),
    }[column]


def item_of(
    drawn: Drawn, episode: int, frame: int, deltas: Mapping[str, Sequence[int]] | None = None
) -> dict[str, Any]:
    """Return an item by its definition; in place of pictures, their numbers.

    Args:
        drawn: The dataset.
        episode: Episode of the item.
        frame: Its frame.
        deltas: Feature → rows relative to the item's own.
    """
    deltas, last = deltas or {}, drawn.lengths[episode] - 1

    def at(column: str, of_frame: Callable[[int], Any]) -> Any:
        if column not in deltas:
            return of_frame(frame)
        return [of_frame(min(max(frame + delta, 0), last)) for delta in deltas[column]]

    item = dict[str, Any]()
    for position, camera in enumerate(drawn.cameras):
        numbers = at(camera, lambda f, p=position: number_of(p, episode, f))
        is_single = len(deltas.get(camera, ())) == 1
        item[camera] = numbers[0] if is_single else numbers
    for column, (dtype, _) in drawn.columns.items():
        values = at(column, lambda f, c=column: value_of(c, drawn, episode, f))
        is_float = "float" in dtype
        item[column] = torch.tensor(values, dtype=torch.float32).tolist() if is_float else values
    for column, rows in deltas.items():
        item[f"{column}_is_pad"] = [not 0 <= frame + delta <= last for delta in rows]
    item["task"] = TASKS[item["task_index"]]
    if drawn.subtasks:
        item["subtask"] = SUBTASKS[item["subtask_index"]]
    return item


def read_item(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item as `item_of` has it."""
    return {
        key: _numbers(value)
        if key.startswith("observation.images.") and not key.endswith("_is_pad")
        else value.tolist()
        if isinstance(value, torch.Tensor)
        else value
        for key, value in item.items()
    }


def _numbers(value: torch.Tensor) -> Any:
    if value.is_floating_point():
        value = (value * 255).round().to(torch.uint8)
    pictures = value.reshape(-1, *value.shape[-3:]).movedim(-3, -1).numpy()
    numbers = [read_number(np.ascontiguousarray(picture)) for picture in pictures]
    return numbers if value.ndim == 4 else numbers[0]


def items_of_batch(batch: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each item of a batch."""
    for k in range(len(batch["index"])):
        yield {key: values[k] for key, values in batch.items()}


def draw(folder: Path, drawn: Drawn) -> Path:
    """Write a dataset and return its folder."""
    (folder / "meta").mkdir(parents=True)
    features: dict[str, dict[str, Any]] = {}
    for camera, size in drawn.sizes.items():
        shows = {"is_depth_map": camera in drawn.depths, **drawn.depths.get(camera, {})}
        features[camera] = {"dtype": "video", "shape": [*size, 3], "names": AXES}
        features[camera]["info"] = {"video.fps": FPS, **shows}
    for name, (dtype, shape) in drawn.columns.items():
        features[name] = {"dtype": dtype, "shape": [*shape], "names": None}
    info = {
        "codebase_version": drawn.version,
        "total_episodes": len(drawn.lengths),
        "total_frames": sum(drawn.lengths),
        "chunks_size": 1000,
        "fps": FPS,
        **PATHS[drawn.version],
        "features": features,
    }
    (folder / "meta" / "info.json").write_text(json.dumps(info), "utf-8")
    for file, episodes in groupby(range(len(drawn.lengths)), drawn.data_file):
        rows = [(e, f) for e in episodes for f in range(drawn.lengths[e])]
        columns = {name: [value_of(name, drawn, *row) for row in rows] for name in drawn.columns}
        write_rows(folder / file, columns)
    for position, camera in enumerate(drawn.cameras):
        for episode in range(len(drawn.lengths)):
            file, episodes = drawn.video_file(camera, episode)
            if episodes[0] == episode:
                _write_video(folder / file, drawn, position, camera, episodes)
    (_write_v2 if drawn.version == "v2.1" else _write_v3)(folder, drawn)
    return folder


def write_rows(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write a file of rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    types = VALUES | SUBTASK
    arrays = {name: pa.array(values, _type(*types[name])) for name, values in columns.items()}
    # A row group for each few rows, as LeRobot writes one for each episode.
    pq.write_table(pa.table(arrays), path, row_group_size=5)


def _type(dtype: str, shape: tuple[int, ...]) -> pa.DataType:
    scalar = {"bool": pa.bool_(), "string": pa.string()}.get(dtype)
    made = scalar or getattr(pa, dtype)()
    if shape == (1,):
        return made
    if len(shape) == 1:
        return pa.list_(made, shape[0])
    for _ in shape:
        made = pa.list_(made)
    return made


def _write_video(path: Path, drawn: Drawn, position: int, camera: str, episodes: list[int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    height, width = drawn.sizes[camera]
    codec, pixels, image_of, form = "libx264", "yuv420p", draw_picture, "rgb24"
    if camera in drawn.depths:
        codec, pixels, image_of, form = "libx265", "gray12le", codes_of, "gray12le"
    options = {
        "preset": "veryfast",
        "crf": "16",
        "g": str(drawn.gop if drawn.keyframes else 1000),
        "bf": "1",
        "x264-params": "scenecut=0:b-adapt=0:mbtree=0:open-gop=0",
        "x265-params": f"lossless=1:log-level=none:keyint={drawn.gop}:min-keyint=1:pools=none",
    }
    # Its index stands at the start, so that a file cut short still opens.
    with av.open(str(path), "w", container_options={"movflags": "+faststart"}) as container:
        stream = container.add_stream(codec, rate=FPS, options=options)
        stream.width, stream.height, stream.pix_fmt = width, height, pixels
        stream.codec_context.thread_count = 1
        frames = ((e, f) for e in episodes for f in range(drawn.num_frames(camera, e)))
        for count, (episode, frame) in enumerate(frames):
            picture = image_of(number_of(position, episode, frame), (height, width))
            image = av.VideoFrame.from_ndarray(picture, format=form)
            image.pts, image.time_base = count, Fraction(1, FPS)
            if frame == 0 and drawn.keyframes:
                image.pict_type = av.video.frame.PictureType.I
            container.mux(stream.encode(image))
        container.mux(stream.encode())


def codes_of(number: int, size: tuple[int, int]) -> np.ndarray:
    """Return the codes of a depth frame, uint16 [H, W] in [0, 4095]."""
    height, width = size
    return ((np.arange(height * width) * 5 + number) % 4096).astype(np.uint16).reshape(size)


def _write_v2(folder: Path, drawn: Drawn) -> None:
    meta, episodes = folder / "meta", range(len(drawn.lengths))
    lines = {
        "episodes": [
            {"episode_index": e, "tasks": [TASKS[0]], "length": drawn.lengths[e]} for e in episodes
        ],
        "tasks": [{"task_index": k, "task": text} for k, text in enumerate(TASKS)],
        "episodes_stats": [{"episode_index": e, "stats": stats_of(drawn, [e])} for e in episodes],
    }
    for name, rows in lines.items():
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (meta / f"{name}.jsonl").write_text(text, "utf-8")


def _write_v3(folder: Path, drawn: Drawn) -> None:
    meta, stats = folder / "meta", stats_of(drawn, range(len(drawn.lengths)))
    (meta / "stats.json").write_text(json.dumps(stats), "utf-8")
    for file, chosen in enumerate(([*range(2)], [*range(2, len(drawn.lengths))])):
        table: dict[str, list[Any]] = {
            "episode_index": chosen,
            "tasks": [[TASKS[0]] for _ in chosen],
            "length": [drawn.lengths[e] for e in chosen],
            "data/chunk_index": [1] * len(chosen),
            "data/file_index": [e // 3 for e in chosen],
            "dataset_from_index": [sum(drawn.lengths[:e]) for e in chosen],
            "dataset_to_index": [sum(drawn.lengths[: e + 1]) for e in chosen],
        }
        for camera in drawn.cameras:
            begins = [drawn.begin(camera, e) for e in chosen]
            ends = [b + drawn.num_frames(camera, e) for b, e in zip(begins, chosen, strict=True)]
            of = f"videos/{camera}"
            table[f"{of}/chunk_index"] = [0] * len(chosen)
            table[f"{of}/file_index"] = [e // 2 for e in chosen]
            table[f"{of}/from_timestamp"] = [b / FPS for b in begins]
            table[f"{of}/to_timestamp"] = [end / FPS for end in ends]
        path = meta / "episodes" / "chunk-000" / f"file-{file:03d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(table), path)
    texts = {"task": TASKS, **({"subtask": SUBTASKS} if drawn.subtasks else {})}
    for name, values in texts.items():
        columns = {f"{name}_index": [*range(len(values))], "__index_level_0__": [*values]}
        pq.write_table(pa.table(columns), meta / f"{name}s.parquet")


def stats_of(drawn: Drawn, episodes: Sequence[int]) -> dict[str, dict[str, Any]]:
    """Return the statistics of all values of some episodes."""
    rows = [row for row in drawn.rows if row[0] in episodes]
    values = {
        column: np.array([value_of(column, drawn, *row) for row in rows], np.float64)
        for column, (dtype, _) in VALUES.items()
        if dtype != "string"
    }
    for camera in drawn.cameras:  # of each channel, [frames, 3, 1, 1]
        levels = [[e + 0.5, f / 9, 1.0] for e, f in rows]
        values[camera] = np.array(levels)[:, :, None, None]
    return {
        name: {
            **{of: getattr(array, of)(0).tolist() for of in ("min", "max", "mean", "std")},
            "count": [len(rows)],
        }
        for name, array in values.items()
    }


def as_dataset(root, **given):
    """Return what stands for a `LeRobotDataset`."""
    usual = dict.fromkeys(("episodes", "delta_timestamps", "image_transforms"))
    return SimpleNamespace(root=root, **{**usual, "tolerance_s": 1e-4, **given})

"""Export of features: files for each video, or WebDataset shards."""

import json
import shutil
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import numpy as np

from headrace.atomic_file import partial_of
from headrace.errors import ConfigError, file_errors
from headrace.extraction.features.folder import FeatureFolder, WholeVideo, whole_video
from headrace.extraction.features.table_columns import TableFacts
from headrace.extras import check_extra
from headrace.records import to_dict
from headrace.runtime.posix import file_lock


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """Yield an empty folder, which becomes `out` when the block ends without an error.

    Leftovers of a killed process are removed by the next one.

    Raises:
        ConfigError: `out` is not empty, another process is writing it, or it cannot be written.
    """
    target = out.absolute()
    partial = partial_of(target)
    with file_errors(f"cannot write {out}", "give a folder that can be written to with -o"):
        if target.exists() and any(target.iterdir()):
            raise ConfigError(f"{out} holds something; give a new or an empty folder with -o")
        partial.mkdir(exist_ok=True)
        with file_lock(partial / "lock") as is_ours:
            if not is_ours:
                raise ConfigError(
                    f"another process is writing {out}; wait until it is done, or give another "
                    "folder with -o"
                )
            try:
                files = partial / "files"
                shutil.rmtree(files, ignore_errors=True)
                files.mkdir()
                yield files
                files.replace(target)
            finally:
                shutil.rmtree(partial, ignore_errors=True)


def video_facts(video: WholeVideo, facts: TableFacts) -> dict[str, Any]:
    """Return the facts that all samples of a video share: the video, and how features were made."""
    return {
        "video": video.video.name,
        "path": video.video.path,
        "content": video.video.content,
        "size": list(video.size),
        "time_base": [video.time_base.numerator, video.time_base.denominator],
        "lost": list(video.lost),
        "errors": list(video.errors),
        **to_dict(facts),
    }


def sidecar(video: WholeVideo, facts: TableFacts) -> bytes:
    """Return the JSON sidecar of an array of features: the facts of the video, and lists `index`,
    `pts`, `pts_seconds` and `is_concealed`, as long as the array."""
    samples = video.samples
    lists = {
        "index": samples.index.tolist(),
        "pts": samples.pts.tolist(),
        "pts_seconds": video.seconds.tolist(),
        "is_concealed": samples.is_concealed.tolist(),
    }
    return json.dumps({**video_facts(video, facts), **lists}).encode()


class NpyFiles:
    """Writes an array and a JSON file for each video: an `Exporter`."""

    def __init__(self, folder: Path, facts: TableFacts) -> None:
        """Write into `folder`, which exists."""
        self._folder = folder
        self._facts = facts

    def write(self, video: WholeVideo) -> None:
        """Write both files of a video: see `Exporter.write`."""
        name = video.video.name
        (self._folder / f"{name}.npy").write_bytes(npy_content(video))
        (self._folder / f"{name}.json").write_bytes(sidecar(video, self._facts))

    def close(self) -> None:
        """Do nothing: each file is closed already."""


def npy_content(video: WholeVideo) -> bytes:
    """Return the features of a video [n, ...] as a file of NumPy."""
    file = BytesIO()  # NumPy's own errors on a full disk name no reason
    np.save(file, video.samples.features, allow_pickle=False)
    return file.getvalue()


class SafetensorsFiles:
    """Writes a file for each video: an `Exporter`. Needs safetensors.

    Tensors: `features` [n, ...], `index` and `pts` int64 [n], `pts_seconds` float64 [n],
    `is_concealed` bool [n]. The other facts are JSON under `headrace` in the metadata.
    """

    def __init__(self, folder: Path, facts: TableFacts) -> None:
        """Write into `folder`, which exists."""
        self._folder = folder
        self._facts = facts

    def write(self, video: WholeVideo) -> None:
        """Write the file of a video: see `Exporter.write`."""
        from safetensors.numpy import save

        content = save(
            {**vars(video.samples), "pts_seconds": video.seconds},
            {"headrace": json.dumps(video_facts(video, self._facts))},
        )
        (self._folder / f"{video.video.name}.safetensors").write_bytes(content)

    def close(self) -> None:
        """Do nothing: each file is closed already."""


SHARD_BYTES: Final = 1 << 30
"""Bytes after which a shard ends: large files read fastest, and workers share several."""


class WebDatasetShards:
    """Writes features-000000.tar, ...: an `Exporter`. The same features give the same bytes."""

    def __init__(self, folder: Path, facts: TableFacts, *, shard_bytes: int = SHARD_BYTES) -> None:
        """Write into `folder`, which exists."""
        self._folder = folder
        self._facts = facts
        self._shard_bytes = shard_bytes
        self._shards = 0
        self._shard: tarfile.TarFile | None = None
        self._keys: set[str] = set()

    def write(self, video: WholeVideo) -> None:
        """Append a video: see `Exporter.write`."""
        if self._shard is not None and self._shard.offset >= self._shard_bytes:
            self.close()
        if self._shard is None:
            path = self._folder / f"features-{self._shards:06d}.tar"
            self._shard = tarfile.open(path, "w", format=tarfile.PAX_FORMAT)  # noqa: SIM115
            self._shards += 1
        key = self._key(video.video.name)
        files = {"npy": npy_content(video), "json": sidecar(video, self._facts)}
        for kind, content in files.items():
            member = tarfile.TarInfo(f"{key}.{kind}")
            member.size = len(content)
            self._shard.addfile(member, BytesIO(content))

    def close(self) -> None:
        """Finish the open shard: see `Exporter.close`."""
        shard, self._shard = self._shard, None
        if shard is not None:
            shard.close()

    def _key(self, name: str) -> str:
        """Return the key of a video in webdataset: a unique name without dots."""
        stem = name.replace(".", "_")
        key, suffix = stem, 1
        while key in self._keys:
            suffix += 1
            key = f"{stem}-{suffix}"
        self._keys.add(key)
        return key


ExportFormat = Literal["npy", "safetensors", "webdataset"]
"""`npy`: NAME.npy and NAME.json; `safetensors`: NAME.safetensors; `webdataset`: tar files of both
files of the first."""


class Exporter(Protocol):
    """Writes videos into a folder, one after another."""

    def write(self, video: WholeVideo) -> None:
        """Write one.

        Raises:
            OSError: a file cannot be written.
        """

    def close(self) -> None:
        """Finish open files; may be called again.

        Raises:
            OSError: a file cannot be written.
        """


@dataclass(frozen=True, kw_only=True)
class Exported:
    """Result of an export."""

    files: tuple[str, ...]
    """Names in the folder, sorted."""
    videos: int
    """Videos written."""
    empty: tuple[str, ...]
    """Videos without a feature, left out."""
    partial: tuple[str, ...]
    """Videos with missing samples or chunks; the others were written."""


_FORMATS: Final[dict[ExportFormat, Callable[..., Exporter]]] = {
    "npy": NpyFiles,
    "safetensors": SafetensorsFiles,
    "webdataset": WebDatasetShards,
}


def export(
    folder: FeatureFolder,
    out: Path,
    format: ExportFormat,
    *,
    on_video: Callable[[int, int], None] = lambda done, of: None,
) -> Exported:
    """Write all features in another format, to a new folder that appears complete or not at all.

    Holds the features of one video in memory, a few times. Equal features give equal bytes.

    Args:
        folder: Folder of the features.
        out: New or empty folder.
        format: Format of the export.
        on_video: Called with the number of finished videos and their total.

    Raises:
        BackendError: the format needs a package that is missing; names the extra.
        ConfigError: `out` is not empty or cannot be written; no video has a feature, a video name
            is no file name, or a table is damaged.
    """
    if format not in _FORMATS:
        raise ConfigError(f"features are exported as {', '.join(_FORMATS)}, got {format!r}")
    if format == "safetensors":
        check_extra("safetensors", "an export as safetensors", "export npy")
    videos = folder.videos.values()
    if not any(video.n for video in videos):
        raise ConfigError(f"no video in {folder.folder} has a feature; there is nothing to export")
    for name in folder.videos:
        if Path(name).name != name or "\0" in name:
            raise ConfigError(
                f"{folder.folder} has a video {name!r}, which is no name of a file; was it made by "
                "headrace?"
            )
    empty, partial = [], []
    with whole_folder(out) as unfinished:
        exporter = _FORMATS[format](unfinished, folder.facts)
        try:
            for done, video in enumerate(videos, 1):
                features = whole_video(folder, video.name)
                if video.n:
                    exporter.write(features)
                    partial += [video.name] if features.lost or features.errors else []
                else:
                    empty.append(video.name)
                on_video(done, len(videos))
        finally:
            exporter.close()
        files = tuple(sorted(path.name for path in unfinished.iterdir()))
    return Exported(
        files=files, videos=len(videos) - len(empty), empty=tuple(empty), partial=tuple(partial)
    )

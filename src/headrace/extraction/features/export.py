"""Export of features: files for each video, or WebDataset shards."""

import json
import shutil
import tarfile
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from headrace.atomic_file import partial_of
from headrace.errors import ConfigError, file_errors
from headrace.extraction.extraction_options import unique_name
from headrace.extraction.features.feature_folder import FeatureFolder, WholeVideo, whole_video
from headrace.extraction.features.feature_table import TableFacts
from headrace.extras import check_extra
from headrace.records import to_dict
from headrace.runtime.posix import file_lock


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """Yield an empty folder, which is renamed to `out` at the end of the block, unless it fails.

    The next call removes leftovers of a killed process.

    Raises:
        ConfigError: `out` is not empty, is being written by another process, or cannot be written.
    """
    target = out.absolute()
    partial = partial_of(target)
    with file_errors(f"cannot write {out}", "give a writable folder with -o"):
        if target.exists() and any(target.iterdir()):
            raise ConfigError(f"{out} is not empty; give a new or empty folder with -o")
        partial.mkdir(exist_ok=True)
        with file_lock(partial / "lock") as is_ours:
            if not is_ours:
                raise ConfigError(
                    f"another process is writing {out}; wait until it ends, or give another "
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
    """Return the facts that all samples of a video share: the video, and its features' origin."""
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


def npy_files(video: WholeVideo, facts: TableFacts) -> dict[str, bytes]:
    """Return the features of a video [n, ...] as a .npy file, and its JSON sidecar: the facts of
    the video, and the lists `index`, `pts`, `pts_seconds` and `is_concealed`, an entry per row."""
    samples, file = video.samples, BytesIO()  # NumPy's errors on a full disk have no reason
    np.save(file, samples.features, allow_pickle=False)
    lists = {
        "index": samples.index.tolist(),
        "pts": samples.pts.tolist(),
        "pts_seconds": video.seconds.tolist(),
        "is_concealed": samples.is_concealed.tolist(),
    }
    sidecar = json.dumps({**video_facts(video, facts), **lists})
    return {"npy": file.getvalue(), "json": sidecar.encode()}


def safetensors_files(video: WholeVideo, facts: TableFacts) -> dict[str, bytes]:
    """Return a video as a file of safetensors. Needs safetensors.

    Tensors: `features` [n, ...], `index` and `pts` int64 [n], `pts_seconds` float64 [n],
    `is_concealed` bool [n]. The other facts are JSON under `headrace` in the metadata.
    """
    from safetensors.numpy import save

    tensors = {**vars(video.samples), "pts_seconds": video.seconds}
    return {"safetensors": save(tensors, {"headrace": json.dumps(video_facts(video, facts))})}


def write_files(
    files_of: Callable[[WholeVideo, TableFacts], dict[str, bytes]],
    folder: Path,
    videos: Iterable[WholeVideo],
    facts: TableFacts,
) -> None:
    """Write the files of each video, named by the video; `files_of`: suffix → content."""
    for video in videos:
        for suffix, content in files_of(video, facts).items():
            (folder / f"{video.video.name}.{suffix}").write_bytes(content)


SHARD_BYTES: Final = 1 << 30
"""Bytes after which a shard ends: large files read fastest, and several can be shared among
workers."""


def write_webdataset(
    folder: Path,
    videos: Iterable[WholeVideo],
    facts: TableFacts,
    *,
    shard_bytes: int = SHARD_BYTES,
) -> None:
    """Write shards features-000000.tar, ... with both files of `npy_files` for each video."""
    keys: dict[str, None] = {}
    shard: tarfile.TarFile | None = None
    try:
        shards = 0
        for video in videos:
            if shard is None or shard.offset >= shard_bytes:
                if shard is not None:
                    shard.close()
                path = folder / f"features-{shards:06d}.tar"
                shard = tarfile.open(path, "w", format=tarfile.PAX_FORMAT)  # noqa: SIM115
                shards += 1
            # webdataset takes everything after the first dot as the file type.
            key = unique_name(video.video.name.replace(".", "_"), keys)
            keys[key] = None
            for suffix, content in npy_files(video, facts).items():
                member = tarfile.TarInfo(f"{key}.{suffix}")
                member.size = len(content)
                shard.addfile(member, BytesIO(content))
    finally:
        if shard is not None:
            shard.close()


ExportFormat = Literal["npy", "safetensors", "webdataset"]
"""`npy`: NAME.npy and NAME.json; `safetensors`: NAME.safetensors; `webdataset`: tar files with the
files of `npy`."""


@dataclass(frozen=True, kw_only=True)
class Exported:
    """Result of an export."""

    files: tuple[str, ...]
    """Names of the files, sorted."""
    videos: int
    """Videos written."""
    empty: tuple[str, ...]
    """Videos without a feature, left out."""
    partial: tuple[str, ...]
    """Videos with missing samples or chunks; their other samples were written."""


_WRITERS: Final[dict[ExportFormat, Callable[[Path, Iterable[WholeVideo], TableFacts], None]]] = {
    "npy": partial(write_files, npy_files),
    "safetensors": partial(write_files, safetensors_files),
    "webdataset": write_webdataset,
}
"""Format → function that writes videos into a folder; raises OSError."""


def export(
    folder: FeatureFolder,
    out: Path,
    format: ExportFormat,
    *,
    on_video: Callable[[int, int], None] = lambda done, of: None,
) -> Exported:
    """Write all features in another format, to a new folder that appears complete or not at all.

    Holds a few copies of one video's features in memory. Equal features give equal bytes.

    Args:
        folder: Folder of the features.
        out: New or empty folder.
        format: Format of the export.
        on_video: Called with the number of finished videos and their total.

    Raises:
        BackendError: the package for the format is not installed; the message names the extra.
        ConfigError: `out` is not empty or cannot be written; no video has a feature, a video name
            is not a valid file name, or a table is damaged.
    """
    if format not in _WRITERS:
        raise ConfigError(f"format must be one of {', '.join(_WRITERS)}, got {format!r}")
    if format == "safetensors":
        check_extra("safetensors", "an export as safetensors", "export npy")
    videos = folder.videos.values()
    if not any(video.n for video in videos):
        raise ConfigError(f"no video in {folder.folder} has a feature; there is nothing to export")
    for name in folder.videos:
        if Path(name).name != name or "\0" in name:
            raise ConfigError(
                f"{folder.folder} has a video {name!r}, which is not a valid file name; give a "
                "folder that headrace wrote"
            )
    empty, partial = [], []

    def read() -> Generator[WholeVideo, None, None]:
        for done, listed in enumerate(videos, 1):
            video = whole_video(folder, listed.name)
            if listed.n:
                partial.extend([listed.name] if video.lost or video.errors else [])
                yield video
            else:
                empty.append(listed.name)
            on_video(done, len(videos))

    with whole_folder(out) as unfinished, closing(read()) as whole_videos:
        _WRITERS[format](unfinished, whole_videos, folder.facts)
        files = tuple(sorted(path.name for path in unfinished.iterdir()))
    return Exported(
        files=files, videos=len(videos) - len(empty), empty=tuple(empty), partial=tuple(partial)
    )

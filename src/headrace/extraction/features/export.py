"""Features in the formats that other programs train from: a file for each video, or shards."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Protocol

from headrace.errors import ConfigError
from headrace.extraction.features.export_npy import NpyFiles
from headrace.extraction.features.export_safetensors import SafetensorsFiles
from headrace.extraction.features.export_webdataset import WebDatasetShards
from headrace.extraction.features.folder import FeatureFolder
from headrace.extraction.features.whole_folder import whole_folder
from headrace.extraction.features.whole_video import WholeVideo, whole_video
from headrace.extras import check_extra

ExportFormat = Literal["npy", "safetensors", "webdataset"]
"""`npy`: NAME.npy and NAME.json; `safetensors`: NAME.safetensors; `webdataset`: tar files of both
files of the first."""


class Exporter(Protocol):
    """Writes videos into a folder, one after the other."""

    def write(self, video: WholeVideo) -> None:
        """Write one.

        Raises:
            OSError: it cannot be written.
        """

    def close(self) -> None:
        """Finish what is open; harmless when called again.

        Raises:
            OSError: it cannot be written.
        """


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What became of the videos."""

    files: tuple[str, ...]
    """Names in the folder, sorted."""
    videos: int
    """That were written."""
    empty: tuple[str, ...]
    """Videos without a feature: there is nothing of them."""
    partial: tuple[str, ...]
    """Videos of which samples or chunks are missing: the others were written."""


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
    """Write all features in another format, to a new folder that appears whole.

    Holds the features of one video in memory, a few times. The same features give the same bytes.

    Args:
        folder: Where they are.
        out: The new folder, or an empty one.
        format: Which format.
        on_video: Is told how many videos are done, of how many.

    Raises:
        BackendError: the format needs what is not installed; says what adds it.
        ConfigError: the folder holds something, or cannot be written; no video has a feature, one
            is called like no file can be, or a table is damaged.
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
                found = whole_video(folder, video.name)
                if video.n:
                    exporter.write(found)
                    partial += [video.name] if found.lost or found.errors else []
                else:
                    empty.append(video.name)
                on_video(done, len(videos))
        finally:
            exporter.close()
        files = tuple(sorted(path.name for path in unfinished.iterdir()))
    return Exported(
        files=files, videos=len(videos) - len(empty), empty=tuple(empty), partial=tuple(partial)
    )

"""Shards as the package webdataset reads them: tar files with NAME.npy and NAME.json per video."""

import tarfile
from io import BytesIO
from pathlib import Path
from typing import Final

from headrace.extraction.features.export_npy import npy_content
from headrace.extraction.features.table_facts import TableFacts
from headrace.extraction.features.video_facts import sidecar
from headrace.extraction.features.whole_video import WholeVideo

SHARD_BYTES: Final = 1 << 30
"""A shard is ended when it is as large: large files are read quickest, and several are needed to
share them among workers."""


class WebDatasetShards:
    """Writes features-000000.tar, ...: an `Exporter`. The same features give the same bytes."""

    def __init__(self, folder: Path, facts: TableFacts, *, shard_bytes: int = SHARD_BYTES) -> None:
        """Write into `folder`, which is there."""
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
        """Finish the shard that is open: see `Exporter.close`."""
        shard, self._shard = self._shard, None
        if shard is not None:
            shard.close()

    def _key(self, name: str) -> str:
        """What webdataset knows a video by: all up to the first dot, no two alike."""
        plain = name.replace(".", "_")
        key, number = plain, 1
        while key in self._keys:
            number += 1
            key = f"{plain}-{number}"
        self._keys.add(key)
        return key

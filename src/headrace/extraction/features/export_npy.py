"""NumPy's own files: NAME.npy holds the features of a video, NAME.json what belongs to them."""

from io import BytesIO
from pathlib import Path

import numpy as np

from headrace.extraction.features.table_facts import TableFacts
from headrace.extraction.features.video_facts import sidecar
from headrace.extraction.features.whole_video import WholeVideo


class NpyFiles:
    """Writes two files for each video: an `Exporter`."""

    def __init__(self, folder: Path, facts: TableFacts) -> None:
        """Write into `folder`, which is there."""
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
    """Return the features of a video [n, ...] as a file of NumPy's."""
    file = BytesIO()  # NumPy's own writing to a full disk names no reason
    np.save(file, video.samples.features, allow_pickle=False)
    return file.getvalue()

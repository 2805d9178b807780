"""Predictions as JSON lines, one for each frame."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from headrace.errors import ConfigError
from headrace.sinks.seen import Seen
from headrace.video.frames import FrameBatch

NAME = "predictions.jsonl"
"""The file in the folder of a run."""


class PredictionLines:
    """Appends a line for each frame: a `Sink`.

    {"index": 7, "pts": 21000, "pts_seconds": 0.233333, "label": "cat", "confidence": 0.91}

    `pts` are ticks of the video's time base, exact, to join results with.
    """

    def __init__(self, folder: Path, sources: Sequence[str] = ()) -> None:
        """Make the file in `folder`; one that lies there is replaced.

        Args:
            folder: Where it lies.
            sources: What each is called; with several, a line says which it is from.

        Raises:
            ConfigError: it cannot be written.
        """
        self._path = folder / NAME
        self._is_empty = True
        self._sources = tuple(sources) if len(sources) > 1 else ()
        try:
            self._file: TextIO = self._path.open("w", encoding="utf-8")
        except OSError as error:
            raise _unwritable(self._path, error) from error

    def write(self, seen: Seen) -> None:
        """Append a line for each frame: see `Sink.write`."""
        batch, found = seen.batch, seen.labels
        lines = [
            json.dumps(
                self._source_of(batch)
                | {
                    "index": int(batch.index[k]),
                    "pts": int(batch.pts[k]),
                    "pts_seconds": round(float(batch.pts_seconds[k]), 6),
                    "label": found.names[k][0],
                    "confidence": round(found.confidence[k][0], 6),
                },
                ensure_ascii=False,
            )
            for k in range(len(batch))
        ]
        try:
            self._file.writelines(f"{line}\n" for line in lines)
            self._file.flush()  # who follows the file sees whole batches
            self._is_empty = self._is_empty and not lines
        except OSError as error:
            raise _unwritable(self._path, error) from error

    def close(self) -> None:
        """Finish the file; one without a line is removed: see `Sink.close`."""
        try:
            self._file.close()
            if self._is_empty:
                self._path.unlink(missing_ok=True)
        except OSError as error:
            raise _unwritable(self._path, error) from error

    def _source_of(self, batch: FrameBatch) -> dict[str, object]:
        return {"source": self._sources[batch.video]} if self._sources else {}

    @property
    def outputs(self) -> tuple[str, ...]:
        """The file, if it holds a line."""
        return () if self._is_empty else (NAME,)


def _unwritable(path: Path, error: OSError) -> ConfigError:
    reason = (error.strerror or str(error)).lower()
    return ConfigError(f"cannot write {path}: {reason}; give another folder with --out")

"""What a folder of features tells beside its tables: what was asked, what failed, how it ended."""

import json
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from headrace.extraction.features.parts import Parts
from headrace.extraction.features.table_columns import encodable
from headrace.extraction.ledger import Ledger

_SESSION = "session.json"


@dataclass(frozen=True, kw_only=True)
class FolderRecord:
    """What an extraction left behind beside the tables."""

    asked: dict[str, str] = field(default_factory=dict)
    """Name of each video that was asked for → where it lay, in order. Empty: not known."""
    failed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Name of a video → why each chunk that is in no table was left out."""
    is_ended: bool | None = None
    """Whether the last run ended well, and all its tables are there; None: not known, as where
    tables were copied without the rest of their folder."""


def read_record(folder: Path) -> FolderRecord:
    """Return what is known of a folder; where that cannot be read, nothing is."""
    ledger = Ledger(folder)
    try:
        videos = ledger.request().videos
    except (OSError, ValueError):
        return FolderRecord()
    failed: dict[str, tuple[str, ...]] = {}
    for chunk, fallen in ledger.quarantine().known().items():
        with suppress(ValueError, IndexError):
            name = encodable(videos[int(chunk.split("-")[0])].name)
            failed[name] = (*failed.get(name, ()), fallen.reason)
    return FolderRecord(
        asked={encodable(video.name): encodable(video.path) for video in videos},
        failed=failed,
        is_ended=_has_ended(folder, Parts(ledger).path),
    )


def _has_ended(folder: Path, parts: Path) -> bool:
    try:
        session = json.loads((folder / _SESSION).read_text(encoding="utf-8"))
        tables = [name for name in session["outputs"] if name.endswith(".parquet")]
        is_whole = all((folder / name).is_file() for name in tables)
        # A run that was killed leaves what it computed there.
        is_left = parts.is_dir() and any(parts.iterdir())
        return session["outcome"] == "complete" and is_whole and not is_left
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False

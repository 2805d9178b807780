"""Tables of a LeRobot dataset: JSON and Parquet files, columns as tensors, and their errors."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.errors import ConfigError, HeadraceError, file_errors, first_line, in_words
from headrace.extras import require

NOT_A_DATASET: Final = (
    "give the folder of a LeRobot dataset, which holds meta/info.json, data and videos"
)
_AGAIN: Final = "download the dataset again"

Stats = dict[str, dict[str, NDArray[Any]]]
"""Feature → statistic → its values."""


@contextmanager
def metadata_errors(folder: Path) -> Iterator[None]:
    """Convert the errors of metadata with entries that are missing or of another type."""
    try:
        yield
    except HeadraceError:
        raise
    except (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError) as error:
        raise ConfigError(
            f"the metadata of {folder} is not as LeRobot writes it ({in_words(error)}); {_AGAIN}"
        ) from error


def read_json(path: Path) -> Any:
    """Return the content of a JSON file. Raises ConfigError."""
    return _parsed(_text(path), path)


def read_json_lines(path: Path) -> list[Any]:
    """Return the content of each line of a file. Raises ConfigError."""
    return [_parsed(line, path) for line in _text(path).splitlines() if line.strip()]


def _text(path: Path) -> str:
    with file_errors(f"cannot read {path}", NOT_A_DATASET):
        return path.read_text(encoding="utf-8")


def _parsed(text: str, path: Path) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is no JSON: {error}; {_AGAIN}") from error


def parquet_columns(file: Path) -> list[str]:
    """Return the names of the columns of a Parquet file. Raises as `read_parquet`."""
    with require("parquet", "a LeRobot dataset"):
        import pyarrow.parquet
    if not file.is_file():
        raise ConfigError(f"{file} is missing; {_AGAIN}")
    with _parquet_errors(file):
        names: list[str] = pyarrow.parquet.read_schema(file).names
    return names


def read_parquet(
    file: Path, columns: Sequence[str] | None = None, filters: Sequence[Any] | None = None
) -> Any:
    """Return a Parquet file as a table of pyarrow.

    Raises:
        ConfigError: it cannot be read, or lacks a column.
        BackendError: pyarrow is not installed.
    """
    present = parquet_columns(file)
    for name in columns or ():
        if name not in present:
            raise ConfigError(f"{file} has no column {name}; {_AGAIN}")
    import pyarrow.parquet

    with _parquet_errors(file):
        names = None if columns is None else [*columns]
        return pyarrow.parquet.read_table(file, columns=names, filters=filters, partitioning=None)


def joined_tables(tables: Sequence[Any], folder: Path) -> Any:
    """Return tables with the same columns as one. Raises ConfigError where types differ."""
    with require("parquet", "a LeRobot dataset"):
        import pyarrow
    with _parquet_errors(folder):
        return pyarrow.concat_tables(tables, promote_options="permissive")


@contextmanager
def _parquet_errors(path: Path) -> Iterator[None]:
    """Convert the errors of pyarrow on a file."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError) as error:  # those of pyarrow are of these
        raise ConfigError(f"cannot read {path}: {first_line(error)}; {_AGAIN}") from error


def as_tensor(column: Any, shape: Sequence[int], where: str) -> torch.Tensor | list[str]:
    """Return a column as LeRobot's items have it: a number of shape (1,) is a scalar.

    Args:
        column: A column of pyarrow.
        shape: Shape of a row by the metadata.
        where: Name of the column and its dataset, for messages.

    Raises:
        ConfigError: it lacks values, or they are no numbers or texts, or of another shape.
    """
    values, rows = column.combine_chunks(), len(column)
    values = getattr(values, "storage", values)  # of an extension type
    lacking, is_ragged = values.null_count, False
    while str(values.type).startswith(("list", "fixed_size_list", "large_list")):
        if hasattr(values, "offsets"):
            lengths = np.diff(values.offsets.to_numpy())
            is_ragged |= bool(lengths.size and (lengths != lengths[0]).any())
        values = values.flatten()
        lacking += values.null_count
    if lacking:
        raise ConfigError(f"{where} lacks {lacking} values; fill them in")
    if str(values.type) in ("string", "large_string"):
        texts: list[str] = values.to_pylist()
        return texts
    array = values.to_numpy(zero_copy_only=False)
    kind = {"b": torch.bool, "i": torch.int64, "u": torch.int64, "f": torch.get_default_dtype()}
    if array.dtype.kind not in kind:
        raise ConfigError(f"{where} holds {values.type}, and numbers or text are needed")
    if array.dtype.kind == "u":
        array = array.astype(np.int64)
    inner = () if tuple(shape) == (1,) else tuple(shape)
    if is_ragged or array.size != rows * int(np.prod(inner)):
        raise ConfigError(
            f"{where} holds {array.size} values in {rows} rows, and each row must be of shape "
            f"{[*shape]}"
        )
    tensor = torch.tensor(array.reshape(rows, *inner))
    return tensor.to(kind[array.dtype.kind])


def as_arrays(stats: Mapping[str, Mapping[str, Any]]) -> Stats:
    """Return statistics as arrays of at least one dimension."""
    return {
        feature: {name: np.atleast_1d(np.array(value)) for name, value in values.items()}
        for feature, values in stats.items()
    }


def joined_stats(episodes: Sequence[Stats]) -> Stats:
    """Return the statistics of all episodes together, by those of each."""
    joined: Stats = {}
    for feature in episodes[0]:
        parts = [episode[feature] for episode in episodes]
        counts = np.array([part["count"].item() for part in parts], np.float64)
        means = np.stack([part["mean"] for part in parts])
        weights = (counts / counts.sum()).reshape(-1, *[1] * (means.ndim - 1))
        mean = (weights * means).sum(0)
        variances = np.stack([part["std"] ** 2 for part in parts]) + (means - mean) ** 2
        joined[feature] = {
            "min": np.stack([part["min"] for part in parts]).min(0),
            "max": np.stack([part["max"] for part in parts]).max(0),
            "mean": mean,
            "std": np.sqrt((weights * variances).sum(0)),
            "count": np.array([int(counts.sum())]),
        }
    return joined

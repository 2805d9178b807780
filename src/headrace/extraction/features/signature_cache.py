"""Cache of model signatures, each measured once in a child process."""

import json
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, Self

import platformdirs

from headrace.cache.content_digests import ContentDigests
from headrace.cache.sqlite_file import MemoTable, Schema
from headrace.errors import BackendError, ConfigError, HeadraceError, MediaError
from headrace.extraction.features.model_signature import ModelSignature
from headrace.extraction.features.model_spec import (
    FeatureModelSpec,
    Numerics,
    SampleSpec,
    TorchvisionModelSpec,
    asked_of,
    model_of_asked,
    numerics_of_asked,
)
from headrace.records import from_dict, to_dict
from headrace.runtime.child_process import FunctionSpec, Json
from headrace.runtime.supervisor import run_children
from headrace.video.source import Source

FILE: Final = "features-1.sqlite"
"""File name in the user's cache folder; changes when signatures change."""

_LAYOUT: Final = Schema(
    application=0x48524346,
    version=1,
    tables="""
CREATE TABLE facts (asked TEXT PRIMARY KEY, files TEXT NOT NULL, facts TEXT NOT NULL)
""",
)
_PACKAGES: Final = ("headrace", "torch", "torchvision")


class KnownFacts:
    """Signatures of torchvision models on the CPU, by request and package versions.

        with KnownFacts() as known:
            facts = known.find(request_of(spec, sampling, numerics))

    A signature is valid while the contents of the weight files stay the same; each version of a
    file is read once. If the table cannot be written, nothing is cached. For one thread at a time.
    """

    def __init__(self, folder: Path | None = None, contents: ContentDigests | None = None) -> None:
        """Set the folder of the table, by default the user's cache folder, and the digest reader.

        `close` closes `contents`, too.
        """
        folder = folder or Path(platformdirs.user_cache_dir("headrace"))
        self._table = MemoTable(folder / FILE, _LAYOUT)
        self._contents = contents or ContentDigests(folder)

    def find(self, request: str | None) -> ModelSignature | None:
        """Return the signature of a request; None: unknown, or no request.

        A missing or changed weight file makes the signature unknown.
        """
        row = request and self._table.find(
            "SELECT files, facts FROM facts WHERE asked = ?", (request,)
        )
        if not row:
            return None
        try:
            files, plain = json.loads(row[0]), json.loads(row[1])
            if files != self._digests([Path(path) for path in files]):
                return None
            return from_dict(ModelSignature, plain, file=FILE)
        except (ValueError, TypeError, RecursionError):
            return None

    def keep(self, request: str | None, facts: ModelSignature, files: Sequence[Path]) -> None:
        """Cache a signature that depends on `files`, if it has a request."""
        digests = self._digests(files)
        if request is not None and digests is not None:
            self._table.keep(
                "INSERT OR REPLACE INTO facts VALUES (?, ?, ?)",
                (request, json.dumps(digests), json.dumps(to_dict(facts))),
            )

    def close(self) -> None:
        """Close the tables."""
        self._table.close()
        self._contents.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _digests(self, files: Sequence[Path]) -> dict[str, str] | None:
        """Return path → content digest; None if a file cannot be read."""
        try:
            return {str(path): self._contents.of(Source(path)) for path in files}
        except MediaError:
            return None


def request_of(spec: FeatureModelSpec, sampling: SampleSpec, numerics: Numerics) -> str | None:
    """Return all inputs of a signature except file contents; None for a custom model or a GPU,
    which have further inputs."""
    if not isinstance(spec, TorchvisionModelSpec) or numerics.kind != "cpu":
        return None
    try:
        versions = {name: version(name) for name in _PACKAGES}
    except PackageNotFoundError:
        return None
    asked = {**asked_of(spec, numerics), "clip_len": sampling.clip_frames, "versions": versions}
    return json.dumps(asked, sort_keys=True)


def feature_facts(
    spec: FeatureModelSpec, sampling: SampleSpec, numerics: Numerics, known: KnownFacts
) -> ModelSignature:
    """Return the signature of a model, without loading PyTorch in this process.

    An unknown signature is measured in a child process, which loads and runs the model once (a few
    seconds), and is then cached.

    Raises:
        ConfigError: the model, layer or function is unknown, the weights cannot be read, or the
            model does not accept the samples.
        BackendError: the device is not available, memory is too small, or the model ends its
            process.
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    request = request_of(spec, sampling, numerics)
    cached = known.find(request)
    if cached is not None:
        return cached
    asked: dict[str, Json] = {**asked_of(spec, numerics), **sampling.asked()}
    asked["device"] = numerics.device  # with the index of the GPU
    [ending] = run_children(
        [FunctionSpec(name="the model", function=measure_facts, argument=asked)]
    )
    result: Any = ending.result
    if not ending.has_succeeded:
        raise BackendError(
            f"the model cannot be loaded and run once: {ending.describe()}; use another model"
        )
    if "error" in result:
        raise (BackendError if result["is_backend"] else ConfigError)(result["error"])
    facts = from_dict(ModelSignature, result["facts"], file="the facts of the model")
    known.keep(request, facts, [Path(file) for file in result["files"]])
    return facts


def measure_facts(argument: Json, send: Callable[[Json], None]) -> Json:
    """Measure the signature of a model: a `ChildFunction`."""
    from headrace.extraction.features.signature_probe import measure_signature

    assert isinstance(argument, dict)
    request: Any = argument
    try:
        facts, files = measure_signature(
            model_of_asked(request), SampleSpec.of_asked(request), numerics_of_asked(request)
        )
    except HeadraceError as error:
        return {"error": str(error), "is_backend": isinstance(error, BackendError)}
    return {"facts": to_dict(facts), "files": [str(file) for file in files]}

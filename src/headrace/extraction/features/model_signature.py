"""Signature of a feature model: measured once, cached, and the part of the cache keys it gives."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any, Final, Self

import platformdirs

from headrace.cache.cache_url import Cache
from headrace.cache.content_digests import ContentDigests
from headrace.cache.key import ChunkKey
from headrace.cache.sqlite_file import MemoTable, Schema
from headrace.decode.decoder_config import ON_CPU, DecoderConfig
from headrace.decode.index_store import VERSION
from headrace.decode.protocol import OnError
from headrace.errors import BackendError, CacheError, ConfigError, HeadraceError, MediaError
from headrace.extraction.extraction_options import (
    WHOLE_FRAMES,
    OutputSpec,
    shape_asked,
    shape_of_asked,
)
from headrace.extraction.features.feature_result import ChunkResult, ResultInfo
from headrace.extraction.features.model_spec import (
    FeatureModelSpec,
    ModelSignature,
    Numerics,
    SampleSpec,
    TorchvisionModelSpec,
    asked_of,
    model_of_asked,
    numerics_of_asked,
)
from headrace.planning.chunks import Chunk
from headrace.records import from_dict, to_dict
from headrace.runtime.child_process import FunctionSpec, Json
from headrace.runtime.supervisor import run_children
from headrace.video.frame_format import FrameFormat
from headrace.video.source import Source
from headrace.video.stream_index import StreamIndex

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
    from headrace.extraction.features.load_feature_model import measure_signature

    assert isinstance(argument, dict)
    request: Any = argument
    try:
        facts, files = measure_signature(
            model_of_asked(request), SampleSpec.of_asked(request), numerics_of_asked(request)
        )
    except HeadraceError as error:
        return {"error": str(error), "is_backend": isinstance(error, BackendError)}
    return {"facts": to_dict(facts), "files": [str(file) for file in files]}


_KIND = "features 2"
"""Kind and version of keys; increase it when features of the same key change."""


@dataclass(frozen=True, kw_only=True)
class KeyMaker:
    """Makes the cache keys of chunks."""

    facts: ModelSignature
    sampling: SampleSpec
    on_error: OnError
    decoding: DecoderConfig = ON_CPU
    shape: FrameFormat = WHOLE_FRAMES
    """Output format of frames; non-default parts are in the key."""

    @classmethod
    def of(
        cls, request: OutputSpec, facts: ModelSignature, decode: str, *, raises: bool
    ) -> "KeyMaker":
        """Return the maker of an extraction's keys.

        Args:
            request: Request of the extraction.
            facts: Signature of its model.
            decode: Value of `--decode`.
            raises: Whether bad media is an error.
        """
        return cls(
            facts=facts,
            sampling=SampleSpec.of_asked(request.asked),
            on_error="raise" if raises else "conceal" if request.conceals else "skip",
            decoding=DecoderConfig.parse(decode),
            shape=shape_of_asked(request.asked),
        )

    def key_of(self, starts: Sequence[int], content: str) -> ChunkKey:
        """Return the key of a chunk's result.

        Args:
            starts: First frame of each sample of the chunk, ascending.
            content: Digest of the whole file: see `ContentDigests`.
        """
        clip = self.sampling.clip
        return ChunkKey(
            kind=_KIND,
            content=content,
            selection={
                "index_version": VERSION,
                "starts": starts,
                "num_frames": None if clip is None else clip.num_frames,
                "stride": None if clip is None else clip.stride,
            },
            decode={
                **decode_facts(self.decoding, on_error=self.on_error),
                **shape_asked(self.shape),
            },
            preprocess=self.facts.preprocess,
            model=self.facts.model,
            numerics=self.facts.numerics,
        )


def decode_facts(decoding: DecoderConfig, *, on_error: str) -> dict[str, Any]:
    """Return the inputs of decoding: `ChunkKey.decode`.

    PyAV's version determines FFmpeg's, because the wheel contains it. torchcodec's version does
    not, but its FFmpeg versions give equal frames within a tolerance.
    """
    return {
        "backend": decoding.backend,
        "version": version("av" if decoding.backend == "pyav" else decoding.backend),
        "device": decoding.device.partition(":")[0],
        "on_error": on_error,
    }


_GROUP_BYTES: Final = 32 << 20
"""Bytes of features per request to the cache."""
WORKER: Final = "cache"
"""Worker name of results from the cache."""


@dataclass(eq=False)
class Lookup:
    """Looks up chunks in a cache."""

    indexes: Mapping[int, StreamIndex]
    keys: KeyMaker
    cache: Cache
    sample_bytes: int
    contents: dict[int, str]
    """Video number → content digest, if known; filled here."""

    @property
    def is_needed(self) -> bool:
        """Whether results are cached at all."""
        return self.keys.facts.uncached is None and not self.cache.is_none

    def results(self, chunks: Sequence[Chunk]) -> Iterator[ChunkResult]:
        """Yield the cached results, in order.

        Cost: reads each new video once, for its digest.
        """
        if not self.is_needed:
            return
        ends = accumulate(chunk.frames * self.sample_bytes for chunk in chunks)
        ended = zip(chunks, ends, strict=True)
        by_request = groupby(ended, lambda pair: (pair[0].video, pair[1] // _GROUP_BYTES))
        for (video, _), group in by_request:
            yield from self._results_of(video, [chunk for chunk, _ in group])

    def content(self, video: int) -> str | None:
        """Return the content digest of a video; None for an unreadable file or an image sequence.

        Cost: reads the complete file, once for each of its versions.
        """
        if video not in self.contents:
            with suppress(MediaError), ContentDigests() as digests:
                source = Source(self.indexes[video].source.path)
                self.contents[video] = digests.of(source)
        return self.contents.get(video)

    def _results_of(self, video: int, chunks: Sequence[Chunk]) -> Iterator[ChunkResult]:
        content = self.content(video)
        if content is None:
            return  # the worker that decodes the video reports the error
        starts = self.keys.sampling.starts(self.indexes[video])
        keys = {chunk: self.keys.key_of(chunk.of(starts).tolist(), content) for chunk in chunks}
        entries = self.cache.get(keys.values())
        for chunk, key in keys.items():
            if key in entries:
                info = ResultInfo(is_cached=True, worker=WORKER)
                with suppress(CacheError):  # an entry of another layout is computed again
                    yield ChunkResult.of_arrays(chunk, entries[key], info)

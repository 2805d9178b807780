"""What a worker is told of a chunk of features."""

from headrace.extraction.features.chunks import ChunkSpec
from headrace.runtime.child import Json
from headrace.runtime.speaker import Speaker


def told_of(chunk: ChunkSpec, content: str | None) -> Json:
    """Return what a worker is told of a chunk; `content`: of its video, where results are kept."""
    return [chunk.video, chunk.start, chunk.stop, chunk.samples, content]


def told_by(speaker: Speaker) -> tuple[ChunkSpec, str | None]:
    """Return what `told_of` told."""
    assert isinstance(speaker.told, list)
    *numbers, content = speaker.told
    video, start, stop, samples = (int(str(number)) for number in numbers)
    chunk = ChunkSpec(video=video, start=start, stop=stop, samples=samples)
    return chunk, None if content is None else str(content)

"""What things are kept under: a known input gives a known key, so that what is kept is found."""

from pathlib import Path

from headrace.cache.contents import ContentDigests
from headrace.cache.key import ChunkKey
from headrace.decode.index_store import IndexStore
from headrace.extraction.request import AskedVideo, Request
from headrace.models.memory_table import MemoryKey, MemoryTables
from headrace.video.source import Source

RECORDED = Path(__file__).parent / "recorded"


def test_a_known_input_gives_a_known_key(holds, tmp_path):
    request = Request(
        kind="frames",
        asked={"frames": "every 8", "size": None},
        videos=(AskedVideo(name="a", path="/videos/a.mp4", size=1, mtime_ns=2),),
    )
    memory = MemoryKey(
        device="A GPU",
        memory_bytes=1,
        driver=None,
        torch="2.5",
        model="resnet18",
        precision="float32",
        prep_level="medium",
        input=(3, 224, 224),
    )
    with ContentDigests(tmp_path) as digests:
        content = digests.of(Source(RECORDED / "videos" / "a.mp4"))
    lines = [
        f"chunk of results: {_chunk().digest}",
        f"chunk of results, what it is made of: {_chunk().text}",
        f"content of a video: {content}",
        f"index of a video: {IndexStore(tmp_path).entry(Source('/videos/a.mp4')).name}",
        f"index of a stream: {IndexStore(tmp_path).entry(Source('/videos/a.mp4', 1)).name}",
        f"memory of a model: {MemoryTables(tmp_path).entry(memory).name}",
        f"request of an extraction: {request.digest}",
    ]
    holds("keys.txt", "\n".join(lines) + "\n")


def _chunk() -> ChunkKey:
    return ChunkKey(
        kind="features 1",
        content="sha256:00",
        selection={"pts": [0, 512, 1024], "time_base": "1/12800"},
        decode={"backend": "pyav", "device": "cpu"},
        preprocess={"crop": [224, 224], "mean": 0.5},
        model={"name": "resnet18", "layers": ["avgpool"]},
        numerics={},
    )

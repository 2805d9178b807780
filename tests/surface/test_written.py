"""Snapshots of the layouts of files that commands write, and of their JSON output."""

import gzip
import json
import sqlite3
import tarfile
from contextlib import closing, redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

import headrace
from headrace.cli import main
from headrace.decode.index_store import IndexStore
from headrace.extraction.journal import DeadLetters
from headrace.testing.synth import SynthClip, write_clip
from headrace.video.source import Source
from surface.shapes import found

MODEL = "--model-name squeezenet1_1 --weights none"
BOXES = "--model-name ssdlite320_mobilenet_v3_large --weights none --threshold 0"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with two videos, a clip of two cameras, and its own cache folder."""
    folder = tmp_path_factory.mktemp("written")
    for name in ("a", "b"):
        write_clip(_made(folder / "videos") / name, SynthClip(size=(64, 96), num_frames=24))
    for name in ("left", "right"):
        write_clip(_made(folder / "clips" / "one") / name, SynthClip(size=(64, 96), num_frames=12))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        patch.chdir(folder)
        yield folder


@pytest.mark.usefixtures("brief_rehearsals")
def test_json_output_of_commands(holds, place):
    pages = [
        _printed("index videos"),
        _printed("clip videos/a.mp4 --num-frames 4"),
        _names("plan videos --size 32x48 --batch-size 8"),
        _printed("models squeezenet1_1"),
        _printed("models squeezenet1_1 --prep"),
        _printed("doctor --parity videos/a.mp4"),
        _printed("index --layout cameras clips --out index_frame.json"),
        _printed("extract frames videos -o none --every 8 --dry-run"),
    ]
    machine = json.loads(_call("doctor --json"))
    pages.append("\n".join(["# doctor --json", *sorted(machine)]))
    holds("written/printed.txt", "\n\n".join(pages) + "\n")


def test_files_of_a_run(holds, place):
    _call(f"run videos/a.mp4 {MODEL} --max-steps 3 --trace --out run")
    pages = [
        _listing(place / "run"),
        _page("predictions.jsonl", _rows(place / "run" / "predictions.jsonl")),
        _page("trace.json.gz", _events(place / "run" / "trace.json.gz")),
    ]
    holds("written/run.txt", "\n\n".join(pages) + "\n")


def test_predictions_of_a_run_as_parquet(holds, place):
    options = "--max-steps 3 --predictions parquet --no-video --out table"
    _call(f"run videos/a.mp4 {MODEL} {options}")
    holds("written/predictions.parquet.txt", _columns(place / "table" / "predictions.parquet"))


def test_files_of_a_live_run(holds, place):
    _call(f"run videos/a.mp4 {MODEL} --pace realtime --max-steps 3 --out live")
    pages = [
        _listing(place / "live"),
        _page("predictions.jsonl", _rows(place / "live" / "predictions.jsonl")),
    ]
    holds("written/live.txt", "\n\n".join(pages) + "\n")


def test_files_of_annotate(holds, place):
    options = "--max-boxes 2 --batch-size 1 --max-steps 1 --out boxes"
    _call(f"annotate videos/a.mp4 {BOXES} {options}")
    coco = json.loads((place / "boxes" / "coco.json").read_text("utf-8"))
    pages = [
        _listing(place / "boxes"),
        _page("coco.json", found(coco)),
        _columns(place / "boxes" / "boxes.parquet"),
    ]
    holds("written/annotate.txt", "\n\n".join(pages) + "\n")


def test_files_of_extract_frames(holds, place):
    _call("extract frames videos -o frames --every 8 --workers 1")
    pages = [
        _listing(place / "frames"),
        _columns(place / "frames" / "frames.parquet"),
        *_journal(place / "frames"),
    ]
    holds("written/frames.txt", "\n\n".join(pages) + "\n")


def test_files_of_extract_features(holds, place):
    options = "--every 8 --cache features.sqlite --workers 1"
    _call(f"extract features videos -o features {MODEL} {options}")
    pages = [
        _listing(place / "features"),
        _columns(place / "features" / "features-00000.parquet"),
        *_journal(place / "features"),
        _printed("extract aggregate features -o videos.parquet"),
        _columns(place / "videos.parquet"),
    ]
    for kind in ("npy", "safetensors", "webdataset"):
        pages.append(_printed(f"extract export features --format {kind} -o {kind}"))
        pages.append(_listing(place / kind))
    with tarfile.open(place / "webdataset" / "features-000000.tar") as shard:
        pages.append(_page("features-000000.tar", shard.getnames()))
    facts = json.loads((place / "npy" / "a.json").read_text("utf-8"))
    pages.append(_page("a.json", found(facts)))
    pages += _cached(place / "features.sqlite")
    holds("written/features.txt", "\n\n".join(pages) + "\n")


def test_files_of_proxy(holds, place):
    _call("proxy videos -o proxies --size 48 --no-gain")
    pages = [
        _listing(place / "proxies"),
        _page("proxies.jsonl", _rows(place / "proxies" / "proxies.jsonl")),
        _page("proxies.json", found(json.loads((place / "proxies" / "proxies.json").read_text()))),
        _arrays(place / "proxies" / "videos" / "a.npz"),
        *_journal(place / "proxies"),
    ]
    holds("written/proxies.txt", "\n\n".join(pages) + "\n")


@pytest.mark.filterwarnings("ignore::headrace.SkippedVideosWarning")
def test_lists_of_bad_files(holds, place):
    dead_letters = DeadLetters(place / "quarantine.json", "a decoder")
    dead_letters.add("00000-00000000-00000017", "its worker died")
    (_made(place / "bad") / "bad.mp4").write_bytes(b"no video")
    videos = ["videos/a.mp4", "bad/bad.mp4"]
    with headrace.FrameLoader(videos, on_error="skip", quarantine="bad.jsonl") as loader:
        assert len(loader.skipped_videos) == 1
    pages = [
        _page("quarantine.json", found(json.loads(dead_letters.path.read_text("utf-8")), {""})),
        _page("quarantine of a loader", _rows(place / "bad.jsonl")),
    ]
    holds("written/quarantine.txt", "\n\n".join(pages) + "\n")


def test_arrays_of_an_index(holds, place):
    store = IndexStore(place / "store")
    source = Source(str(place / "videos" / "a.mp4"))
    store.verify(source)
    holds("written/index.txt", _arrays(store.entry(source)) + "\n")


def test_camera_index(holds, place):
    for sync in ("index", "nearest"):
        _call(f"index --layout cameras clips --sync {sync} --out {sync}.json")
    pages = [
        _page(f"--sync {sync}", found(json.loads((place / f"{sync}.json").read_text("utf-8"))))
        for sync in ("index", "nearest")
    ]
    holds("written/index_of_cameras.txt", "\n\n".join(pages) + "\n")


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _call(command: str) -> str:
    out = StringIO()
    with redirect_stdout(out), pytest.raises(SystemExit) as end:
        main(command.split())
    assert not end.value.code, out.getvalue()
    return out.getvalue()


def _printed(command: str) -> str:
    return _page(f"{command} --json", found(json.loads(_call(f"{command} --json"))))


def _names(command: str) -> str:
    """Return the lines of `_printed` without types, because measurements decide which are None."""
    head, *lines = _printed(command).splitlines()
    return "\n".join([head, *(line.partition(":")[0] for line in lines)])


def _rows(path: Path) -> list[str]:
    return found([json.loads(row) for row in path.read_text("utf-8").splitlines()])


def _page(head: str, lines: list[str]) -> str:
    return "\n".join([f"# {head}", *sorted(lines)])


def _listing(folder: Path) -> str:
    """Return the names of the files in a folder, without the number of a process."""
    names = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    ours = [name for name in names if not name.startswith(".extraction")]
    plain = [
        "_P_N_".join([name.partition("_P_")[0], "metrics.csv"]) for name in ours if "_P_" in name
    ]
    return _page("files", [*plain, *(name for name in ours if "_P_" not in name)])


def _columns(path: Path) -> str:
    schema = pyarrow.parquet.read_schema(path)
    lines = [f"{field.name}: {field.type}" for field in schema]
    for name, text in sorted((schema.metadata or {}).items()):
        if name != b"ARROW:schema":
            inner = found(json.loads(text), {"versions"}) if text.startswith(b"{") else ["text"]
            lines += [f"metadata {name.decode()} {line}" for line in sorted(inner)]
    return "\n".join([f"# {path.name}", *lines])


def _journal(folder: Path) -> list[str]:
    home = folder / ".extraction"
    request = json.loads((home / "request.json").read_text("utf-8"))
    entries = [json.loads(path.read_text("utf-8")) for path in sorted(home.glob("chunks/*.json"))]
    names = sorted(path.name for path in home.glob("chunks/*.json"))
    return [
        _page(".extraction/request.json", found(request)),
        _page(".extraction/chunks", names),
        _page(".extraction/chunks/*.json", found(entries)),
    ]


def _arrays(path: Path) -> str:
    with np.load(path, allow_pickle=False) as arrays:
        lines = [f"{name}: {arrays[name].dtype}, {arrays[name].ndim}D" for name in arrays.files]
        header = json.loads(bytes(arrays["header"])) if "header" in arrays else {}
    return _page(path.suffix[1:], [*lines, *(f"header {line}" for line in found(header))])


def _events(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        trace = json.load(file)
    lines = {
        f"{event['ph']} {line}"
        for event in trace["traceEvents"]
        if event["ph"] != "X" or event["cat"] == "stage"  # other events come from PyTorch
        for line in found(event)
    }
    return [*lines, *(f"{name}: {type(trace[name]).__name__}" for name in trace)]


def _cached(path: Path) -> list[str]:
    """Return the tables of a cache, and the parts of the key of a result."""
    with closing(sqlite3.connect(path)) as sqlite:
        tables = [
            " ".join(sql.split())
            for (sql,) in sqlite.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
        ]
        digest = sqlite.execute("SELECT hex(digest) FROM entries ORDER BY digest").fetchone()[0]
    explained = json.loads(_call(f"cache explain {digest} --cache {path} --json"))
    pages = [_page("cache", tables), _page("cache explain", found(explained))]
    return [*pages, *(_printed(f"cache {what} --cache {path.name}") for what in ("info", "verify"))]

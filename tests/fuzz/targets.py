"""Fuzz targets: videos, images, and files that headrace writes."""

import hashlib
import io
import os
import shutil
import sqlite3
import tempfile
import zipfile
import zlib
from contextlib import closing, suppress
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image

from fuzz.table_targets import TABLES
from fuzz.target import RECORDED, Target, recorded
from headrace import DecodeJob, IndexStore, Proxies, Session, StreamIndex, open_decoder
from headrace.cache import spill_folder
from headrace.cache.cache_url import open_store
from headrace.cache.key import decode
from headrace.cache.maintenance import verify
from headrace.cache.spill_store import SpillStore
from headrace.decode.image_files import is_image, read_image, upright_size
from headrace.decode.proxy_index import ProxyIndex
from headrace.errors import DecodeError, HeadraceError
from headrace.extraction.journal import DeadLetters, Journal
from headrace.report.folder import render_html
from headrace.report.text import render_text
from headrace.sinks.video_file import truncate_to_fragments
from headrace.video import nal
from headrace.video.nal import sequence_header
from headrace.video.pyav_version import _max_descriptions
from headrace.video.random_access import KEYFRAME_RULES, classify_keyframe, packet_flags_reader
from headrace.video.source import FileStat, ProxySource, Source

_CODECS = tuple(KEYFRAME_RULES)


def _video(folder: Path) -> Source:
    path = folder / "a.mp4"
    if not path.exists():
        shutil.copy(RECORDED / "videos" / "a.mp4", path)
        os.utime(path, ns=(_MTIME_NS, _MTIME_NS))
    return Source(str(path))


_MTIME_NS = 1_750_000_000_000_000_000


def _members(entry: bytes) -> dict[str, bytes]:
    """Return the files in an index entry, and the header as JSON."""
    with zipfile.ZipFile(io.BytesIO(entry)) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    members["header.npy"] = bytes(np.load(io.BytesIO(members["header.npy"])))
    return members


def _member_seeds(entry: bytes) -> list[bytes]:
    """Return the byte 0 with the entry, and the number of each file in it with its content."""
    members = enumerate(_members(entry).values(), 1)
    return [b"\0" + entry, *(bytes([number]) + content for number, content in members)]


def _with_member(entry: bytes, data: bytes) -> bytes:
    """Return an entry with one file replaced by `data`; see `_member_seeds`."""
    members = _members(entry)
    number = (data or b"\0")[0] % (len(members) + 1)
    if number == 0:
        return data[1:]
    members[[*members][number - 1]] = data[1:]
    header = io.BytesIO()
    np.save(header, np.frombuffer(members["header.npy"], np.uint8))
    members["header.npy"] = header.getvalue()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


@cache
def _index_entry() -> bytes:
    """Return the index entry of the video of `_video`."""
    with tempfile.TemporaryDirectory() as name:
        store, source = IndexStore(Path(name)), _video(Path(name))
        store.load(source)
        return store.entry(source).read_bytes()


def _run_index(data: bytes, folder: Path) -> None:
    store, source = IndexStore(folder / "index"), _video(folder)
    store.folder.mkdir(exist_ok=True)
    store.entry(source).write_bytes(_with_member(_index_entry(), data))
    index = store.find(source)
    if index is not None:
        _use(index)


@cache
def _proxy_entry() -> bytes:
    return (RECORDED / "proxies" / "videos" / "a.npz").read_bytes()


def _use(index: StreamIndex) -> None:
    """Use an index like a reader, and decode its first and last frame."""
    for gop in range(min(index.num_gops, 100)):
        index.gop_range(gop)
        index.parameter_sets_before_packet(int(index.gop_packet[gop]))
    _ = index.is_keyframe, index.frame_of_packet, index.has_open_gops, index.has_late_frames
    _ = index.frame_rate, index.duration_seconds, index.is_vfr, index.is_unique, index.can_skip
    index.frame_status.knows(len(index) - 1)
    index.seconds(len(index) - 1)
    wanted = tuple(sorted({0, len(index) - 1}))
    with suppress(DecodeError), closing(open_decoder(index)) as decoder:
        for _frame in decoder.run(DecodeJob(wanted, goes_on=False)):
            pass


def _run_proxy_entry(data: bytes, folder: Path) -> None:
    header = _members(_proxy_entry())["header.npy"]
    number = int(header[header.index(b'"mtime_ns": ') + 12 :].split(b"}")[0])
    path = Path(shutil.copy(RECORDED / "proxies" / "videos" / "a.mp4", folder))
    source = ProxySource(
        Path("/no/such/a.mp4"),
        proxy=path,
        entry=path.with_suffix(".npz"),
        proxy_bytes=path.stat().st_size,
        known=FileStat((RECORDED / "videos" / "a.mp4").stat().st_size, number),
    )
    source.entry.write_bytes(_with_member(_proxy_entry(), data))
    _use(ProxyIndex.of(source))


def _run_proxy_list(data: bytes, folder: Path) -> None:
    (folder / "proxies.jsonl").write_bytes(data)
    proxies = Proxies(folder)
    for source in proxies.videos:
        assert source.proxy.absolute().is_relative_to(folder)
    proxies.all(["/recorded/videos/a.mp4", "b.mp4"])


def _nal_seeds() -> list[bytes]:
    """Return two seeds per codec: its number, length size, extradata length, extradata, packet."""
    units = [bytes([0x67, 66, 0, 30]) * 3, bytes([0x68, 0xCE, 1, 2]), bytes([0x65, 0x88, 0, 3, 9])]
    coded = b"".join(b"\0\0\1" + unit for unit in units)
    sized = b"".join(len(unit).to_bytes(4, "big") + unit for unit in units)
    extradata = bytes([1, 66, 0, 30, 0xFF, 0xE1, 0, 12]) + units[0] + bytes([1, 0, 4]) + units[1]
    return [
        bytes([number, size, len(extra)]) + extra + packet
        for number in range(len(_CODECS))
        for size, extra, packet in ((0, coded[:40], coded), (4, extradata, sized))
    ]


def _run_nal(data: bytes, folder: Path) -> None:
    number, size, length = (data[:3] + bytes(3))[:3]
    codec, extradata, packet = _CODECS[number % len(_CODECS)], data[3 : 3 + length], data[3:]
    view = memoryview(packet[length:])
    nal.length_size(codec, extradata)
    sequence_header(codec, extradata)
    for prefix in {0, size % 5}:
        packet_flags_reader(codec, prefix)(view, True)
        classify_keyframe(codec, view, prefix, is_intra_only=False)
        nal.preamble(codec, view, prefix)
        if codec in nal.SETS:
            nal.parameter_sets(codec, view, prefix)
    nal.setup(codec, view)
    nal.vp9_header(view)
    nal.picture_type(codec, view)


def _run_boxes(data: bytes, folder: Path) -> None:
    _max_descriptions(io.BytesIO(data))
    path = folder / "boxes.mp4"
    path.write_bytes(data)
    truncate_to_fragments(path)


def _run_video(data: bytes, folder: Path) -> None:
    path = folder / "video.mp4"
    path.write_bytes(data)
    _use(StreamIndex.scan(str(path)))


def _image_seeds() -> list[bytes]:
    image = Image.fromarray(np.arange(12 * 16 * 3, dtype=np.uint8).reshape(12, 16, 3))
    exif = Image.Exif()
    exif[0x0112] = 6
    seeds = []
    for kind, options in (("PNG", {}), ("JPEG", {}), ("WEBP", {"lossless": True})):
        for picture in (image, image.convert("P"), image.convert("L")):
            if kind == "JPEG" and picture.mode == "P":
                picture = image.convert("CMYK")
            file = io.BytesIO()
            picture.save(file, kind, exif=exif, **options)
            seeds.append(file.getvalue())
    grey = io.BytesIO()
    Image.fromarray(np.arange(192, dtype=np.uint16).reshape(12, 16)).save(grey, "PNG")
    return [*seeds, grey.getvalue()]


def _with_png_checksums(data: bytes) -> bytes:
    """Return a PNG with correct checksums of its chunks."""
    repaired, at = bytearray(data), 8
    while data.startswith(b"\x89PNG") and at + 12 <= len(data):
        stop = at + 8 + int.from_bytes(data[at : at + 4], "big")
        repaired[stop : stop + 4] = zlib.crc32(data[at + 4 : stop]).to_bytes(4, "big")
        at = stop + 4
    return bytes(repaired[: len(data)])


def _run_image(data: bytes, folder: Path) -> None:
    path = folder / "image"
    path.write_bytes(data)
    is_image(path)
    with suppress(HeadraceError):
        upright_size(path)
    frame = read_image(path)
    assert (frame.dtype, frame.shape[2]) == (np.uint8, 3)


def _run_journal(data: bytes, folder: Path) -> None:
    out, outside = folder / "out", folder / "outside"
    home = out / ".extraction"
    (home / "chunks").mkdir(parents=True, exist_ok=True)
    outside.write_text("")
    for name in ("request.json", "quarantine.json", "chunks/c.json", "chunks/c.begun.json"):
        (home / name).write_bytes(data)
    for name in ("a_000000_0.000s.jpg", "a_000012_0.400s.jpg", "a_000024_0.800s.jpg"):
        shutil.copy(RECORDED / "frames" / name, out)
    journal = Journal(out)
    journal.done(["c"])
    journal.partial_entries(["c"])
    DeadLetters(home / "quarantine.json", "1").read()
    journal.forget("c")
    assert outside.exists()
    journal.before()


def _spill_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name != "lock")


def _spill_seeds() -> list[bytes]:
    """Return the number of each file with its content."""
    with tempfile.TemporaryDirectory() as name:
        _new_spill(Path(name) / "spill")
        files = _spill_files(Path(name) / "spill")
        return [bytes([number]) + path.read_bytes() for number, path in enumerate(files)]


def _new_spill(folder: Path) -> None:
    with SpillStore.open(folder, budget=1 << 20) as store:
        for stream in ("one", "two"):
            store.write(stream, {frame: bytes([frame]) * 50 for frame in range(40)})


def _with_guards(data: bytes) -> bytes:
    """Return an index of a spill store with correct checksums of its records."""
    if data[:1] != b"\1" or len(data) % 40 != 1:
        return data
    records = np.frombuffer(bytearray(data[1:]), spill_folder.RECORD)
    records["guard"] = spill_folder._guards(records)
    return data[:1] + records.tobytes()


def _run_spill(data: bytes, folder: Path) -> None:
    spill = folder / "spill"
    shutil.rmtree(spill, ignore_errors=True)
    _new_spill(spill)
    files = _spill_files(spill)
    files[(data or b"\0")[0] % len(files)].write_bytes(data[1:])
    with SpillStore.open(spill, budget=1 << 20) as store:
        for stream in ("one", "two"):
            for frame in np.flatnonzero(store.stored(stream, 50)).tolist():
                read = store.read(stream, frame)
                assert read is None or read == bytes([frame]) * 50
        store.write("three", {0: b"new"})
        store.state()


def _result_seeds() -> list[bytes]:
    with closing(sqlite3.connect(RECORDED / "results.sqlite")) as sqlite:
        return [body for (body,) in sqlite.execute("SELECT body FROM bodies")]


def _with_digest(data: bytes) -> bytes:
    """Return a cached result with a correct checksum."""
    return data[:-16] + hashlib.blake2b(data[:-16], digest_size=16).digest()


def _run_result(data: bytes, folder: Path) -> None:
    arrays = decode(data).arrays
    assert sum(array.nbytes for array in arrays.values()) <= len(data)


def _run_cache(data: bytes, folder: Path) -> None:
    path = folder / "results.sqlite"
    for suffix in ("", "-wal", "-shm", ".damaged"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    path.write_bytes(data)
    with closing(open_store(str(path), must_exist=True)) as store:
        store.state()
        verify(store)


def _run_session(data: bytes, folder: Path) -> None:
    path = folder / "session.json"
    path.write_bytes(data)
    session = Session.load(path)
    render_text(session)
    assert "<script>alert" not in render_html(session)


TARGETS = {
    "index": Target(lambda: _member_seeds(_index_entry()), _run_index, head=1),
    "proxy_entry": Target(lambda: _member_seeds(_proxy_entry()), _run_proxy_entry, head=1),
    "proxy_list": Target(lambda: recorded("proxies/proxies.jsonl"), _run_proxy_list),
    "nal": Target(_nal_seeds, _run_nal),
    "boxes": Target(lambda: recorded("videos/a.mp4"), _run_boxes),
    "video": Target(lambda: recorded("videos/a.mp4", "clips/one/left.mp4"), _run_video),
    "image": Target(_image_seeds, _run_image, _with_png_checksums),
    "journal": Target(
        lambda: recorded("frames/.extraction/request.json", "frames/.extraction/chunks/*.json"),
        _run_journal,
    ),
    "spill": Target(_spill_seeds, _run_spill, _with_guards, head=1),
    "result": Target(_result_seeds, _run_result, _with_digest),
    "cache": Target(lambda: recorded("results.sqlite"), _run_cache),
    "session": Target(lambda: recorded("sessions/*/session.json"), _run_session),
    **TABLES,
}

"""A stand-in for NVIDIA's driver, so that FFmpeg's NVDEC code runs where there is no GPU.

It shows what FFmpeg and headrace do with the frames of a GPU: their order, times and colours,
seeking, and bringing them down. What a chip makes of a stream it does not show.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter

from headrace.decode.planes import rows_of
from headrace.video import nal
from headrace.video.container import open_container
from headrace.video.packets import mark, ordinal_of, packets_of, prepare
from headrace.video.source import Source

HEADERS = Path("/usr/include/ffnvcodec")
CAN_BE_BUILT = HEADERS.exists() and shutil.which("gcc") is not None

_CODE = Path(__file__).with_name("driver.c")
_START_CODE = b"\0\0\1"


def build(folder: Path) -> None:
    """Compile the stand-in into `folder`, under the names by which FFmpeg loads the driver."""
    written = set(re.findall(r"^int (cu\w+)\(", _CODE.read_text(), re.MULTILINE))
    names = sorted(_names_that_ffmpeg_looks_up() - written)
    # FFmpeg wants them all to be there: those that it does not call say "not supported".
    stubs = "".join(f"int {name}(void) {{ return 801; }}\n" for name in names)
    (folder / "unused.h").write_text(stubs)
    driver = folder / "libcuda.so.1"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-O1", f"-I{folder}", "-o", driver, _CODE], check=True
    )
    (folder / "libnvcuvid.so.1").symlink_to(driver)


def learn(source: Source, pictures: Path) -> None:
    """Write what the CPU decodes where the stand-in looks for it."""
    pictures.mkdir(exist_ok=True)
    container, stream = open_container(source)
    with container:
        context = stream.codec_context
        prepare(context)
        prefix = nal.length_size(context.name, context.extradata)
        names: list[list[str]] = []
        for packet in packets_of(container, stream):
            if packet is not None:
                mark(packet, len(names))
                names.append(_names(context.codec.canonical_name, bytes(packet), prefix))
            for frame in context.decode(packet):
                for name in names[ordinal_of(frame)]:
                    _write(frame, pictures / name)


def _names_that_ffmpeg_looks_up() -> set[str]:
    libraries = Path(av.__file__).parents[1] / "av.libs"
    found = set()
    for library in [*libraries.glob("libavutil*"), *libraries.glob("libavcodec*")]:
        found.update(re.findall(rb"\0(cu(?:vid)?[A-Z]\w+)(?=\0)", library.read_bytes()))
    return {name.decode() for name in found}


def _write(frame: VideoFrame, path: Path) -> None:
    is_deep = frame.format.components[0].bits > 8
    stored = VideoReformatter().reformat(frame, format="p010le" if is_deep else "nv12")
    width = stored.width * (1 + is_deep)
    even = -(-stored.width // 2) * 2 * (1 + is_deep)
    content = np.array([stored.width, stored.height], np.int32).tobytes()
    for plane, row_bytes in zip(stored.planes, (width, even), strict=True):
        content += rows_of(plane, row_bytes).tobytes()
    assert not path.exists() or path.read_bytes() == content, "two pictures of the same bytes"
    path.write_bytes(content)


def _names(codec: str, packet: bytes, prefix: int) -> list[str]:
    """Return the names of the pictures that a packet holds, as the stand-in makes them."""
    if codec in ("h264", "hevc"):
        units = _units(packet, prefix)
        slices = [_START_CODE + unit for unit in units if _is_slice(codec, unit[0])]
        parts = [b"".join(slices)]
    elif codec == "vp9":
        parts = list(_vp9_frames(packet))
    else:
        parts = [packet]
    return [f"{_fnv1a(part):016x}" for part in parts]


def _units(packet: bytes, prefix: int) -> Iterator[bytes]:
    if not prefix:
        yield from (unit.rstrip(b"\0") for unit in packet.split(_START_CODE)[1:])
        return
    begin = 0
    while begin < len(packet):
        size = int.from_bytes(packet[begin : begin + prefix], "big")
        yield packet[begin + prefix : begin + prefix + size]
        begin += prefix + size


def _is_slice(codec: str, first_byte: int) -> bool:
    return first_byte & 31 in (1, 5) if codec == "h264" else first_byte >> 1 & 63 < 32


def _vp9_frames(packet: bytes) -> Iterator[bytes]:
    """Yield the frames of a superframe: its last byte says how many there are, and their sizes."""
    last = packet[-1]
    count, width = (last & 7) + 1, (last >> 3 & 3) + 1
    index = packet[-(2 + count * width) :]
    if last >> 5 != 6 or index[0] != last:
        yield packet
        return
    begin = 0
    for k in range(count):
        size = int.from_bytes(index[1 + k * width : 1 + (k + 1) * width], "little")
        yield packet[begin : begin + size]
        begin += size


def _fnv1a(data: bytes) -> int:
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value

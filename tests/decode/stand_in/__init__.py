"""Stand-in for NVIDIA's driver, so that FFmpeg's NVDEC code runs without a GPU.

It tests how FFmpeg and headrace handle frames of a GPU: order, times, colors, sizes, seeks, and
copies to the CPU. It does not test the decoding of a chip.
"""

import ctypes
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import av
import numpy as np
from av.codec.context import Flags2
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter

from headrace import DecodeCounters, DecoderConfig, FrameFormat, StreamIndex
from headrace.decode.gpu.nvdec import Nvdec
from headrace.video.codec import mark, new_codec, packet_index_of, packets_of
from headrace.video.container import open_container
from headrace.video.content_digest import rows_of

CAN_BE_BUILT = Path("/usr/include/ffnvcodec").exists() and shutil.which("gcc") is not None

SHAPES = {
    "as it is": FrameFormat(),
    "small": FrameFormat(size=(32, 48)),
    "small yuv420": FrameFormat(size=(32, 48), layout="yuv420"),
}

_CODE = Path(__file__).with_name("driver.c")


def build(folder: Path) -> None:
    """Compile the stand-in into `folder`, under the names by which FFmpeg loads the driver."""
    written = set(re.findall(r"^int (cu\w+)\(", _CODE.read_text(), re.MULTILINE))
    names = sorted(_names_that_ffmpeg_looks_up() - written)
    # FFmpeg needs all of them; functions that it does not call return "not supported".
    stubs = "".join(f"int {name}(void) {{ return 801; }}\n" for name in names)
    (folder / "unused.h").write_text(stubs)
    driver = folder / "libcuda.so.1"
    options = ("-shared", "-fPIC", "-O1", f"-I{folder}", "-o", driver)
    subprocess.run(["gcc", *options, _CODE], check=True)
    (folder / "libnvcuvid.so.1").symlink_to(driver)


@contextmanager
def context(gpu: int) -> Iterator[None]:
    """Make a GPU's context current in this thread, in place of torch's."""
    _driver().cuCtxPushCurrent_v2(ctypes.c_void_p(1 + gpu))
    try:
        yield
    finally:
        _driver().cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))


def learn(index: StreamIndex, pictures: Path) -> None:
    """Write the CPU's frames for the stand-in."""
    pictures.mkdir(exist_ok=True)
    names = _names(index)
    container, stream = open_container(index.source)
    with container:
        codec = new_codec(stream)
        # Uncropped, as on a GPU; frames are cropped when they are copied.
        codec.flags2 |= Flags2.ignore_crop
        for number, packet in enumerate(packets_of(container, stream, "clip")):
            if packet is not None:
                mark(packet, number)
            for frame in codec.decode(packet):
                for name in names[packet_index_of(frame)]:
                    _write(frame, pictures / f"{name:016x}")


def _names(index: StreamIndex) -> list[list[int]]:
    """Return the names of the pictures that FFmpeg requests with each packet."""
    names = []
    asked = (ctypes.c_uint64 * 64)()
    container, stream = open_container(index.source)
    _driver().stand_in_record(1)
    with container:
        codecs = Nvdec(DecoderConfig.on_gpu(0), index, DecodeCounters())
        codec = codecs.acquire_codec(stream, None).context
        for packet in packets_of(container, stream, "clip"):
            codec.decode(packet)
            names.append(list(asked[: _driver().stand_in_asked(asked)]))
    _driver().stand_in_record(0)
    return names


def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def _names_that_ffmpeg_looks_up() -> set[str]:
    libraries = Path(av.__file__).parents[1] / "av.libs"
    found = set()
    for library in [*libraries.glob("libavutil*"), *libraries.glob("libavcodec*")]:
        found.update(re.findall(rb"\0(cu(?:vid)?[A-Z]\w+)(?=\0)", library.read_bytes()))
    return {name.decode() for name in found}


def _write(frame: VideoFrame, path: Path) -> None:
    sample_bytes = (frame.format.components[0].bits + 7) // 8
    stored = VideoReformatter().reformat(frame, format="nv12" if sample_bytes == 1 else "p010le")
    widths = stored.width, -(-stored.width // 2) * 2
    content = np.array([stored.width, stored.height], np.int32).tobytes()
    for plane, width in zip(stored.planes, widths, strict=True):
        content += rows_of(plane, width * sample_bytes).tobytes()
    assert not path.exists() or path.read_bytes() == content, "two pictures with equal bytes"
    path.write_bytes(content)

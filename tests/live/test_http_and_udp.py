"""Streams over HTTP and UDP, from real servers."""

import re
import shutil
import socket
import subprocess
import threading
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from itertools import pairwise

import pytest
from PIL import Image

from headrace.errors import OpenError
from headrace.live.address import PatternAddress, parse_addresses
from headrace.live.connect_errors import ConnectError
from headrace.live.open_options import BackOff, SourceOptions
from headrace.live.realtime_source import PatternSource
from headrace.live.stream_reader import ReceivedFrame, receive
from headrace.runtime.stage import DroppedItem
from headrace.runtime.waitable_source import Waiter
from headrace.testing.damage import concatenate, damage_packets
from headrace.testing.fake_clock import FakeClock
from headrace.testing.synth import SynthClip, read_number, write_clip
from live.reading import QUICK, Read
from missing import missing
from runtime.in_time import happens, in_time

SHORT = replace(QUICK, open_timeout_seconds=0.5)
"""For tests that leave a thread to its timeout."""
PATIENT = replace(QUICK, open_timeout_seconds=2, wait_for_source=True)
"""For tests in which another program must start first."""


@contextmanager
def http_server(answer):
    """Run a server that handles each request by `answer(request)`; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            answer(self)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False  # closing the server waits for them
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def stream(written):
    """Return two seconds of an MPEG transport stream."""
    return written(SynthClip(num_frames=60, container="ts", gop=10))


def answering(code, content=b"", **headers):
    """Return an answer with a status, headers and content."""

    def answer(request):
        request.send_response(code)
        for name, value in {"content-length": str(len(content)), **headers}.items():
            request.send_header(name.replace("_", "-"), value)
        request.end_headers()
        request.wfile.write(content)

    return answer


def read_all(content, options=QUICK, path=""):
    """Return the reader of a complete stream, at its end."""
    with http_server(answering(200, content)) as url:
        read = Read(f"{url}{path}", options)
        in_time(lambda: list(read))
    read.check_conserved()
    return read


def answer_without_end(content, hang_up):
    """Return an answer without a length: silent after its content, until `hang_up`."""

    def answer(request):
        request.send_response(200)
        request.end_headers()
        request.wfile.write(content)
        if hang_up is not None:
            happens(hang_up)

    return answer


def test_a_recording_is_played_in_real_time_to_its_end(tmp_path):
    path = write_clip(tmp_path / "clip", SynthClip(num_frames=15, container="mkv"))
    read = read_all(path.read_bytes(), path="/clip.mkv?token=abc")
    assert [read_number(frame.pixels) for frame in read.frames] == list(range(15))
    arrived = [frame.arrived_ns for frame in read.frames]
    assert arrived[-1] - arrived[0] >= 14 / 30 * 1e9 - 1e6
    assert read.kinds == ["joined", "ended"]
    assert read.source.name.endswith("/clip.mkv?token=***")


@pytest.mark.slow
def test_a_stream_that_stalls_and_disconnects_is_reconnected(stream):
    hang_up = threading.Event()
    with http_server(answer_without_end(stream.read_bytes(), hang_up)) as url:
        read = Read(url)
        read.on = {"stalled": hang_up.set}
        frames = iter(read)
        in_time(lambda: next(item for item in frames if "reconnected" in read.kinds))
        frames.close()
    # At the end the parser may return its last frame, which resumes the stream briefly.
    kinds = [kind for kind in read.kinds if kind != "resumed"]
    assert kinds[:4] == ["joined", "stalled", "disconnected", "reconnected"]
    assert read.words_of("stalled")[0] == "no frame for 0.3 s"
    assert re.fullmatch(
        r"joined \d+ ms behind; \d+ frames of the backlog dropped", read.words_of("joined")[0]
    )
    before = read.items[: read.frames[0].number]
    assert len(before) > 40
    assert {item.cause for item in before} == {"backlog"}
    read.check_conserved()


HLS = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{}\n#EXT-X-ENDLIST\n"
DASH = '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011"/>'


@pytest.mark.parametrize("text", [HLS.format("clip.ts"), HLS.format("file:///etc/passwd"), DASH])
def test_a_playlist_is_refused_and_its_addresses_are_not_requested(text):
    requested = []

    def answer(request):
        requested.append(request.path)
        answering(200, text.encode())(request)

    kind = "a DASH manifest" if text == DASH else "an HLS playlist"
    message = f"/x: it sends {kind}, which is not supported: .* the address of the stream itself"
    with http_server(answer) as url, pytest.raises(OpenError, match=message):
        in_time(lambda: Read(f"{url}/x", replace(QUICK, wait_for_source=True)).take(1))
    assert set(requested) == {"/x"}


NO_VIDEO = "an unknown format instead of a video stream|cannot be read"
ANSWERS = [
    *((answering(200, content), NO_VIDEO) for content in (b"<html>not here</html>", b"")),
    *((answering(401), "refused the user name"), (answering(403), "403"), (answering(404), "404")),
    (answering(302, location=f"file://{__file__}"), "cannot open"),
]


@pytest.mark.parametrize(("answer", "message"), ANSWERS)
def test_failed_responses_are_explained_and_no_local_file_is_read(answer, message):
    with http_server(answer) as url, pytest.raises(OpenError, match=message) as raised:
        in_time(lambda: Read(url).take(1))
    assert __file__ not in str(raised.value)


def test_an_unknown_host_is_an_error():
    with pytest.raises(OpenError, match=r"the host was not found.* check the name of the host"):
        in_time(lambda: Read("http://no-such-host.invalid/x").take(1))


def test_a_server_that_never_answers_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        for scheme in ("rtsp", "http"):
            with pytest.raises(OpenError, match="no answer"):
                in_time(lambda s=scheme: Read(f"{s}://127.0.0.1:{port}/x", SHORT).take(1))


@pytest.fixture
def udp_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_a_transport_stream_over_udp(stream, udp_port):
    if shutil.which("ffmpeg") is None:
        missing("ffmpeg, the sender, is not installed")
    target = f"udp://127.0.0.1:{udp_port}?pkt_size=1316"
    command = ["ffmpeg", "-v", "error", "-re", "-stream_loop", "-1", "-i", str(stream)]
    with subprocess.Popen([*command, "-c", "copy", "-f", "mpegts", target]) as sender:
        try:
            read = Read(f"udp://127.0.0.1:{udp_port}", PATIENT)
            frames = in_time(lambda: read.take(10))
        finally:
            sender.kill()
    numbers = [read_number(frame.pixels) for frame in frames]
    # A busy machine may lose datagrams: numbers are in order, without repetition.
    assert all(0 < (b - a) % 60 < 30 for a, b in pairwise(numbers))
    assert "joined" in read.kinds
    read.check_conserved()


def test_udp_without_a_sender_is_an_error(udp_port):
    with pytest.raises(OpenError, match="no answer"):
        in_time(lambda: Read(f"udp://127.0.0.1:{udp_port}", SHORT).take(1))


def test_damaged_frames_are_dropped_in_order(tmp_path):
    intact = write_clip(tmp_path / "clip", SynthClip(num_frames=12, gop=1, container="mkv"))
    damaged = damage_packets(intact, tmp_path / "damaged.mkv", ordinals=[4, 5])
    read = read_all(damaged.read_bytes())
    assert [frame.number for frame in read.frames] == [*range(4), *range(6, 12)]
    assert [item.cause for item in read.items[4:6]] == ["damaged", "damaged"]
    assert read.words_of("dropped") == ["2 damaged frames skipped"]


def test_a_stream_without_timestamps_gets_extrapolated_ones(tmp_path):
    path = write_clip(tmp_path / "clip", SynthClip(num_frames=12, container="h264"))
    read = read_all(path.read_bytes())
    assert [read_number(frame.pixels) for frame in read.frames] == list(range(12))
    assert read.kinds == ["joined", "timestamps", "ended"]
    assert read.words_of("timestamps")[0].startswith("frames without timestamps")
    assert len({frame.pts for frame in read.frames}) == 12


def test_a_change_of_size_is_an_event_and_ends_a_run(tmp_path):
    first = write_clip(tmp_path / "a", SynthClip(num_frames=6, gop=6, container="ts"))
    second = write_clip(tmp_path / "b", SynthClip(num_frames=6, container="ts", size=(64, 64)))
    joined = concatenate([first, second], tmp_path / "joined.ts")
    read = read_all(joined.read_bytes())
    sizes = {frame.run: frame.pixels.shape for frame in read.frames}
    assert set(sizes.values()) == {(96, 128, 3), (64, 64, 3)}
    assert "frames changed from 96x128 to 64x64" in read.words_of("resized")
    assert "timestamps went back" in read.words_of("timestamps")[0]


@pytest.mark.slow
def test_another_codec_after_a_reconnection_is_an_event(tmp_path, stream):
    other = SynthClip(codec="mpeg2video", num_frames=30, container="ts")
    contents = [stream.read_bytes(), write_clip(tmp_path / "b", other).read_bytes()]

    def answer(request):
        content = contents.pop(0) if len(contents) > 1 else contents[0]
        answer_without_end(content, None)(request)

    with http_server(answer) as url:
        read = Read(url)
        frames = iter(read)
        in_time(lambda: next(item for item in frames if "resized" in read.kinds))
        frames.close()
    assert read.words_of("resized") == ["the codec changed from h264 to mpeg2video"]
    assert read.kinds[:3] == ["joined", "disconnected", "resized"]
    read.check_conserved()


def test_a_stream_of_jpegs_is_timed_by_arrival():
    """It has no timestamps: FFmpeg would make up 25 frames per second."""
    pattern = PatternSource(PatternAddress(size=(96, 128)))

    def answer(request):
        request.send_response(200)
        request.send_header("Content-Type", "multipart/x-mixed-replace; boundary=next")
        request.end_headers()
        for number in range(8):
            image = BytesIO()
            Image.fromarray(pattern.draw(number)).save(image, "JPEG")
            head = f"--next\r\nContent-Type: image/jpeg\r\nContent-Length: {image.tell()}\r\n\r\n"
            request.wfile.write(head.encode() + image.getvalue() + b"\r\n")

    with http_server(answer) as url:
        read = Read(url, replace(SHORT, reconnect=BackOff(attempts=0)))
        with pytest.raises(OpenError, match="cannot continue"):
            in_time(lambda: list(read))
    assert [read_number(frame.pixels) for frame in read.frames] == list(range(8))
    first = read.frames[0]
    for frame in read.frames:
        elapsed_ns = frame.arrived_ns - first.arrived_ns
        assert abs(float(frame.pts * frame.time_base) * 1e9 - elapsed_ns) < 1e6
    read.check_conserved()


def test_a_slow_decoder_skips_to_keyframes_and_counts_the_skipped_frames(stream):
    """The clock moves by 0.2 s for each decoded frame, and not for a skipped one."""
    clock, items = FakeClock(), []
    with http_server(answer_without_end(stream.read_bytes(), None)) as url:
        (address,) = parse_addresses([url])

        def read():
            for item in receive(address, SourceOptions(), Waiter(clock)):
                if isinstance(item, ReceivedFrame | DroppedItem):
                    items.append(item)
                if isinstance(item, ReceivedFrame):
                    clock.advance(0.2)

        with suppress(ConnectError):  # the server disconnects
            in_time(read)
    assert len(items) == 60
    dropped = [item for item in items if isinstance(item, DroppedItem)]
    assert {item.cause for item in dropped} == {"late"}
    numbers = [
        read_number(item.frame.to_ndarray(format="rgb24"))
        for item in items
        if isinstance(item, ReceivedFrame)
    ]
    jumps = [after for before, after in pairwise(numbers) if after > before + 1]
    assert jumps
    assert all(number % 10 == 0 for number in jumps)

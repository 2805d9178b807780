"""Streams over HTTP and UDP, from real servers on this machine."""

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
from headrace.live.open_options import BackOff, SourceOptions, open_options_of
from headrace.live.pattern import PatternSource
from headrace.live.stream_reader import ReceivedFrame, receive
from headrace.runtime.item import DroppedItem
from headrace.runtime.waitable_source import Waiter
from headrace.testing.damage import concatenate, damage_packets
from headrace.testing.fake_clock import FakeClock
from headrace.testing.synth import SynthClip, read_number, write_clip
from live.reading import QUICK, Read
from missing import missing
from runtime.in_time import happens, in_time

SHORT = replace(QUICK, open_timeout_seconds=0.5)
"""Where a thread is left to end by itself, so that a test does not wait for it."""
PATIENT = replace(QUICK, open_timeout_seconds=2, wait_for_source=True)
"""Where another program must start first."""


@contextmanager
def http_server(answer):
    """A server whose every request is answered by `answer(request)`; yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            answer(self)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False  # so that closing it waits for them
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
    """Two seconds as an MPEG transport stream."""
    return written(SynthClip(num_frames=60, container="ts", gop=10))


def answering(code, content=b"", **headers):
    """Return an answer of one status, with these headers and its length."""

    def answer(request):
        request.send_response(code)
        for name, value in {"content-length": str(len(content)), **headers}.items():
            request.send_header(name.replace("_", "-"), value)
        request.end_headers()
        request.wfile.write(content)

    return answer


def played(content, options=QUICK, path=""):
    """What is read of a stream that is sent whole, to its end."""
    with http_server(answering(200, content)) as url:
        read = Read(f"{url}{path}", options)
        in_time(lambda: list(read))
    read.check_conserved()
    return read


def answer_without_end(content, goes_on):
    """Sends it as a camera does, without a length; then is silent until told to hang up."""

    def answer(request):
        request.send_response(200)
        request.end_headers()
        request.wfile.write(content)
        if goes_on is not None:
            happens(goes_on)

    return answer


def test_a_recording_is_played_in_real_time_to_its_end(tmp_path):
    path = write_clip(tmp_path / "clip", SynthClip(num_frames=15, container="mkv"))
    read = played(path.read_bytes(), path="/clip.mkv?token=abc")
    assert [read_number(frame.pixels) for frame in read.frames] == list(range(15))
    arrived = [frame.arrived_ns for frame in read.frames]
    assert arrived[-1] - arrived[0] >= 14 / 30 * 1e9 - 1e6
    assert read.kinds == ["joined", "ended"]
    assert read.source.name.endswith("/clip.mkv?token=***")


@pytest.mark.slow
def test_a_stream_that_stalls_and_hangs_up_is_joined_again(stream):
    goes_on = threading.Event()
    with http_server(answer_without_end(stream.read_bytes(), goes_on)) as url:
        read = Read(url)
        read.on = {"stalled": goes_on.set}
        frames = iter(read)
        in_time(lambda: next(item for item in frames if "reconnected" in read.kinds))
        frames.close()
    # At its end the parser may give the frame it held, so that it resumes for a moment.
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
def test_a_playlist_is_not_read_and_nothing_it_names_is_asked_for(text):
    asked = []

    def answer(request):
        asked.append(request.path)
        answering(200, text.encode())(request)

    kind = "a DASH manifest" if text == DASH else "an HLS playlist"
    said = f"/x: it sends {kind}, which is not supported: .* the address of the stream itself"
    with http_server(answer) as url, pytest.raises(OpenError, match=said):
        in_time(lambda: Read(f"{url}/x", replace(QUICK, wait_for_source=True)).take(1))
    assert set(asked) == {"/x"}


NO_VIDEO = "an unknown format instead of a video stream|cannot be read"
ANSWERS = [
    *((answering(200, content), NO_VIDEO) for content in (b"<html>not here</html>", b"")),
    *((answering(401), "refused the user name"), (answering(403), "403"), (answering(404), "404")),
    (answering(302, location=f"file://{__file__}"), "cannot open"),
]


@pytest.mark.parametrize(("answer", "words"), ANSWERS)
def test_what_is_no_video_or_is_refused_is_named_and_no_local_file_is_read(answer, words):
    with http_server(answer) as url, pytest.raises(OpenError, match=words) as raised:
        in_time(lambda: Read(url).take(1))
    assert __file__ not in str(raised.value)


def test_a_host_that_is_not_there_is_named():
    with pytest.raises(OpenError, match=r"the host was not found.* check the name of the host"):
        in_time(lambda: Read("http://no-such-host.invalid/x").take(1))


def test_a_server_that_accepts_and_says_nothing_is_given_up():
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
        missing("no ffmpeg found, which sends")
    target = f"udp://127.0.0.1:{udp_port}?pkt_size=1316"
    send = ["ffmpeg", "-v", "error", "-re", "-stream_loop", "-1", "-i", str(stream)]
    with subprocess.Popen([*send, "-c", "copy", "-f", "mpegts", target]) as sender:
        try:
            read = Read(f"udp://127.0.0.1:{udp_port}", PATIENT)
            frames = in_time(lambda: read.take(10))
        finally:
            sender.kill()
    numbers = [read_number(frame.pixels) for frame in frames]
    # The system may lose datagrams of a busy machine: in order, and not the same twice.
    assert all(0 < (b - a) % 60 < 30 for a, b in pairwise(numbers))
    assert "joined" in read.kinds
    read.check_conserved()


def test_udp_where_nobody_sends_is_named(udp_port):
    with pytest.raises(OpenError, match="no answer"):
        in_time(lambda: Read(f"udp://127.0.0.1:{udp_port}", SHORT).take(1))


def test_damaged_frames_are_dropped_in_their_places(tmp_path):
    whole = write_clip(tmp_path / "clip", SynthClip(num_frames=12, gop=1, container="mkv"))
    damaged = damage_packets(whole, tmp_path / "damaged.mkv", ordinals=[4, 5])
    read = played(damaged.read_bytes())
    assert [frame.number for frame in read.frames] == [*range(4), *range(6, 12)]
    assert [item.cause for item in read.items[4:6]] == ["damaged", "damaged"]
    assert read.words_of("dropped") == ["2 damaged frames skipped"]


def test_a_stream_without_timestamps_is_counted_on(tmp_path):
    path = write_clip(tmp_path / "clip", SynthClip(num_frames=12, container="h264"))
    read = played(path.read_bytes())
    assert [read_number(frame.pixels) for frame in read.frames] == list(range(12))
    assert read.kinds == ["joined", "timestamps", "ended"]
    assert read.words_of("timestamps")[0].startswith("frames without timestamps")
    assert len({frame.pts for frame in read.frames}) == 12


def test_another_size_on_the_way_is_told_and_ends_a_run(tmp_path):
    first = write_clip(tmp_path / "a", SynthClip(num_frames=6, gop=6, container="ts"))
    second = write_clip(tmp_path / "b", SynthClip(num_frames=6, container="ts", size=(64, 64)))
    joined = concatenate([first, second], tmp_path / "joined.ts")
    read = played(joined.read_bytes())
    sizes = {frame.run: frame.pixels.shape for frame in read.frames}
    assert set(sizes.values()) == {(96, 128, 3), (64, 64, 3)}
    assert "frames changed from 96x128 to 64x64" in read.words_of("resized")
    assert "timestamps went back" in read.words_of("timestamps")[0]


@pytest.mark.slow
def test_another_codec_after_a_reconnection_is_told(tmp_path, stream):
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


def test_a_web_camera_that_sends_pictures_is_timed_by_their_arrival():
    """JPEG after JPEG, without timestamps: FFmpeg would call any pace 25 frames a second."""
    pattern = PatternSource(PatternAddress(size=(96, 128)))

    def answer(request):
        request.send_response(200)
        request.send_header("Content-Type", "multipart/x-mixed-replace; boundary=next")
        request.end_headers()
        for number in range(8):
            picture = BytesIO()
            Image.fromarray(pattern.draw(number)).save(picture, "JPEG")
            head = f"--next\r\nContent-Type: image/jpeg\r\nContent-Length: {picture.tell()}\r\n\r\n"
            request.wfile.write(head.encode() + picture.getvalue() + b"\r\n")

    with http_server(answer) as url:
        read = Read(url, replace(SHORT, reconnect=BackOff(attempts=0)))
        with pytest.raises(OpenError, match="cannot continue"):
            in_time(lambda: list(read))
    assert [read_number(frame.pixels) for frame in read.frames] == list(range(8))
    first = read.frames[0]
    for frame in read.frames:
        passed_ns = frame.arrived_ns - first.arrived_ns
        assert abs(float(frame.pts * frame.time_base) * 1e9 - passed_ns) < 1e6
    read.check_conserved()


def test_a_slow_decoder_skips_to_keyframes_and_counts_what_it_skips(stream):
    """The clock moves by 0.2 s for each frame that is decoded, and not for one that is skipped."""
    clock, items = FakeClock(), []
    with http_server(answer_without_end(stream.read_bytes(), None)) as url:
        opening = open_options_of(parse_addresses([url])[0], SourceOptions())

        def read():
            for item in receive(opening, SourceOptions(), Waiter(clock)):
                if isinstance(item, ReceivedFrame | DroppedItem):
                    items.append(item)
                if isinstance(item, ReceivedFrame):
                    clock.advance(0.2)

        with suppress(ConnectError):  # the server hangs up
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

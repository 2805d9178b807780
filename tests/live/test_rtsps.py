"""RTSP by TLS from a real server: whose certificate is verified, and how a wrong one is named."""

from dataclasses import replace
from pathlib import Path

import pytest

from certificates import made
from headrace.errors import ConfigError, OpenError
from headrace.live.address import addresses_of
from live.reading import QUICK, Read
from live.rtsp import RtspServer, needs_server
from runtime.in_time import in_time


@pytest.fixture(scope="module")
def camera(tmp_path_factory):
    return made(tmp_path_factory.mktemp("tls"), "camera", "IP:127.0.0.1")


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    return made(tmp_path_factory.mktemp("tls"), "other", "DNS:other.example")


@pytest.fixture
def serve(clip):
    """Serves the clip with a key and certificate; returns the address."""
    needs_server()
    servers = []

    def start(pem, *login):
        servers.append(RtspServer(*login, pem=pem))
        servers[-1].start(clip)
        return servers[-1]

    yield start
    for server in servers:
        server.kill()


def refused(url):
    """What is said, also to who waits for the source: trying again cannot help."""
    with pytest.raises(OpenError) as raised:
        in_time(lambda: Read(url, replace(QUICK, wait_for_source=True)).take(1))
    return str(raised.value)


def test_without_a_word_any_certificate_is_taken(serve, camera):
    server = serve(camera[0], "user", "p@ss")
    assert len(in_time(lambda: Read(server.url("user:p%40ss@")).take(2))) == 2
    assert "it refused the user name or password" in refused(server.url("user:wrong@"))


def test_a_certificate_that_was_given_is_taken_and_no_other(serve, camera, other):
    url = serve(camera[0]).url()
    assert len(in_time(lambda: Read(f"{url}#ca={camera[1]}").take(2))) == 2
    for end in (f"#ca={other[1]}", "#verify"):
        words = refused(url + end)
        assert words.startswith(f"cannot open {url}: its certificate is not to be trusted (self")
        assert words.endswith("without #verify or #ca= none is verified")


def test_a_certificate_of_another_host_is_refused(serve, other):
    url = serve(other[0]).url()
    assert "(IP address mismatch" in refused(f"{url}#ca={other[1]}")


def test_a_server_that_speaks_no_tls_has_no_wrong_certificate(rtsp):
    url = rtsp.url().replace("rtsp://", "rtsps://")
    with pytest.raises(OpenError) as raised:
        in_time(lambda: Read(f"{url}#verify").take(1))
    assert "certificate" not in str(raised.value)


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("#t=10", "behind # stands verify or ca=FILE"),
        ("#ca=no.pem", "no such file or directory; give a file of certificates"),
        ("#ca=empty.pem", "it holds no certificate"),
    ],
)
def test_what_cannot_verify_is_refused_at_once(tmp_path, monkeypatch, end, words):
    monkeypatch.chdir(tmp_path)
    Path("empty.pem").write_text("")
    with pytest.raises(ConfigError, match=words):
        addresses_of([f"rtsps://user:secret@h/x{end}"])


def test_what_stands_behind_it_is_sent_to_nobody(camera):
    (address,) = addresses_of([f"rtsps://h/x?a=1#ca={camera[1]}"])
    assert address.url == "rtsps://h/x?a=1"
    assert address.trust.ca_file == camera[1]

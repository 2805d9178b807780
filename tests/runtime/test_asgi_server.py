"""A web application in its own thread."""

import asyncio
import socket
import threading
from contextlib import ExitStack

import pytest

from headrace.errors import ConfigError, StageError
from headrace.runtime.asgi_server import MAX_CONNECTIONS, UNREAD_SECONDS, Server, listen

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


async def hello(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


def received(connection):
    """Return all data until the other side closes the connection."""
    try:
        return b"".join(iter(lambda: connection.recv(1024), b""))
    except ConnectionResetError:
        return b""


def reply_of(app, sent=REQUEST, while_it_runs=received, **options):
    """Return a server's response to a request that was sent before it ran."""
    listener = listen("127.0.0.1", 0)
    with socket.create_connection(listener.getsockname()) as asking:
        asking.sendall(sent)
        with Server(app, listener, **options):
            return while_it_runs(asking)


def test_early_requests_get_a_response_and_the_block_ends_all():
    running = set()

    def look(asking):
        reply = received(asking)
        running.update(thread.name for thread in threading.enumerate())
        return reply

    reply = reply_of(hello, while_it_runs=look)
    assert reply.startswith(b"HTTP/1.1 200 OK")
    assert b"hello" in reply
    assert "headrace-server" in running


def test_an_endless_request_is_closed():
    entered = threading.Event()

    async def stuck(scope, receive, send):
        entered.set()
        await receive()
        await receive()

    assert reply_of(stuck, while_it_runs=lambda _: entered.wait(30))


def test_connections_above_the_limit_are_closed():
    listener = listen("127.0.0.1", 0)
    with ExitStack() as stack, Server(hello, listener):
        count = MAX_CONNECTIONS + 20
        opened = [socket.create_connection(listener.getsockname()) for _ in range(count)]
        connected = [*map(stack.enter_context, opened)]
        cut = sum(received(each) == b"" for each in connected[MAX_CONNECTIONS:])
        for each in connected[100:MAX_CONNECTIONS]:
            each.close()
        connected[0].sendall(REQUEST)
        reply = received(connected[0])
    assert cut == 20
    assert b"HTTP/1.1" in reply


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: loc"])
def test_an_idle_connection_is_closed(sent):
    assert reply_of(hello, sent, idle_seconds=0.01) == b""


def test_a_client_waiting_for_a_response_is_not_closed():
    """The request is sent before the server starts, so the first check for idle ones sees it."""
    others_are_cut = threading.Event()

    async def slow(scope, receive, send):
        await asyncio.get_running_loop().run_in_executor(None, others_are_cut.wait)
        await hello(scope, receive, send)

    def others(asking):
        for _ in range(5):
            with socket.create_connection(asking.getpeername()) as silent:
                received(silent)
        others_are_cut.set()
        return received(asking)

    assert b"hello" in reply_of(slow, while_it_runs=others, idle_seconds=0.01)


def test_a_failed_server_raises_at_the_end():
    listener = listen("127.0.0.1", 0)
    listener.close()
    with pytest.raises(StageError, match="the server failed"), Server(hello, listener):
        pass


@pytest.mark.parametrize(("address", "port"), [("192.0.2.1", 0), ("::1%nothing", 0)])
def test_an_address_of_another_machine_cannot_be_served(address, port):
    with pytest.raises(ConfigError, match=f"cannot serve on {address} port {port}: "):
        listen(address, port)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="the system has no such limit")
def test_an_unread_response_is_given_up():
    """By default, the system keeps it as long as the client is connected."""
    with (
        listen("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        limit = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
    assert limit == UNREAD_SECONDS * 1000

"""Who may ask for what."""

import pytest

from headrace.sinks.web.guard import Asking, Guard

TOKEN = "a-token-of-a-test-0123"
LOCAL = Guard(is_local=True, hosts=frozenset({"cam.example"}), token=None)
OPEN = Guard(is_local=False, hosts=frozenset({"box"}), token=TOKEN)


def refused(guard: Guard, **asking) -> int | None:
    """The status a request is refused with; None where it is let through."""
    found = guard.refusal(Asking(**{"method": "GET", "headers": {"host": "localhost"}, **asking}))
    return None if found is None else found.status


@pytest.mark.parametrize(
    ("host", "local", "other"),
    [
        ("localhost", None, None),
        ("localhost:9000", None, None),  # through a tunnel, its port is another one
        ("LOCALHOST:8686", None, None),
        ("127.0.0.1:8686", None, None),
        ("[::1]:8686", None, None),
        ("cam.example", None, 403),
        ("box:8686", 403, None),
        ("10.0.0.7:8686", 403, None),
        ("evil.example:8686", 403, 403),
        ("localhost.evil.example", 403, 403),
        ("127.0.0.1.evil.example", 403, 403),
        ("evil.example#localhost", 403, 403),
        ("evil.example/localhost", 403, 403),
        ("localhost@evil.example", 403, 403),
        ("[::1", 403, 403),
        ("", 403, 403),
    ],
)
def test_only_names_that_are_ours_are_served(host, local, other):
    headers = {"host": host}
    assert refused(LOCAL, headers=headers) == local
    assert refused(OPEN, headers=headers, query_token=TOKEN) == other


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://localhost:8686"}, None),
        ({"origin": "https://localhost:8686"}, None),
        ({"origin": "http://localhost:8687"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": ""}, 403),
        ({"sec-fetch-site": "same-origin"}, None),
        ({"sec-fetch-site": "none"}, None),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"}, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, None),
    ],
)
def test_pages_of_other_sites_get_nothing(headers, status):
    assert refused(LOCAL, headers={"host": "localhost:8686", **headers}) == status


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "TRACE", "get"])
def test_nothing_but_reading_is_allowed(method):
    assert refused(LOCAL, method=method) == 405
    assert refused(LOCAL, method="HEAD") is None


@pytest.mark.parametrize(
    ("asking", "status"),
    [
        ({}, 401),
        ({"query_token": TOKEN}, None),
        ({"cookie_token": TOKEN}, None),
        ({"cookie_token": "of an earlier run", "query_token": TOKEN}, None),
        ({"query_token": ""}, 401),
        ({"query_token": TOKEN + "x"}, 401),
        ({"query_token": "ü"}, 401),
        ({"headers": {"host": "box", "authorization": f"Bearer {TOKEN}"}}, None),
        ({"headers": {"host": "box", "authorization": f"bearer  {TOKEN}"}}, None),
        ({"headers": {"host": "box", "authorization": f"Basic {TOKEN}"}}, 401),
        ({"headers": {"host": "box", "authorization": "Bearer"}}, 401),
    ],
)
def test_others_than_this_machine_show_the_token(asking, status):
    assert refused(OPEN, **asking) == status

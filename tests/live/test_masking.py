"""No secret of an address is shown; what is none stays readable."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.live.masking import masked


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rtsp://camera:554/live", "rtsp://camera:554/live"),
        ("rtsp://user:pass@camera/live", "rtsp://***@camera/live"),
        ("rtsp://user@camera/live", "rtsp://***@camera/live"),
        ("rtsp://a:b@c@camera/live", "rtsp://***@camera/live"),
        ("rtsp://user:pa/ss@camera/live", "rtsp://***@camera/live"),
        ("rtsp://user:pa?ss@camera/live", "rtsp://***@camera/live"),
        ("rtsp://h/p?channel=1&subtype=0", "rtsp://h/p?channel=1&subtype=0"),
        ("http://h/p?user=me&pwd=x&ch=2", "http://h/p?user=***&pwd=***&ch=2"),
        ("http://h/p?id=0123456789abcdef0", "http://h/p?id=***"),
        ("http://h/p?0123456789abcdef0", "http://h/p?***"),
        ("udp://@:1234", "udp://***@:1234"),
        ("run 'rtsp://u:p@h/x' now a@b", "run 'rtsp://***@h/x' now a@b"),
        ("clips/a@b.mp4?", "clips/a@b.mp4?"),
    ],
)
def test_masks(text, shown):
    assert masked(text) == shown


@given(st.text("abcXYZ019!$&()*+,;=.:~%@/?#[]_-", min_size=3))
def test_no_password_comes_through_whatever_is_in_it(password):
    assert f"q{password}q" not in masked(f"rtsp://user:q{password}q@camera/live")

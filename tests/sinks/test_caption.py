"""What is written on a frame."""

from headrace.sinks.caption import Caption, captions
from sinks.web.faked_run import seen


def test_it_names_the_likeliest_class_and_the_frame():
    assert captions(seen(120)) == [Caption("street sign", "93%   #120")]

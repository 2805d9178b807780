"""A function of the user's own as a sink."""

import pytest

from headrace.errors import ConfigError, StageError
from headrace.runtime.fan_out import FanOut, Outlet
from headrace.sinks.callback import Callback
from runtime.in_time import in_time
from sinks.web.faked_run import seen


def test_it_gets_every_result_in_order():
    got = []
    callback = Callback(got.append)
    results = [seen(k) for k in range(3)]
    for each in results:
        callback.write(each)
    callback.close()
    assert got == results
    assert callback.outputs == ()


def test_what_it_raises_ends_it_alone():
    def fail(_):
        raise RuntimeError("my own mistake")

    got = []

    def run_it():
        sinks = [
            Outlet(name="callback", function=Callback(fail).write),
            Outlet(name="other", function=Callback(got.append).write),
        ]
        with FanOut(sinks) as fan:
            for k in range(5):
                fan.put(seen(k))

    with pytest.raises(StageError, match="my own mistake"):
        in_time(run_it)
    assert len(got) == 5


async def later(result):
    """An async function."""


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (later, "a callback is a plain function of one result, got an async function"),
        ("print", "a callback is a plain function of one result, got str"),
    ],
)
def test_only_a_plain_function_can_be_called(function, words):
    with pytest.raises(ConfigError) as caught:
        Callback(function)
    assert str(caught.value) == words

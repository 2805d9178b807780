"""The newest value, for as many coroutines as want it."""

import asyncio
import threading

from headrace.runtime.newest import Newest
from runtime.in_time import in_time

LONG = 30.0


def test_the_newest_replaces_what_nobody_came_for():
    newest: Newest[str] = Newest()
    assert newest.get() is None
    newest.put("a")
    newest.put("b")
    assert newest.get() == (2, "b")


def test_who_waits_is_told_from_another_thread():
    newest: Newest[str] = Newest()

    async def wait():
        waiting = [asyncio.create_task(newest.wait(0, LONG)) for _ in range(3)]
        await asyncio.sleep(0)
        assert newest.waiting == 3
        thread = threading.Thread(target=newest.put, args=("a",))
        thread.start()
        found = await asyncio.gather(*waiting)
        thread.join()
        return found, newest.waiting

    assert in_time(lambda: asyncio.run(wait())) == ([True] * 3, 0)


def test_who_has_the_newest_waits_no_longer_than_it_wants():
    newest: Newest[str] = Newest()
    newest.put("a")

    async def wait():
        return await newest.wait(0, LONG), await newest.wait(1, 0.001), newest.waiting

    assert in_time(lambda: asyncio.run(wait())) == (True, False, 0)


def test_the_end_sends_everybody_away():
    newest: Newest[str] = Newest()

    async def wait():
        waiting = asyncio.create_task(newest.wait(0, LONG))
        await asyncio.sleep(0)
        newest.close()
        return await waiting, await newest.wait(0, LONG)

    assert in_time(lambda: asyncio.run(wait())) == (False, False)


def test_who_gives_up_waiting_is_forgotten():
    newest: Newest[str] = Newest()

    async def wait():
        waiting = asyncio.create_task(newest.wait(0, LONG))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        newest.put("a")
        return newest.waiting

    assert in_time(lambda: asyncio.run(wait())) == 0

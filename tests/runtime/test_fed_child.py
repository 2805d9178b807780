"""A child that is fed does one piece of work after the other, and ends with its parent."""

import os
import subprocess
import sys
from contextlib import closing

from headrace.runtime.child import Call
from headrace.runtime.fed_child import FedChild
from runtime.child_functions import adding
from runtime.in_time import in_time


def fed(heard):
    call = Call(name="adding", function=adding, argument=100)
    return closing(FedChild(call, lambda name, message: heard.append(message)))


def test_what_it_began_with_lasts_over_its_pieces_of_work():
    heard = []
    with fed(heard) as child:
        assert [in_time(lambda n=n: child.do(n)) for n in (1, 2, 3)] == [None] * 3
    assert heard == [101, 103, 106]


def test_its_death_is_an_ending_however_often_it_is_fed():
    with fed([]) as child:
        assert in_time(lambda: child.do(1)) is None
        ending = in_time(lambda: child.do(-1))
        assert ending.exit_code == -11
        assert in_time(lambda: child.do(1)).exit_code == -11


def test_it_ends_when_its_parent_is_killed(tmp_path):
    script = (
        "import os\n"
        "from runtime.test_fed_child import fed\n"
        "with fed([]) as child:\n"
        "    child.do(1)\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    ended = tmp_path / "ended"
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": path, "ENDED": str(ended)},
        check=False,
    )
    assert done.returncode == -9
    in_time(lambda: wait_for(ended))


def wait_for(path):
    while not path.exists():
        os.sched_yield()

"""Faults of workers in tests; imported by child processes."""

import gc
import os
import signal

from forked import exit_code, forked


def before(owner, *names, act, calls=0, where=lambda *arguments, **named: True, once=True):
    """Patch functions of `owner` to call `act` with their arguments first.

    Args:
        owner: Class or module.
        names: Names of the functions.
        act: Called with the positional arguments.
        calls: Matching calls before the first one that acts.
        where: Whether a call matches, from its arguments.
        once: Whether to act only once.
    """
    left = calls

    def patched(function):
        def call(*arguments, **named):
            nonlocal left
            left -= where(*arguments, **named)
            if left == -1 or (left < 0 and not once):
                left -= 1
                act(*arguments)
            return function(*arguments, **named)

        return call

    for name in names:
        setattr(owner, name, patched(getattr(owner, name)))


def crash(*arguments):
    os.kill(os.getpid(), signal.SIGSEGV)


def hang(*arguments):
    signal.sigwait([signal.SIGUSR1])


def fail(*arguments):
    raise ZeroDivisionError("no such number")


def fill_the_disk(path, *arguments):
    path.touch()
    raise OSError(28, "No space left on device")


def interrupt_the_parent(*arguments):
    os.kill(os.getppid(), signal.SIGINT)
    hang()


def kill_the_parent(*arguments):
    os.kill(os.getppid(), signal.SIGKILL)


def kill(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)


def kill_both(*arguments):
    kill_the_parent()
    kill()


def run_until_killed(main, *arguments, **environment):
    """Run a function in a fork of this process, which kills itself."""

    def run():
        gc.freeze()  # the fork must not finalize objects of the tests
        os.environ.update(environment)
        main(*arguments)

    assert exit_code(forked(run)) == -9

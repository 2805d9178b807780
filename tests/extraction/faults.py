"""What happens to workers of the tests, and when; imported by children."""

import gc
import os
import signal

from forked import exit_code, forked


def before(owner, *names, act, calls=0, where=lambda *given, **named: True, once=True):
    """Have `act` called with what a function of `owner` is given, before it, after some calls."""
    left = calls

    def watched(done):
        def call(*given, **named):
            nonlocal left
            left -= where(*given, **named)
            if left == -1 or (left < 0 and not once):
                left -= 1
                act(*given)
            return done(*given, **named)

        return call

    for name in names:
        setattr(owner, name, watched(getattr(owner, name)))


def crash(*given):
    os.kill(os.getpid(), signal.SIGSEGV)


def hang(*given):
    signal.sigwait([signal.SIGUSR1])


def fail(*given):
    raise ZeroDivisionError("no such number")


def fill_the_disk(path, *given):
    path.touch()
    raise OSError(28, "No space left on device")


def interrupt_the_parent(*given):
    os.kill(os.getppid(), signal.SIGINT)
    hang()


def kill_the_parent(*given):
    os.kill(os.getppid(), signal.SIGKILL)


def kill(*given):
    os.kill(os.getpid(), signal.SIGKILL)


def kill_both(*given):
    kill_the_parent()
    kill()


def killed(main, *asked, **environment):
    """Run a function in a fork of this process, which is killed."""

    def run():
        gc.freeze()  # what the tests hold is closed by them alone
        os.environ.update(environment)
        main(*asked)

    assert exit_code(forked(run)) == -9

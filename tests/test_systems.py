"""Simulated Windows and macOS: a fork without their missing modules imports headrace again.

Libraries stay those of Linux, so this is no proof of a system: docs/reference/systems.md.
"""

import os
import re
import signal
import socket
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
from cli.kit import FAST
from decode.proxied import made_proxies, write_originals
from forked import in_a_fork
from headrace.live.address import FileAddress, parse_addresses
from headrace.testing.synth import SynthClip, write_clip
from headrace.video.source import refuse_address
from house_rules import house

WINDOWS_LACKS = {
    "modules": ("fcntl", "grp", "pwd", "resource", "termios"),
    os: (
        *(
            "fork",
            "getpgid",
            "getpgrp",
            "getuid",
            "geteuid",
            "killpg",
            "register_at_fork",
            "setsid",
        ),
        *("fchmod", "mkfifo", "pread", "preadv", "pwrite", "pwritev", "readv", "writev"),
        *("ctermid", "getloadavg", "nice", "tcgetpgrp", "uname", "wait3", "wait4"),
        *("O_ASYNC", "O_CLOEXEC", "O_DIRECTORY", "O_NOCTTY", "O_NOFOLLOW", "O_NONBLOCK"),
        *(name for name in dir(os) if re.match("eventfd|memfd|pidfd|posix_|sched_|RTLD_", name)),
    ),
    signal: (
        *("SIGALRM", "SIGCHLD", "SIGCONT", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGSTOP", "SIGUSR1"),
        *("alarm", "pthread_kill", "pthread_sigmask", "setitimer", "sigwait"),
    ),
    socket: ("AF_UNIX", "SO_REUSEPORT", "TCP_USER_TIMEOUT"),
}
MACOS_LACKS = {
    "modules": (),
    os: tuple(n for n in dir(os) if re.match("eventfd|memfd|pidfd|posix_f|sched_[gs]et", n)),
    import_module("fcntl"): ("F_SETSIG",),
    socket: ("TCP_USER_TIMEOUT",),
}
SYSTEMS: dict[str, dict[Any, tuple[str, ...]]] = {"win32": WINDOWS_LACKS, "darwin": MACOS_LACKS}
STARTS = {"__main__", "instrumentation.script", "testing.rtsp_server"}
"""Modules that run when they are imported."""


def import_all() -> None:
    """Import every module of headrace."""
    for module in house():
        if module.name.removeprefix("headrace.") not in STARTS:
            import_module(module.name)


def on(system: str, check: Callable[[], object]) -> bool:
    """Return whether `check` holds in a fork without the modules that a system lacks."""

    def run() -> bool:
        for name in [name for name in sys.modules if name.split(".")[0] == "headrace"]:
            del sys.modules[name]
        for owner, names in SYSTEMS[system].items():
            for name in names:
                if owner == "modules":
                    sys.modules[name] = None  # type: ignore[assignment]
                else:
                    delattr(owner, name)
        sys.platform = system
        check()
        return True

    return in_a_fork(run, hang_seconds=120)


@pytest.fixture(scope="module", autouse=True)
def libraries():
    """Import the dependencies of headrace before modules are removed."""
    import_all()


@contextmanager
def refused(*words: str) -> Iterator[None]:
    with pytest.raises(sys.modules["headrace.errors"].BackendError) as caught:
        yield
    for word in words:
        assert word in str(caught.value)


@pytest.fixture
def videos(tmp_path):
    (tmp_path / "clips" / "day").mkdir(parents=True)
    clip = SynthClip(num_frames=12, size=(32, 48))
    return [write_clip(tmp_path / "clips" / "day" / name, clip) for name in "ab"]


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_module_can_be_imported(system):
    assert on(system, import_all)


def read_all(videos: list[Path]) -> list[int]:
    """Return the checksums of the frames of each kind of reader."""
    new = import_module("headrace")
    asked = {"batch_size": 4, "size": (16, 16), "num_threads": 2, "seed": 3}
    clips = new.RandomClips(num_frames=4)
    with (
        new.FrameLoader(videos, **asked) as frames,
        new.ClipLoader(videos, clips=clips, **{**asked, "batch_size": 2}) as cut,
    ):
        batches = [batch.frames for loader in (frames, cut) for batch in loader]
    folder = videos[0].parents[1]
    layout = new.CameraLayout.of_folders([folder], lambda file: len(new.open_index(file)))
    layout.write(folder / "cameras.json")
    with new.CameraLoader(folder / "cameras.json", group_num=1, size=(16, 16)) as cameras:
        batches += [batch.frames for batch in cameras]
    dataset = new.FrameDataset(videos, size=(16, 16))
    batches += [sample["frames"] for sample in dataset.__getitems__([3, 0, 20])]
    with new.open(videos[0]) as video:
        batches += [video[5], video[2:9:3]]
    batches += [new.read_clip(videos[0], 0, 4)] + [
        batch.frames for batch in new.read_frames(videos)
    ]
    return [zlib.crc32(np.ascontiguousarray(pixels)) for pixels in batches]


@pytest.mark.parametrize("system", SYSTEMS)
def test_readers_and_loaders_give_the_same_frames(system, videos, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    expected = read_all(videos)
    assert len(expected) > 12

    def check() -> None:
        assert read_all(videos) == expected

    assert on(system, check)


def test_proxies_are_read_on_windows(tmp_path):
    videos = write_originals(tmp_path / "originals")
    proxies = made_proxies(videos, tmp_path / "proxies", tmp_path / "store")
    with headrace.open(proxies.of(videos[0])) as video:
        expected = video[[3, 30, 12]]

    def check() -> None:
        new = import_module("headrace")
        with new.open(new.Proxies(tmp_path / "proxies").of(videos[0])) as video:
            assert np.array_equal(video[[3, 30, 12]], expected)

    assert on("win32", check)


def test_features_that_windows_lacks_are_refused_by_name(videos, tmp_path):
    def check() -> None:
        new, module = import_module("headrace"), import_module
        options = module("headrace.extraction.frame_extraction").FrameExtractionOptions(
            sources=tuple(videos),
            out=tmp_path / "frames",
            selection=module("headrace.sampling.selection").Keyframes(),
        )
        child = module("headrace.runtime.child_process").CommandSpec(name="own", arguments=("own",))
        launch = module("headrace.runs.launch.launching").Launch
        with refused(f"the spill store {tmp_path / 'spill'}", "WSL"):
            new.FrameLoader(videos, batch_size=4, spill=tmp_path / "spill")
        with refused("an extraction", "WSL"):
            module("headrace.extraction.frame_extraction").FrameExtraction.prepare(options)
        with refused("the child process 'own'", "WSL"):
            module("headrace.runtime.supervisor").run_children([child])
        with refused("a launch of several runs", "WSL"):
            launch.check(None)
        assert not [*tmp_path.glob("spill"), *tmp_path.glob("frames")]

    assert on("win32", check)


def test_a_child_process_on_macos_ends_as_elsewhere():
    def check() -> None:
        spec = import_module("headrace.runtime.child_process")
        children = [
            spec.CommandSpec(
                name=str(code), arguments=(sys.executable, "-Sc", f"raise SystemExit({code})")
            )
            for code in (0, 3)
        ]
        ended = import_module("headrace.runtime.supervisor").run_children(children)
        assert [each.exit_code for each in ended] == [0, 3]

    assert on("darwin", check)


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_local_camera_is_refused_with_the_alternative(system):
    def check() -> None:
        new = import_module("headrace")
        with pytest.raises(
            new.OpenError, match="only Linux has; serve the camera with another program"
        ):
            next(new.live(0, lambda frames: frames))

    assert on(system, check)


def test_many_videos_are_scanned_without_processes_on_windows(videos, tmp_path):
    def check() -> None:
        store = import_module("headrace.decode.index_store").IndexStore(tmp_path / "store")
        scan = import_module("headrace.decode.parallel_scan")
        new = import_module("headrace")
        sources = [new.Source(video) for video in videos]
        with refused("the child process"):
            scan.scan_in_workers(sources, store, workers=2, stall_seconds=9.0)
        scan.useful_workers = lambda *given: 2
        open_one = scan.scan_ahead(sources, store, raises=True)
        assert [len(open_one(source)) for source in sources] == [12, 12]

    assert on("win32", check)


@pytest.mark.parametrize("path", [r"C:\videos\a.mp4", "C:/videos/a.mp4", r"\\server\videos\a.mp4"])
def test_a_windows_path_is_not_taken_for_an_address(path):
    refuse_address(path)
    assert list(parse_addresses([path])) == [FileAddress(path=Path(path))]


COMMANDS = [
    ("--help",),
    ("doctor",),
    ("index", "<video>"),
    ("run", "<video>", *FAST, "--out", "<folder>/run"),
    ("report", "<folder>/run", "--text"),
]


@pytest.mark.parametrize("system", SYSTEMS)
def test_commands_work(system, videos, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def check() -> None:
        main, codes = import_module("headrace.cli").main, []
        for command in COMMANDS:
            words = [word.replace("<video>", str(videos[0])) for word in command]
            try:
                main([word.replace("<folder>", str(tmp_path)) for word in words])
            except SystemExit as end:
                codes.append(end.code)
        assert not any(codes), codes

    assert on(system, check)
    assert (tmp_path / "run" / "report.html").is_file()

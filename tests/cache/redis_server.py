"""A real Redis or Valkey server on a free loopback port, which lasts as long as a test."""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from missing import missing

PROGRAMS = ("redis-server", "valkey-server")
CACHE_SETTINGS = ("maxmemory 100mb", "maxmemory-policy allkeys-lru", "save ''", "appendonly no")
"""Of a server that is set up as a cache."""
SECONDS = 30
"""Far above what an answer takes; reached only by a hang."""
_TRIES = 5
"""Ports: another process may take one between finding it free and listening."""


@dataclass(frozen=True)
class Server:
    """A server that runs."""

    process: subprocess.Popen[str]
    port: int
    password: str | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def ask(self, *command: str) -> Any:
        """What the server answers to a command of the administrator."""
        with redis.Redis(port=self.port, password=self.password, socket_timeout=SECONDS) as client:
            return client.execute_command(*command)


@contextmanager
def redis_server(
    folder: Path, *settings: str, port: int | None = None, password: str | None = None
) -> Iterator[Server]:
    """Start a server with these settings (`name value`), and end it."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        missing("no Redis or Valkey server found")
    secured = [] if password is None else [f'requirepass "{password}"']
    for _ in range(_TRIES):
        chosen = free_port() if port is None else port
        places = [f"port {chosen}", "bind 127.0.0.1", f"dir {folder}", "daemonize no"]
        file = folder / "server.conf"
        file.write_text("\n".join([*settings, *secured, *places]))
        with subprocess.Popen(
            [program, file], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout is not None
            try:
                if any("Ready to accept connections" in line for line in process.stdout):
                    yield Server(process, chosen, password)
                    return
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
    raise AssertionError("no port was free")


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as finder:
        finder.bind(("127.0.0.1", 0))
        return int(finder.getsockname()[1])

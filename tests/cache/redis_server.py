"""A real Redis or Valkey server on a free loopback port, for the time of a test."""

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
"""Settings of a server for a cache."""
SECONDS = 30
"""Timeout in seconds, far above any reply; reached only by a hang."""
_TRIES = 5
"""Ports to try: another process may open a free port first."""


@dataclass(frozen=True)
class Server:
    """Running server."""

    process: subprocess.Popen[str]
    port: int
    password: str | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def execute(self, *command: str) -> Any:
        """Run a command as administrator; return the reply."""
        with redis.Redis(port=self.port, password=self.password, socket_timeout=SECONDS) as client:
            return client.execute_command(*command)


@contextmanager
def redis_server(
    folder: Path, *settings: str, port: int | None = None, password: str | None = None
) -> Iterator[Server]:
    """Run a server with settings (`name value`) during the block."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        missing("no Redis or Valkey server found")
    secured = [] if password is None else [f'requirepass "{password}"']
    for _ in range(_TRIES):
        server_port = free_port() if port is None else port
        network = [f"port {server_port}", "bind 127.0.0.1", f"dir {folder}", "daemonize no"]
        file = folder / "server.conf"
        file.write_text("\n".join([*settings, *secured, *network]))
        with subprocess.Popen(
            [program, file], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout is not None
            try:
                if any("Ready to accept connections" in line for line in process.stdout):
                    yield Server(process, server_port, password)
                    return
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
    raise AssertionError("no port was free")


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as finder:
        finder.bind(("127.0.0.1", 0))
        return int(finder.getsockname()[1])

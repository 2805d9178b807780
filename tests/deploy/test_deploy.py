"""deploy/: its commands run, pass their health check and end; its paths exist."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from cache.redis_server import redis_server
from headrace.cache.cache_url import open_cache, open_store
from headrace.cli.run_flags import TOKEN_VARIABLE
from missing import missing

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CONF = DEPLOY / "redis.conf"
UNIT = (DEPLOY / "headrace.service").read_text("utf-8").replace("\\\n", " ")
CONTAINER = (DEPLOY / "Containerfile").read_text("utf-8").replace("\\\n", " ")
TOKEN = "a-token-of-a-test-0123"
SECONDS = 120
"""Timeout of a run and of a health check, far above the usual time."""


def unit_command() -> str:
    """Return the shell command of the unit, with the escapes of systemd removed."""
    (line,) = re.findall(r"^ExecStart=(.*)$", UNIT, re.MULTILINE)
    shell, option, command = shlex.split(line)
    assert (shell, option) == ("/bin/sh", "-c")
    return command.replace("$$", "$").replace("%%", "%")


def container_command() -> str:
    """Return the shell command of the container."""
    (line,) = re.findall(r"^CMD (.*)$", CONTAINER, re.MULTILINE)
    shell, option, command = json.loads(line)
    assert (shell, option) == ("sh", "-c")
    return str(command)


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [unit_command(), container_command()], ids=["unit", "container"]
)
def test_the_command_runs_is_healthy_and_ends_by_sigterm(command: str, tmp_path: Path):
    """With other folders, another port, and a model without a download."""
    (tmp_path / "cameras.streams").write_text("test://?size=64x96&rate=30\n")
    command = re.sub(r"^exec \S*headrace ", "exec $PYTHON -m headrace ", command)
    command = command.replace("/etc/headrace/", f"{tmp_path}/").replace("/runs/", f"{tmp_path}/")
    quick = " --web-port 0 --model-name squeezenet1_1 --weights none"
    folders = {"CREDENTIALS_DIRECTORY": str(tmp_path), "STATE_DIRECTORY": str(tmp_path)}
    environment = {**os.environ, **folders, "PYTHON": sys.executable, TOKEN_VARIABLE: TOKEN}
    with subprocess.Popen(
        ["/bin/sh", "-c", command + quick],
        env={**environment, "XDG_CACHE_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        try:
            assert run.stdout is not None
            port = next(
                found[1] for line in run.stdout if (found := re.search(r":(\d+)/metrics", line))
            )
            url = f"http://127.0.0.1:{port}/health"
            healthy = _health(url, environment)
            without_token = _health(url, {**environment, TOKEN_VARIABLE: ""})
            run.send_signal(signal.SIGTERM)
            out, err = run.communicate(timeout=SECONDS)
        finally:
            run.kill()
    assert (healthy.returncode, json.loads(healthy.stdout)["is_good"]) == (0, True), healthy.stderr
    assert without_token.returncode == 1
    assert "bearer token" in without_token.stderr
    assert run.returncode == int(re.findall(r"^SuccessExitStatus=(\d+)$", UNIT, re.MULTILINE)[0])
    (session,) = tmp_path.glob("*Z/session.json")
    assert json.loads(session.read_text())["outcome"] == "interrupted"
    assert "Traceback" not in out + err


def test_the_health_check_fails_without_a_server():
    found = _health("http://127.0.0.1:9/health", dict(os.environ))
    assert found.returncode == 1
    assert found.stderr.startswith("no response from http://127.0.0.1:9/health: ")


def test_the_files_of_the_container_exist():
    lines = re.findall(r"^COPY (.*)$", CONTAINER, re.MULTILINE)
    copied = [path for line in lines for path in line.split()[:-1]]
    assert copied
    assert [path for path in copied if not (ROOT / path).exists()] == []
    assert "/opt/headrace/deploy/health.py" in CONTAINER
    assert "./deploy/health.py" in CONTAINER


def test_systemd_understands_the_unit(tmp_path: Path):
    if shutil.which("systemd-analyze") is None:
        missing("systemd is not installed")
    unit = tmp_path / "headrace.service"
    unit.write_text((DEPLOY / "headrace.service").read_text("utf-8"))
    found = subprocess.run(
        ["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stderr) == (0, "")


def test_the_page_names_files_that_exist():
    text = (DEPLOY / "README.md").read_text("utf-8")
    named = set(re.findall(r"deploy/[\w.]+", text))
    assert named == {"deploy/headrace.service", "deploy/Containerfile", "deploy/health.py"}
    assert all((ROOT / path).exists() for path in named)


def _health(url: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, DEPLOY / "health.py", url],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def maxmemory_by_the_rule() -> int:
    """Return the result of the command in the file."""
    (command,) = re.findall(r"^# +redis-server .*--maxmemory \$\((.*)\)$", CONF.read_text(), re.M)
    done = subprocess.run(shlex.split(command), capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_the_rule_gives_seventy_percent_of_the_machines_memory():
    assert maxmemory_by_the_rule() == pytest.approx(0.7 * psutil.virtual_memory().total, rel=1e-4)


def test_a_server_with_these_settings_is_a_cache_without_a_warning(tmp_path):
    bound = maxmemory_by_the_rule()
    with redis_server(tmp_path, f"include {CONF}", f"maxmemory {bound}") as server:
        with open_cache(server.url) as cache:
            assert cache.warnings == []
        store = open_store(server.url)
        assert store.state().bound_bytes == bound
        store.close()
        for name, value in [("protected-mode", "yes"), ("maxmemory-policy", "allkeys-lru")]:
            assert server.execute("CONFIG", "GET", name) == {name.encode(): value.encode()}

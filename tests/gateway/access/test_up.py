"""The gateway of `cloche up`: held by the node, there when somebody comes, gone with it."""

import json
import os
import select
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import httpx
import msgspec
import pytest

from infra.settings import Gateway, Settings
from services.cli import gateway_process
from services.cli.gateway_note import GatewayNote, find_gateway, note_file
from tests.cli.shell import Shell, cleaned, up_in
from tests.services.node import ROOT, eventually

PROCESS = "services.gateway"


def gateways(cloche: Shell) -> list[int]:
    """Its processes. The environment of a process that keeps its memory to itself can be read by root only."""
    found = []
    for entry in os.scandir("/proc"):
        try:
            is_one = entry.name.isdigit() and PROCESS in Path(entry.path, "cmdline").read_text().split("\0")
            if is_one and f"CLOCHE_DATA={cloche.data}" in Path(entry.path, "environ").read_text().split("\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def address(cloche: Shell) -> str:
    said = cloche("open", "--print")
    assert said.code == 0, said.err
    return said.out.decode().strip()


def test_it_is_started_by_the_first_connection_and_again_after_its_end(tmp_path: Path) -> None:
    with up_in(tmp_path / "data", CLOCHE_GATEWAY_PORT="0") as cloche:
        assert gateways(cloche) == []
        with httpx.Client(timeout=60) as browser:
            entered = browser.get(address(cloche), follow_redirects=False)
            assert (entered.status_code, entered.headers["location"]) == (303, "/")
            (first,) = gateways(cloche)
            os.kill(first, signal.SIGKILL)
        note = find_gateway(cloche.data)
        assert note is not None
        assert httpx.get(f"{note.address}/healthz", timeout=60).status_code == 200
        (second,) = gateways(cloche)
        assert second != first
        assert cloche("down").code == 0
        assert gateways(cloche) == []
        assert not note_file(cloche.data).exists()


def test_it_ends_with_a_node_that_is_killed(tmp_path: Path) -> None:
    with cleaned(tmp_path / "data", CLOCHE_GATEWAY_PORT="0") as cloche:
        assert cloche("up", "--detach").code == 0
        note = find_gateway(cloche.data)
        assert note is not None
        assert httpx.get(f"{note.address}/healthz", timeout=60).status_code == 200
        (gateway,) = gateways(cloche)
        watching = os.pidfd_open(gateway)
        os.kill(note.node, signal.SIGKILL)
        try:
            # Readable once it has ended.
            assert select.select([watching], [], [], 30)[0]
        finally:
            os.close(watching)
        assert find_gateway(cloche.data) is None
        assert cloche("open", "--print").code == 1


async def test_one_that_cannot_be_started_is_started_once_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", str(program := tmp_path / "python"))
    monkeypatch.setattr(gateway_process, "FIRST_PAUSE_S", 0.05)
    note_file(tmp_path).parent.mkdir()
    async with gateway_process.gateway_of(Settings(data=tmp_path, gateway=Gateway(port=0))):
        note = msgspec.json.decode(note_file(tmp_path).read_bytes(), type=GatewayNote)
        with socket.create_connection(("127.0.0.1", int(note.address.rpartition(":")[2]))):
            await eventually(lambda: "could not be started" in caplog.text)
            program.write_text(f"#!/bin/sh\n: >{tmp_path}/started\n")
            program.chmod(0o700)
            await eventually((tmp_path / "started").exists)


def test_up_tells_the_address_and_whoever_may_read_the_data_may_go_in(tmp_path: Path) -> None:
    with up_in(tmp_path / "data", CLOCHE_GATEWAY_PORT="0") as cloche:
        told = cloche("up", "--detach").out.decode()
        assert f"dashboard: {address(cloche)}" in told
        assert stat.S_IMODE(note_file(cloche.data).stat().st_mode) == 0o600
        checks = [json.loads(line) for line in cloche("doctor", "--json").out.splitlines()]
        (gateway,) = [each for each in checks if each["what"] == "gateway"]
        assert gateway["ok"]
        assert "token" not in gateway["said"].replace("`cloche token`", "")
        assert gateways(cloche) == []


def test_a_default_port_that_is_taken_is_no_reason_to_stay_down_and_a_chosen_one_is(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        with cleaned(tmp_path / "data", CLOCHE_GATEWAY_PORT=port) as cloche:
            said = cloche("up", "--detach")
            assert said.code == 1
            assert f"cannot listen on 127.0.0.1:{port}" in said.err.decode()
    with up_in(tmp_path / "one") as one, up_in(tmp_path / "two") as two:
        first, second = find_gateway(one.data), find_gateway(two.data)
        assert first is not None
        assert second is not None
        assert first.address != second.address
        assert second.instead_of == 7300
        assert b"(port 7300 is taken)" in two("up", "--detach").out


def test_where_others_can_reach_it_only_real_tokens_count(tmp_path: Path) -> None:
    with up_in(tmp_path / "data", CLOCHE_GATEWAY_PORT="0", CLOCHE_GATEWAY_HOST="0.0.0.0") as cloche:
        note = find_gateway(cloche.data)
        assert note is not None
        assert note.token is None
        assert b"?token=" not in cloche("up", "--detach").out
        assert httpx.get(address(cloche), timeout=60).status_code == 303
        made = json.loads(cloche("token", "--role", "viewer", "--name", "alice", "--json", "--sandbox", "sb-1").out)
        assert (made["subject"], made["role"], made["scope"]["sandboxes"]) == ("alice", "viewer", ["sb-1"])
        who = httpx.get(f"{note.address}/api/v1/session", headers={"authorization": f"Bearer {made['token']}"})
        assert who.json()["scope"] == {"projects": [], "sandboxes": ["sb-1"], "labels": {}}


def test_open_says_what_to_do_where_nothing_is_up(tmp_path: Path) -> None:
    with cleaned(tmp_path / "data") as cloche:
        said = cloche("open")
        assert (said.code, b"cloche up --detach" in said.err) == (1, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--role", "root"],
        ["--role", "viewer", "--name", "a b"],
        ["--role", "viewer", "--label", "x"],
        ["--role", "viewer", "--expires", "soon"],
        ["--role", "viewer", "--sandbox", "../x"],
        ["--role", "viewer", "--shared"],
        [],
    ],
    ids=" ".join,
)
def test_a_token_that_makes_no_sense_is_one_clear_line(tmp_path: Path, arguments: list[str]) -> None:
    said = Shell(tmp_path / "data")("token", *arguments)
    assert (said.code, said.out) == (2, b"")
    assert said.err


def test_an_ordinary_run_starts_no_gateway(tmp_path: Path) -> None:
    with cleaned(tmp_path / "data") as cloche, cloche.begun("run", "--", "sh", "-c", "echo up; sleep 60") as line:
        assert line.stdout is not None
        assert line.stdout.readline() == b"up\n"
        assert gateways(cloche) == []


def test_neither_the_command_line_nor_the_node_imports_the_web() -> None:
    code = (
        "import sys, services.cli.commands_run, services.cli.commands_system, services.cli.node, services.cli.doctor;"
        "print([name for name in ('litestar', 'uvicorn', 'prometheus_client', 'jwt') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert ran.stdout.strip() == "[]"

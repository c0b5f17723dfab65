"""Init by itself, over its own protocol."""

import json
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.keeper.rig import ENV, INSTANCE, eventually, listens, start_init


class Peer:
    """A blocking client of init."""

    def __init__(self, path: Path) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(str(path))

    def ask(self, **message: Any) -> dict[str, Any]:
        return self.ask_with([], **message)

    def ask_with(self, fds: list[int], **message: Any) -> dict[str, Any]:
        body = json.dumps(message).encode()
        socket.send_fds(self.sock, [len(body).to_bytes(4, "big") + body], fds)
        return self.receive()

    def receive(self) -> dict[str, Any]:
        size = int.from_bytes(self._exactly(4), "big")
        answer: dict[str, Any] = json.loads(self._exactly(size))
        return answer

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.sock.recv(size - len(data))
            if not more:
                raise ConnectionResetError
            data += more
        return data

    def start(self, exec_id: str, script: str) -> dict[str, Any]:
        null = os.open(os.devnull, os.O_RDWR)
        try:
            argv = ["sh", "-c", script]
            return self.ask_with([null] * 3, op="start", exec=exec_id, argv=argv, env=ENV, cwd="/", pty=None)
        finally:
            os.close(null)


@pytest.fixture
async def init(tmp_path: Path) -> Any:
    process = start_init(tmp_path / "s")
    await eventually(lambda: listens(tmp_path / "s"))
    yield process
    process.terminate()
    process.wait()


def test_init_says_who_it_is_and_a_connection_names_its_process(init: subprocess.Popen[bytes], tmp_path: Path) -> None:
    peer = Peer(tmp_path / "s")
    assert peer.ask(op="hello") == {"ok": True, "instance": INSTANCE, "pid": init.pid}
    credentials = peer.sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    assert int.from_bytes(credentials[:4], "little") == init.pid
    peer.sock.close()


def test_nonsense_costs_only_its_own_connection(init: subprocess.Popen[bytes], tmp_path: Path) -> None:
    bystander = Peer(tmp_path / "s")
    assert bystander.start("bystander", "sleep 1000")["ok"]
    deep = b"[" * 100_000
    for nonsense in (b"\xff\xff\xff\xff", b"\0\0\0\2[]", b"\0\0\0\1x", len(deep).to_bytes(4, "big") + deep,
                     b'\0\0\0\x0c{"op":"nope"}', b"\0\0\0\2{}"):  # fmt: skip
        peer = Peer(tmp_path / "s")
        peer.sock.sendall(nonsense)
        with pytest.raises(ConnectionResetError):
            peer.receive()
        peer.sock.close()
    assert bystander.ask(op="signal", signum=9, scope="tree")["signalled"] >= 1
    bystander.sock.close()


async def test_a_broken_connection_kills_the_whole_command(init: subprocess.Popen[bytes], tmp_path: Path) -> None:
    peer, other = Peer(tmp_path / "s"), Peer(tmp_path / "s")
    peer.start("e", "setsid sleep 1000 & sleep 1000")
    assert len(other.ask(op="processes")["processes"]) >= 1
    peer.sock.close()
    await eventually(lambda: other.ask(op="processes")["processes"] == [])
    other.sock.close()


async def test_freeze_stops_everything_and_thaw_lets_it_go_on(init: subprocess.Popen[bytes], tmp_path: Path) -> None:
    peer, other = Peer(tmp_path / "s"), Peer(tmp_path / "s")
    pid = peer.start("e", "while :; do :; done")["pid"]

    def state() -> str:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]

    assert other.ask(op="freeze")["signalled"] == 1
    await eventually(lambda: state() == "T")
    assert other.ask(op="thaw")["signalled"] == 1
    await eventually(lambda: state() == "R")
    for each in (peer, other):
        each.sock.close()


def test_sigterm_gives_a_grace_then_kills_and_every_end_is_told(init: subprocess.Popen[bytes], tmp_path: Path) -> None:
    polite, stubborn = Peer(tmp_path / "s"), Peer(tmp_path / "s")
    polite.start("polite", "sleep 1000")
    stubborn.start("stubborn", "trap '' TERM; sleep 1000; while :; do sleep 1000; done")
    init.terminate()
    assert polite.receive()["exit"] == {"signal": signal.SIGTERM, "core": False}
    assert stubborn.receive()["exit"]["signal"] == signal.SIGKILL
    assert init.wait() == 0
    for each in (polite, stubborn):
        each.sock.close()


def test_adopted_orphans_are_reaped(init: subprocess.Popen[bytes], tmp_path: Path) -> None:
    peer = Peer(tmp_path / "s")
    peer.start("e", "for i in 1 2 3 4 5; do (setsid true &); done; sleep 0.1")
    assert peer.receive()["exit"] == {"code": 0}
    assert Path(f"/proc/{init.pid}/task/{init.pid}/children").read_text() == ""
    peer.sock.close()


def test_a_start_without_descriptors_is_refused(init: subprocess.Popen[bytes], tmp_path: Path) -> None:
    peer = Peer(tmp_path / "s")
    with pytest.raises(ConnectionResetError):
        peer.ask(op="start", exec="e", argv=["true"], env={}, cwd="/", pty=None)
    peer.sock.close()

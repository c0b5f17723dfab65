import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
import psutil
import pytest

from contracts.errors import Unavailable
from infra.keeper.client import KeeperClient
from infra.keeper.frame import Kind
from infra.keeper.launcher import ensure_keeper, reach_keeper
from infra.keeper.layout import Layout
from infra.keeper.protocol import MAX_MESSAGE
from infra.settings import Keeping
from tests.keeper.rig import ROOT, eventually, gone, rig


async def test_commands_of_a_killed_keeper_are_lost_with_the_totals_known_and_dead(tmp_path: Path) -> None:
    async with rig() as made:
        script = f"echo $$ > {tmp_path}/pid; printf 12345; printf 123 >&2; setsid sleep 1000 & sleep 1000"
        exec_id = await made.start("sh", "-c", script)
        done = await made.start("true")
        await made.final(done)
        await made.until(exec_id, lambda result: len(result.stdout + result.stream(Kind.STDERR)) == 8)
        waiting = asyncio.create_task(made.client.wait(exec_id, 10**9))
        await asyncio.sleep(0)
        await made.kill_keeper()
        with pytest.raises(Unavailable):
            await waiting
        pid = int((tmp_path / "pid").read_text())
        await eventually(lambda: not Path(f"/proc/{pid}").exists())
        init = psutil.Process(made.init.pid)
        await eventually(lambda: init.children(recursive=True) == [])
        await made.new_keeper()
        result = await made.final(exec_id)
        assert result.kinds[-2:] == [Kind.LOST, Kind.CLOSED]
        assert (result.lost.cause, result.lost.totals.stdout, result.lost.totals.stderr) == ("keeper_died", 5, 3)
        assert (await made.client.info(exec_id)).state == "lost"
        assert (await made.client.info(done)).state == "closed"
        assert (await made.shell("exit 4")).exit.code == 4


async def test_an_end_on_the_record_stands_when_the_keeper_dies_later() -> None:
    async with rig() as made:
        exec_id = await made.start("sh", "-c", "sleep 1000 & exit 6")
        await made.until(exec_id, lambda result: Kind.EXIT in result.kinds)
        await made.kill_keeper()
        await made.new_keeper()
        result = await made.final(exec_id)
        assert result.kinds == [Kind.EXIT, Kind.CLOSED]
        assert result.exit.code == 6


async def test_a_start_cut_short_before_its_meta_was_whole_never_ran_and_may_be_tried_again() -> None:
    async with rig() as made:
        await made.kill_keeper()
        for exec_id, meta in (("bare", None), ("torn", b'{"context":')):
            directory = Layout.of(made.data).exec_dir(exec_id)
            directory.mkdir()
            if meta is not None:
                (directory / "meta.json").write_bytes(meta)
        await made.new_keeper()
        assert await made.client.list() == []
        for exec_id in ("bare", "torn"):
            await made.start("echo", "ran", exec_id=exec_id)
            assert (await made.final(exec_id)).stdout == b"ran\n"


async def test_the_death_of_the_sandbox_is_on_the_record() -> None:
    async with rig() as made:
        exec_id = await made.start("sh", "-c", "echo hi; sleep 1000")
        result = await made.until(exec_id, lambda result: result.stdout == b"hi\n")
        children = psutil.Process(made.init.pid).children(recursive=True)
        made.init.kill()
        for child in children:
            child.kill()
        result = await made.final(exec_id)
        assert result.kinds == [Kind.STDOUT, Kind.LOST, Kind.CLOSED]
        assert (result.lost.cause, result.lost.totals.stdout) == ("sandbox_gone", 3)


async def test_a_forced_shutdown_ends_commands_and_says_so(tmp_path: Path) -> None:
    async with rig() as made:
        exec_id = await made.start("sleep", "1000")
        keeper = await made.keeper()
        ended = os.pidfd_open(keeper.pid)
        await made.client.shutdown(force=True)
        await gone(ended)
        init = psutil.Process(made.init.pid)
        await eventually(lambda: init.children(recursive=True) == [])
        await made.new_keeper()
        assert (await made.final(exec_id)).lost.cause == "keeper_stopped"


async def test_sigterm_ends_an_idle_keeper_and_not_a_busy_one() -> None:
    async with rig() as made:
        exec_id = await made.start("sleep", "1000")
        keeper = await made.keeper()
        ended = os.pidfd_open(keeper.pid)
        keeper.send_signal(signal.SIGTERM)
        log = Layout.of(made.data).log
        await eventually(lambda: "SIGTERM, but 1 commands run" in log.read_text())
        assert (await made.client.info(exec_id)).state == "running"
        await made.client.signal(exec_id, signal.SIGKILL)
        await made.final(exec_id)
        keeper.send_signal(signal.SIGTERM)
        await gone(ended)


async def test_a_keeper_outlives_the_process_that_started_it(tmp_path: Path) -> None:
    code = f"""
import asyncio, pathlib
from infra.keeper.launcher import ensure_keeper
async def main():
    async with await ensure_keeper(pathlib.Path({str(tmp_path)!r})) as client:
        print((await client.hello()).pid)
asyncio.run(main())"""
    run = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True
    )
    async with await KeeperClient.connect(tmp_path) as client:
        assert (await client.hello()).pid == int(run.stdout)
        await client.shutdown()


async def test_a_second_keeper_for_a_data_directory_says_so_and_leaves(tmp_path: Path) -> None:
    async with await ensure_keeper(tmp_path) as client:
        command = [sys.executable, "-m", "infra.keeper", "--data", str(tmp_path)]
        second = await asyncio.to_thread(subprocess.run, command, cwd=ROOT, capture_output=True)
        assert second.returncode == 3
        assert b"another keeper holds" in second.stderr
        await client.hello()
        await client.shutdown()


async def test_many_that_ensure_a_keeper_at_once_get_the_same(tmp_path: Path) -> None:
    clients = await asyncio.gather(*(ensure_keeper(tmp_path) for _ in range(4)))
    assert len({(await client.hello()).instance for client in clients}) == 1
    await clients[0].shutdown()
    for client in clients:
        await client.aclose()


async def test_a_data_directory_may_be_deep(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    async with await ensure_keeper(deep) as client:
        assert (await client.list()) == []
        await client.shutdown()


@pytest.mark.skipif(os.getuid() != 0, reason="needs a second uid")
async def test_another_user_cannot_connect() -> None:
    code = """
import os, socket, sys
os.setgid(65534); os.setuid(65534)
probe = socket.socket(socket.AF_UNIX)
try:
    probe.connect(sys.argv[1]); probe.sendall(b'\\0\\0\\0\\x01x'); print('answer', probe.recv(10))
except OSError as error:
    print(type(error).__name__)"""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        async with await ensure_keeper(path) as client:
            sock = Layout.of(path).socket
            probe = [sys.executable, "-I", "-c", code, str(sock)]
            ran = await asyncio.to_thread(subprocess.run, probe, capture_output=True)
            assert ran.stdout == b"PermissionError\n"
            for place in (path, sock.parent, sock):
                place.chmod(0o777)
            ran = await asyncio.to_thread(subprocess.run, probe, capture_output=True)
            assert ran.stdout in (b"answer b''\n", b"ConnectionResetError\n", b"BrokenPipeError\n")
            await client.shutdown()


async def test_a_client_that_talks_nonsense_loses_its_connection_only(tmp_path: Path) -> None:
    async with await ensure_keeper(tmp_path) as client:
        for nonsense in (b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\1\xc1", (MAX_MESSAGE + 1).to_bytes(4, "big")):
            reader, writer = await asyncio.open_unix_connection(Layout.of(tmp_path).socket)
            writer.write(nonsense)
            assert await reader.read() == b""
            writer.close()
        await client.hello()
        await client.shutdown()


async def test_who_may_only_adopt_a_keeper_starts_none_and_finds_the_one_that_somebody_else_started(
    tmp_path: Path,
) -> None:
    with pytest.raises(Unavailable):
        await reach_keeper(tmp_path, Keeping.ADOPT)
    assert not Layout.of(tmp_path).root.exists()
    async with await ensure_keeper(tmp_path) as started, await reach_keeper(tmp_path, Keeping.ADOPT) as adopted:
        assert (await adopted.hello()).instance == (await started.hello()).instance
        await started.shutdown()


async def test_a_client_that_floods_without_reading_does_not_grow_the_keeper(tmp_path: Path) -> None:
    async with await ensure_keeper(tmp_path) as client:
        keeper = psutil.Process((await client.hello()).pid)
        flood = socket.socket(socket.AF_UNIX)
        flood.connect(str(Layout.of(tmp_path).socket))
        flood.setblocking(False)
        body = msgspec.msgpack.encode({"op": "wait", "id": 1, "exec": "nobody", "position": 0})
        block = (len(body).to_bytes(4, "big") + body) * 500
        before = keeper.memory_info().rss
        for _ in range(300):
            try:
                flood.send(block)
            except BlockingIOError:
                await client.hello()
        assert keeper.memory_info().rss - before < 20_000_000
        flood.close()
        await client.hello()
        await client.shutdown()


async def test_memory_is_bounded_when_nobody_confirms() -> None:
    async with rig() as made:
        exec_id = await made.start("sh", "-c", "yes | head -c 300M")
        keeper = await made.keeper()
        before = keeper.memory_info().rss
        peak, size = before, 0
        while not (grown := await made.client.wait(exec_id, size + 10_000_000)).final:
            size = grown.size
            peak = max(peak, keeper.memory_info().rss)
        assert peak - before < 10_000_000
        last = made.frames(exec_id, 0)[-2]
        assert msgspec.json.decode(last.payload)["totals"]["stdout"] == 300 * 1024 * 1024


async def test_a_backlog_stops_the_command_until_it_is_confirmed(tmp_path: Path) -> None:
    async with rig() as made:
        keeper = await made.keeper()
        ended = os.pidfd_open(keeper.pid)
        await made.client.shutdown()
        await gone(ended)
        command = [sys.executable, "-m", "infra.keeper", "--data", str(made.data), "--backlog-bytes", "1000000"]
        await asyncio.to_thread(subprocess.run, [*command, "--detach"], cwd=ROOT, check=True)
        await made.new_keeper()
        exec_id = await made.start("sh", "-c", "yes | head -c 5000000")
        size = 0
        while size <= 1_000_000:
            size = (await made.client.wait(exec_id, size)).size
        held = asyncio.create_task(made.client.wait(exec_id, size))
        await made.run("true")
        assert not held.done()
        assert (await made.client.info(exec_id)).state == "running"
        while (await made.client.info(exec_id)).state != "closed":
            await made.client.confirm(exec_id, size)
            size = (await made.client.wait(exec_id, size)).size
        await held
        assert (await made.final(exec_id)).exit.totals.stdout == 5_000_000

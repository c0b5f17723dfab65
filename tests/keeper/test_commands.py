import asyncio
import hashlib
import os
import signal
from functools import partial
from pathlib import Path

import pytest

from contracts.errors import Conflict, Invalid
from infra.keeper.frame import Kind
from tests.keeper.rig import eventually, rig

ENDED = [Kind.EXIT, Kind.CLOSED]


async def test_bytes_come_through_identical(tmp_path: Path) -> None:
    contents = {
        "binary": os.urandom(300_000),
        "invalid": b"ok \xff\xfe \xe2\x82 \xc3" * 50,
        "long": b"x" * 5_000_000,
        "empty": b"",
        "no-newline": "grüße".encode(),
    }
    async with rig() as made:
        for name, content in contents.items():
            (tmp_path / name).write_bytes(content)
            result = await made.run("cat", str(tmp_path / name))
            assert hashlib.sha256(result.stdout).digest() == hashlib.sha256(content).digest(), name
            assert result.exit.totals.stdout == len(content)
            assert result.kinds[-2:] == ENDED


async def test_each_stream_is_its_own_and_the_status_is_the_real_one() -> None:
    async with rig() as made:
        result = await made.shell("echo out; echo err >&2; exit 3")
        assert (result.stdout, result.stream(Kind.STDERR)) == (b"out\n", b"err\n")
        assert (result.exit.code, result.exit.signal) == (3, None)
        killed = await made.shell("kill -SEGV $$")
        assert (killed.exit.code, killed.exit.signal) == (None, signal.SIGSEGV)
        assert [frame.index for frame in result.frames] == [0, 1, 2, 3]


async def test_a_command_that_cannot_start_is_a_record_with_the_reason(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("no program")
    async with rig() as made:
        assert (await made.run("no-such-program")).failed.code == "NOT_FOUND"
        assert (await made.run(str(plain))).failed.code == "NOT_EXECUTABLE"
        assert (await made.run("true", cwd=str(tmp_path / "nowhere"))).failed.code == "BAD_CWD"
        result = await made.run("no-such-program")
        assert result.kinds == [Kind.FAILED, Kind.CLOSED]


async def test_a_sandbox_that_is_gone_or_another_one_starts_nothing(tmp_path: Path) -> None:
    async with rig() as made:
        made.target = type(made.target)(socket=made.target.socket, instance="another")
        assert (await made.run("touch", str(tmp_path / "ran"))).failed.code == "WRONG_INSTANCE"
        made.target = type(made.target)(socket=str(tmp_path / "no.sock"), instance="another")
        assert (await made.run("touch", str(tmp_path / "ran"))).failed.code == "SANDBOX_GONE"
        assert not (tmp_path / "ran").exists()


async def test_a_command_starts_with_a_clean_state() -> None:
    async with rig() as made:
        result = await made.shell("env | sort; umask; ls /proc/self/fd | wc -l; grep Sig[BI] /proc/self/status")
        lines = result.stdout.decode().splitlines()
        assert [line for line in lines if "=" in line and not line.startswith(("PWD", "OLDPWD", "SHLVL", "_"))] == [
            "CLOCHE_EXEC=e0", "LANG=C.UTF-8", "PATH=/usr/local/bin:/usr/bin:/bin",
        ]  # fmt: skip
        assert "0022" in lines
        assert "4" in lines
        blocked, ignored = (int(line.split()[1], 16) for line in lines[-2:])
        # 32 and 33 are libc's own: whatever posix_spawn starts has them ignored, and sets them up anew for itself.
        assert (blocked, ignored & ~(0b11 << 31)) == (0, 0)


async def test_a_second_start_of_an_exec_starts_nothing_also_after_a_restart(tmp_path: Path) -> None:
    count = tmp_path / "count"
    script = ["sh", "-c", f"echo ran >> {count}"]
    async with rig() as made:
        await made.final(await made.start(*script, exec_id="once"))
        again = await made.client.start("once", made.target, script, env={}, cwd="/")
        assert again.already
        await made.kill_keeper()
        await made.new_keeper()
        assert (await made.client.start("once", made.target, script, env={}, cwd="/")).already
        assert count.read_text() == "ran\n"


async def test_concurrent_starts_of_an_exec_start_one(tmp_path: Path) -> None:
    count = tmp_path / "count"
    script = ["sh", "-c", f"echo ran >> {count}"]
    async with rig() as made:
        starts = [made.client.start("once", made.target, script, env={}, cwd="/") for _ in range(10)]
        answers = await asyncio.gather(*starts)
        assert sorted(answer.already for answer in answers) == [False] + [True] * 9
        await made.final("once")
        assert count.read_text() == "ran\n"


async def test_the_meta_file_names_the_environment_but_keeps_no_value() -> None:
    async with rig() as made:
        await made.client.start("e", made.target, ["true"], env={"TOKEN": "hush-hush"}, cwd="/")
        meta = (made.client.spool_dir("e") / "meta.json").read_text()
        assert "TOKEN" in meta
        assert "hush-hush" not in meta


async def test_a_kill_reaches_children_that_left_the_session_or_forked_twice(tmp_path: Path) -> None:
    script = f"""
      setsid sh -c 'echo $$ > {tmp_path}/a; sleep 1000' &
      (setsid sh -c '(sh -c "echo \\$\\$ > {tmp_path}/b; exec sleep 1000" &) ; exit' &)
      sh -c 'echo $$ > {tmp_path}/c; exec env -i sleep 1000' &
      while ! [ -s {tmp_path}/a -a -s {tmp_path}/b -a -s {tmp_path}/c ]; do sleep 0.01; done
      echo ready; wait; sleep 1000"""
    async with rig() as made:
        bystander = await made.start("sleep", "1000")
        exec_id = await made.start("sh", "-c", script)
        await made.until(exec_id, lambda result: result.stdout == b"ready\n")
        pids = [int((tmp_path / name).read_text()) for name in "abc"]
        assert await made.client.signal(exec_id, signal.SIGKILL) >= 4
        result = await made.final(exec_id)
        assert result.exit.signal == signal.SIGKILL
        await eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
        assert (await made.client.info(bystander)).state == "running"


async def test_a_signal_to_the_main_process_leaves_its_children() -> None:
    async with rig() as made:
        exec_id = await made.start("sh", "-c", "trap 'echo got; exit 5' TERM; echo ready; while :; do sleep 0.01; done")
        await made.until(exec_id, lambda result: result.stdout == b"ready\n")
        assert await made.client.signal(exec_id, signal.SIGTERM, "main") == 1
        result = await made.final(exec_id)
        assert (result.stdout, result.exit.code) == (b"ready\ngot\n", 5)
        assert await made.client.signal(exec_id, signal.SIGTERM) == 0


async def test_a_signal_that_is_ordered_again_is_not_sent_again() -> None:
    async with rig() as made:
        script = "trap 'echo one' USR1; trap 'exit 0' USR2; echo ready; while :; do sleep 0.01; done"
        exec_id = await made.start("sh", "-c", script)
        await made.until(exec_id, lambda result: result.stdout == b"ready\n")
        told = b"ready\n"
        for order, count in (("a", 1), ("a", 0), ("b", 1), ("a", 0), ("b", 0)):
            assert await made.client.signal(exec_id, signal.SIGUSR1, "main", order=order) == count
            told += b"one\n" * count
            await made.until(exec_id, lambda result: result.stdout == told)  # noqa: B023
        await made.client.signal(exec_id, signal.SIGUSR2, "main")
        assert (await made.final(exec_id)).stdout == b"ready\none\none\n"


async def test_a_signal_that_was_not_answered_is_waited_for_when_it_is_ordered_again() -> None:
    # Each real-time signal counts; of others that wait, all but one are dropped.
    script = """if True:
        import signal
        both = {signal.SIGRTMIN, signal.SIGRTMAX}
        signal.pthread_sigmask(signal.SIG_BLOCK, both)
        print("ready", flush=True)
        while signal.sigwait(both) == signal.SIGRTMIN:
            print("one", flush=True)"""
    async with rig() as made:
        exec_id = await made.start("python3", "-c", script)
        await made.until(exec_id, lambda result: result.stdout == b"ready\n")
        send = partial(made.client.signal, exec_id, signal.SIGRTMIN, "main", order="a")
        made.init.send_signal(signal.SIGSTOP)
        answers = await asyncio.gather(send(), send(), return_exceptions=True)
        with pytest.raises(Conflict, match="paused"):
            await send()
        assert [type(each) for each in answers] == [Conflict, Conflict]
        made.init.send_signal(signal.SIGCONT)
        await made.until(exec_id, lambda result: result.stdout == b"ready\none\n")
        assert await send() == 0
        assert await made.client.signal(exec_id, signal.SIGRTMAX, "main", order="b") == 1
        assert (await made.final(exec_id)).stdout == b"ready\none\n"


async def test_a_background_child_stays_on_the_record_after_the_end(tmp_path: Path) -> None:
    fifo = tmp_path / "go"
    os.mkfifo(fifo)
    async with rig() as made:
        exec_id = await made.start("sh", "-c", f"(read x < {fifo}; echo late) & echo early")
        await made.until(exec_id, lambda result: Kind.EXIT in result.kinds)
        assert (await made.client.info(exec_id)).state == "exited"
        await asyncio.to_thread(fifo.write_text, "x\n")
        result = await made.final(exec_id)
        assert result.kinds == [Kind.STDOUT, Kind.EXIT, Kind.STDOUT, Kind.CLOSED]
        assert result.stdout == b"early\nlate\n"
        assert result.exit.totals.stdout == len("early\n")


async def test_a_background_child_can_be_killed_after_the_end() -> None:
    async with rig() as made:
        exec_id = await made.start("sh", "-c", "sleep 1000 & echo early")
        await made.until(exec_id, lambda result: Kind.EXIT in result.kinds)
        assert await made.client.signal(exec_id, signal.SIGKILL) == 1
        assert (await made.final(exec_id)).kinds[-1] == Kind.CLOSED


async def test_only_a_final_record_can_be_forgotten_and_more_than_once() -> None:
    async with rig() as made:
        running = await made.start("sleep", "1000")
        with pytest.raises(Conflict):
            await made.client.forget(running)
        with pytest.raises(Conflict, match="1 commands"):
            await made.client.shutdown()
        done = await made.start("true")
        await made.final(done)
        await made.client.forget(done)
        await made.client.forget(done)
        assert not made.client.spool_dir(done).exists()
        with pytest.raises(Invalid):
            await made.client.info(done)


async def test_200_commands_leave_no_descriptor_zombie_or_directory() -> None:
    async with rig() as made:
        await made.final(await made.start("true", exec_id="warm-up"))
        keeper, init = await made.keeper(), made.init.pid
        before = keeper.num_fds(), len(os.listdir(f"/proc/{init}/fd"))

        async def one(number: int) -> None:
            exec_id = await made.start("sh", "-c", "echo hi; (sleep 0 &)", exec_id=f"n{number}", stdin=True)
            await made.final(exec_id)
            await made.client.forget(exec_id)

        for start in range(0, 200, 20):
            await asyncio.gather(*(one(start + number) for number in range(20)))
        await eventually(lambda: keeper.num_fds() <= before[0])
        await eventually(lambda: len(os.listdir(f"/proc/{init}/fd")) <= before[1])
        children = Path(f"/proc/{init}/task/{init}/children")
        await eventually(lambda: children.read_text() == "")
        assert [info.exec for info in await made.client.list()] == ["warm-up"]
        assert [path.name for path in made.client.spool_dir("x").parent.iterdir()] == ["warm-up"]

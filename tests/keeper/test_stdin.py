import hashlib
from pathlib import Path

import psutil

from infra.keeper.frame import Kind
from tests.keeper.rig import rig


async def test_stdin_arrives_is_on_the_record_and_half_closes() -> None:
    async with rig() as made:
        exec_id = await made.start("sh", "-c", "cat; echo end", stdin=True)
        assert (await made.client.write(exec_id, b"one\n")).offset == 4
        written = await made.client.write(exec_id, b"two\n", eof=True)
        assert (written.accepted, written.offset) == (True, 8)
        result = await made.final(exec_id)
        assert result.stdout == b"one\ntwo\nend\n"
        assert result.stream(Kind.STDIN) == b"one\ntwo\n"
        assert Kind.STDIN_EOF in result.kinds
        assert result.exit.totals.stdin == 8


async def test_a_repeated_or_overlapping_write_counts_once_and_a_gap_is_refused() -> None:
    async with rig() as made:
        exec_id = await made.start("cat", stdin=True)
        write = made.client.write
        assert (await write(exec_id, b"abc", offset=0)).offset == 3
        assert (await write(exec_id, b"abc", offset=0)).accepted
        assert (await write(exec_id, b"bcdef", offset=1)).offset == 6
        gap = await write(exec_id, b"zzz", offset=7)
        assert (gap.accepted, gap.reason, gap.offset) == (False, "gap", 6)
        assert (await write(exec_id, b"ghi", write_id="one")).offset == 9
        assert (await write(exec_id, b"ghi", write_id="one")).offset == 9
        assert (await write(exec_id, b"", offset=9, eof=True)).accepted
        assert (await write(exec_id, b"", offset=9, eof=True)).accepted
        assert (await write(exec_id, b"more", offset=9)).reason in ("closed", "ended")
        assert (await made.final(exec_id)).stdout == b"abcdefghi"
        assert (await write(exec_id, b"ghi", offset=6, eof=True)).accepted
        assert (await write(exec_id, b"more", offset=9)).reason == "ended"


async def test_input_that_a_command_does_not_read_yet_waits_on_disk_and_arrives_whole(tmp_path: Path) -> None:
    block = bytes(range(256)) * 4096
    blocks = 48
    expected = hashlib.sha256(block * blocks).hexdigest().encode()
    async with rig() as made:
        keeper = psutil.Process((await made.client.hello()).pid)
        waiting = "while [ ! -e go ]; do sleep 0.02; done; sha256sum"
        exec_id = await made.start("sh", "-c", waiting, cwd=str(tmp_path), stdin=True)
        before = keeper.memory_info().rss
        for number in range(blocks):
            assert (await made.client.write(exec_id, block, offset=number * len(block))).accepted
        assert keeper.memory_info().rss - before < 20_000_000
        await made.client.confirm(exec_id, (await made.client.info(exec_id)).size)
        await made.client.write(exec_id, b"", offset=blocks * len(block), eof=True)
        (tmp_path / "go").touch()
        result = await made.final(exec_id)
        assert result.stdout.split()[0] == expected


async def test_input_for_a_command_that_closed_stdin_is_recorded_and_dropped() -> None:
    async with rig() as made:
        exec_id = await made.start("sh", "-c", "exec <&-; echo closed; sleep 1000", stdin=True)
        await made.until(exec_id, lambda result: result.stdout == b"closed\n")
        for number in range(3):
            assert (await made.client.write(exec_id, b"x" * 100_000)).offset == 100_000 * (number + 1)
        await made.client.signal(exec_id, 9)
        assert (await made.final(exec_id)).exit.totals.stdin == 300_000
        assert (await made.client.write(exec_id, b"late")).reason == "ended"


async def test_without_stdin_a_command_reads_nothing() -> None:
    async with rig() as made:
        exec_id = await made.start("sh", "-c", "cat; read x < /dev/stdin || echo none")
        assert (await made.final(exec_id)).stdout == b"none\n"
        waiting = await made.start("sleep", "1000")
        assert (await made.client.write(waiting, b"x")).reason == "no_stdin"

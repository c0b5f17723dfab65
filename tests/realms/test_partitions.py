"""Sandboxes over four logs, and nobody who names one has to know."""

import json
import os
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from contracts.errors import Invalid
from contracts.partitions import partition_of
from contracts.queries import ListSandboxes
from infra.bus import reader
from infra.client import Cloche
from infra.client.everything import Told
from infra.keeper.client import KeeperClient
from tests.cli.shell import Shell
from tests.realms.divided import COUNT, divided_in, kill_server, named, settings_of

WAITING = "echo before; while [ ! -e go ]; do sleep 0.05; done; seq 1 2000; echo after"
EXPECTED = b"before\n" + b"".join(b"%d\n" % number for number in range(1, 2001)) + b"after\n"


@pytest.fixture(scope="module")
def cloche(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with divided_in(tmp_path_factory.mktemp("divided") / "data") as shell:
        yield shell


async def test_sandboxes_are_spread_and_listed_as_one(cloche: Shell) -> None:
    names = sorted(named(number, mark) for number in range(COUNT) for mark in ("left", "right"))
    async with Cloche.connect(settings_of(cloche)) as client:
        for name in names:
            sandbox = await client.create({"labels": {"test": "spread"}}, id=name)
            assert (await sandbox.run(f"echo {name}")).stdout == name.encode() + b"\n"
        query = ListSandboxes(label={"test": "spread"}, limit=3)
        assert [state.sandbox for state in (await client.sandboxes(query)).sandboxes] == names[:3]
        assert await _paged(client, query) == names
        for number, part in client.parts.items():
            own = await part.sandboxes(ListSandboxes(label={"test": "spread"}))
            assert [state.sandbox for state in own.sandboxes] == [
                name for name in names if partition_of(name, COUNT) == number
            ]
    told = [json.loads(line) for line in cloche("ps", "--json").out.splitlines()]
    assert set(names) <= {each["sandbox"] for each in told}


async def _paged(client: Cloche, query: ListSandboxes) -> list[str]:
    found: list[str] = []
    more = True
    while more:
        after = found[-1] if found else None
        page = await client.sandboxes(ListSandboxes(label=query.label, limit=query.limit, after=after))
        found += [state.sandbox for state in page.sandboxes]
        more = page.more
    return found


async def test_each_partition_has_a_keeper_and_users_of_its_own(cloche: Shell) -> None:
    users: list[int] = []
    for number in range(COUNT):
        async with Cloche.connect(settings_of(cloche)) as client:
            sandbox = await client.create(id=named(number, "user"))
            await sandbox.run("true")
        folder = cloche.data / f"p{number}"
        users.append((folder / "sandboxes" / sandbox.id / "workspace").stat().st_uid)
    if os.geteuid() == 0:
        assert len(set(users)) == COUNT
    pids = set()
    for number in range(COUNT):
        async with await KeeperClient.connect(cloche.data / f"p{number}") as keeper:
            pids.add((await keeper.hello()).pid)
    assert len(pids) == COUNT
    rows = [json.loads(line) for line in cloche("nodes", "--json").out.splitlines()]
    assert [(row["partition"], row["node"]) for row in rows] == [(number, "local") for number in range(COUNT)]


async def test_a_sandbox_tells_its_whole_story(cloche: Shell, tmp_path: Path) -> None:
    name = named(2, "story")
    async with Cloche.connect(settings_of(cloche)) as client:
        sandbox = await client.create(id=name)
        await sandbox.files.write("notes.txt", b"first")
        await sandbox.flush()
        before = (await reader.bounds(client.bus_of(name))).last
        assert (await sandbox.run("cat notes.txt; echo second > notes.txt")).stdout == b"first"
        await sandbox.flush()
        sequences = [event.sequence async for event in sandbox.events()]
        assert sequences == sorted(set(sequences))
        assert (await sandbox.at(before)).state.commands == 0
        assert (await sandbox.at()).state.commands == 1
        assert await sandbox.history.read("notes.txt", before) == b"first"
        fork = await client.fork(name, at=before)
        assert (await fork.run("cat notes.txt")).stdout == b"first"
        assert partition_of(fork.id, COUNT) == 2
        with pytest.raises(Invalid, match="another partition"):
            await client.fork(name, at=before, id=named(1, "elsewhere"))
    out = tmp_path / "story.jsonl"
    assert cloche("export", name, "-o", str(out)).code == 0
    for wanted in (name, str(out)):
        said = cloche("verify", wanted, "--json")
        assert (said.code, json.loads(said.out)["findings"]) == (0, []), said
    for command in ("events", "show", "logs", "why", "state", "diff"):
        assert b"Traceback" not in cloche(command, name).err


async def test_every_partition_verifies_after_nats_was_killed_in_the_middle(cloche: Shell) -> None:
    async with Cloche.connect(settings_of(cloche)) as client:
        names = [named(number, "killed") for number in range(COUNT)]
        sandboxes = [await client.create(id=name) for name in names]
        running = [await sandbox.start(WAITING) for sandbox in sandboxes]
        for each in running:
            assert (await anext(each.output())).data == b"before\n"
        await kill_server(cloche.data)
        for sandbox in sandboxes:
            await sandbox.run("touch go")
        for sandbox, each in zip(sandboxes, running, strict=True):
            output = [chunk.data async for chunk in sandbox.execution(each.id).output()]
            assert b"".join(output) == EXPECTED
    said = cloche("verify", "--json")
    verdicts = [json.loads(line) for line in said.out.splitlines()]
    assert [verdict["partition"] for verdict in verdicts] == list(range(COUNT))
    assert [verdict["findings"] for verdict in verdicts] == [[]] * COUNT
    assert said.code == 0


async def test_everything_comes_by_time_and_each_sandbox_in_its_own_order(cloche: Shell) -> None:
    async with Cloche.connect(settings_of(cloche)) as client:
        names = {named(number, "order") for number in range(COUNT)}
        cursors = {number: (await reader.bounds(part.bus)).last + 1 for number, part in client.parts.items()}
        for name in names:
            await (await client.create(id=name)).run("echo told")
        told = [each async for each in client.everything(cursors, types=["sandbox", "command"])]
        assert {each.event.head.sandboxid for each in told} == names
        assert {each.partition for each in told} == set(range(COUNT))
        for name in names:
            own = [each.event.sequence for each in told if each.event.head.sandboxid == name]
            assert own == sorted(own)
        half = told[: len(told) // 2]
        cursors |= {each.partition: each.event.sequence + 1 for each in half}
        rest = [each async for each in client.everything(cursors, types=["sandbox", "command"])]
        assert _places(half + rest) == _places(told)
        async with aclosing(client.everything(cursors, types=["command.completed"], follow=True)) as followed:
            again = await (await client.sandbox(named(0, "order"))).run("true")
            async for each in followed:
                if each.event.sequence == again.sequence:
                    assert each.partition == 0
                    break


def _places(told: list[Told]) -> list[tuple[int, int]]:
    return sorted((each.partition, each.event.sequence) for each in told)


def test_another_number_of_partitions_is_refused_and_says_so(cloche: Shell, tmp_path: Path) -> None:
    for count in ("2", "8"):
        said = Shell(cloche.data, CLOCHE_PARTITIONS=count)("ps")
        assert said.code == 2
        assert f"made with 4 partitions, and `partitions` is {count}".encode() in said.err
    undivided = Shell(cloche.data)("ps")
    assert undivided.code == 2
    assert b"divided into partitions" in undivided.err


def test_one_partition_can_be_looked_at_by_itself(cloche: Shell, tmp_path: Path) -> None:
    whole = cloche("export", "--all", "-o", str(tmp_path / "log.jsonl"))
    assert whole.code == 2
    assert b"CLOCHE_PARTITION=0 to 3" in whole.err
    alone = Shell(cloche.data, CLOCHE_PARTITIONS="4", CLOCHE_PARTITION="1")
    assert alone("export", "--all", "-o", str(tmp_path / "log.jsonl")).code == 0
    assert alone("verify", str(tmp_path / "log.jsonl")).code == 0
    said = alone("events", named(3, "user"))
    assert (said.code, b"is in partition 3" in said.err) == (2, True)

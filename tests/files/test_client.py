"""The client's `files` on a real node: every verb, its two events, and what it leaves on disk."""

import asyncio
import hashlib
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from contracts import codec
from contracts.errors import (
    Invalid,
    SandboxEditManyMatches,
    SandboxEditNoMatch,
    SandboxFileNotFound,
    SandboxFileTooLarge,
    SandboxInvalidState,
    SandboxNotFound,
    SandboxPathDenied,
)
from contracts.events.tool import ToolInvoked, ToolReturned
from infra.client import Cloche, Sandbox
from infra.client.files import Files
from tests.services.node import Node, eventually, node_in

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Node, Cloche]]:
    async with node_in(tmp_path_factory.mktemp("node")) as (node, cloche):
        yield node, cloche


async def calls(sandbox: Sandbox) -> list[tuple[ToolInvoked, ToolReturned]]:
    """Each call with its end; one of them alone is a failure."""
    begun: dict[str, ToolInvoked] = {}
    pairs: list[tuple[ToolInvoked, ToolReturned]] = []
    async for event in sandbox.events(types=["tool"]):
        fact = codec.decode_fact(event.head)
        if isinstance(fact, ToolInvoked):
            begun[fact.call] = fact
        elif isinstance(fact, ToolReturned):
            pairs.append((begun.pop(fact.call), fact))
    assert not begun
    return pairs


def pattern(size: int) -> bytes:
    return (b"".join(i.to_bytes(4, "big") for i in range(65536)) * (size // 262144 + 1))[:size]


def tree_of(top: Path) -> dict[str, tuple[int, str]]:
    found = {}
    for path in sorted(top.rglob("*")):
        info = path.lstat()
        content = (
            os.readlink(path)
            if path.is_symlink()
            else hashlib.sha256(path.read_bytes()).hexdigest()
            if path.is_file()
            else ""
        )
        found[str(path.relative_to(top))] = (0 if path.is_symlink() else info.st_mode, content)
    return found


async def test_a_file_is_written_read_edited_moved_and_removed(running: tuple[Node, Cloche]) -> None:
    _, cloche = running
    sandbox = await cloche.create()
    files = sandbox.files
    written = await files.write("src/a.py", "one\ntwo\nthree\n")
    assert (written.path, written.bytes, written.created) == ("/workspace/src/a.py", 14, True)
    seen = await sandbox.run("cat src/a.py; stat -c %a src/a.py src; stat -c %u src/a.py src")
    owner = (await sandbox.run("id -u")).stdout.strip()
    assert seen.stdout.split() == [b"one", b"two", b"three", b"644", b"755", owner, owner]
    page = await files.read("/workspace/src/a.py", offset=2, limit=1)
    assert (page.content, page.total_lines, page.lines, page.truncated, page.truncated_by, page.next_offset) == (
        "two\n",
        3,
        1,
        True,
        "lines",
        3,
    )
    edited = await files.edit("~/src/a.py", "two", "2")
    assert (edited.replacements, edited.first_line) == (1, 2)
    assert (await files.write("src/a.py", "four\n", append=True)).size == 17
    assert await files.read_bytes("src/a.py") == b"one\n2\nthree\nfour\n"
    assert [entry.path async for entry in files.list(recursive=True)] == ["/workspace/src", "/workspace/src/a.py"]
    assert [entry.path async for entry in files.glob("**/*.py")] == ["/workspace/src/a.py"]
    found = await files.grep("^t.*e$")
    assert [(match.path, match.line, match.text) for match in found.matches] == [("/workspace/src/a.py", 3, "three")]
    assert (await files.move("src/a.py", "lib/b.py")).path == "/workspace/lib/b.py"
    assert (await files.stat("lib/b.py")).size == 17
    assert (await files.mkdir("made/deep")).created
    assert (await files.remove("lib", recursive=True)).entries == 2
    with pytest.raises(SandboxFileNotFound):
        await files.read("lib/b.py")
    pairs = await calls(sandbox)
    assert [invoked.tool for invoked, _ in pairs] == [
        "write", "read", "edit", "write", "read", "list", "glob", "grep", "move", "stat", "mkdir", "remove", "read",
    ]  # fmt: skip
    assert pairs[0][0].arguments["path"] == "src/a.py"
    assert "content" not in pairs[0][0].arguments
    assert pairs[0][1].summary["bytes"] == 14
    assert pairs[-1][1].failure is not None
    assert pairs[-1][1].failure.code == "SANDBOX_FILE_NOT_FOUND"
    await sandbox.remove()


async def test_a_name_that_is_not_text_is_a_name_for_every_verb(running: tuple[Node, Cloche], tmp_path: Path) -> None:
    _, cloche = running
    sandbox = await cloche.create()
    files = sandbox.files
    odd, escaped = b"d\xff/n\xfe", os.fsdecode(b"d\xff/n\xfe")
    assert (await files.write(odd, "one\n")).path == "/workspace/d\\xff/n\\xfe"
    assert (await files.write(escaped, "two\n", append=True)).size == 8
    assert (await files.edit(odd, "two", "2")).replacements == 1
    assert (await files.read(escaped)).content == await sandbox_text(sandbox, "cat $(printf 'd\\377/n\\376')")
    assert await files.read_bytes(b"/workspace/" + odd) == b"one\n2\n"
    assert [entry.raw_path async for entry in files.list(b"d\xff")] == [b"/workspace/" + odd]
    assert [entry.raw_path async for entry in files.glob("**/n?")] == [b"/workspace/" + odd]
    assert [entry.raw_path async for entry in files.glob("*", b"d\xff")] == [b"/workspace/" + odd]
    assert [match.line for match in (await files.grep("^2$", odd)).matches] == [2]
    assert (await files.grep("one", files="n*")).files_matched == 1
    assert (await files.stat(odd)).raw_path == b"/workspace/" + odd
    assert (await files.mkdir(b"\xfd/m")).created
    await files.move(odd, b"\xfd/m/\xfc")
    await files.get(b"\xfd", tmp_path / "got")
    await files.get(b"\xfd/m/\xfc", tmp_path / "one")
    await files.put(tmp_path / "got", b"\xfb")
    assert (tmp_path / "one").read_bytes() == await files.read_bytes(b"\xfb/m/\xfc") == b"one\n2\n"
    assert (await files.remove(b"\xfb", recursive=True)).entries == 3
    for bad in ("\ud800", b"a\0b", b""):
        with pytest.raises(Invalid):
            await files.read(bad)
    with pytest.raises(Invalid):
        _ = [entry async for entry in files.glob("\udcff")]
    await sandbox.remove()


async def sandbox_text(sandbox: Sandbox, script: str) -> str:
    return (await sandbox.run(script)).stdout.decode()


async def test_what_was_written_while_a_file_is_edited_is_not_lost(running: tuple[Node, Cloche]) -> None:
    """An edit of a large file takes long enough for a write to come between its look and its change."""
    _, cloche = running
    sandbox = await cloche.create()
    files = sandbox.files
    for number in range(3):
        await sandbox.run("head -c 15000000 /dev/zero | tr '\\0' x > large; echo old >> large")
        edited, _ = await asyncio.gather(
            files.edit("large", "old", "new"), files.write("large", f"written {number}"), return_exceptions=True
        )
        assert not isinstance(edited, BaseException) or isinstance(edited, SandboxEditNoMatch), edited
        assert await files.read_bytes("large") == b"written %d" % number
    await sandbox.remove()


async def test_refusals_have_their_codes_over_the_wire(running: tuple[Node, Cloche]) -> None:
    _, cloche = running
    sandbox = await cloche.create()
    files = sandbox.files
    await files.write("a", "x x")
    await sandbox.run("ln -s /etc/passwd link; mkfifo pipe")
    with pytest.raises(SandboxEditNoMatch):
        await files.edit("a", "y", "z")
    with pytest.raises(SandboxEditManyMatches) as many:
        await files.edit("a", "x", "z")
    assert many.value.details["matches"] == "2"
    for path in ("link", "pipe", "../../x", "/etc/passwd"):
        with pytest.raises(SandboxPathDenied) as denied:
            await files.read(path)
        assert str(running[0].data) not in denied.value.message
    for bad in ("a\0b", "", "x" * 5000):
        with pytest.raises(Invalid):
            await files.read(bad)
    with pytest.raises(SandboxNotFound):
        await Files(cloche.bus, node="local", sandbox="no-such").read("a")
    await sandbox.remove()
    with pytest.raises(SandboxInvalidState):
        await files.read("a")


async def test_what_fits_into_one_request_is_written_whatever_it_is(running: tuple[Node, Cloche]) -> None:
    """Control characters are six times as long in JSON."""
    _, cloche = running
    sandbox = await cloche.create()
    for content in (b"\n" * 900_000, b"\x01" * 600_000, b"\xff" * 600_000):
        assert (await sandbox.files.write("a", content)).size == len(content)
    for too_much in (b"x" * 900_001, b"\x01" * 700_000, "\U0001f600" * 800_000):
        with pytest.raises(SandboxFileTooLarge, match="use `put`"):
            await sandbox.files.write("a", too_much)
    with pytest.raises(SandboxFileTooLarge):
        await sandbox.files.edit("a", "\xff" * 600_000, "\x01" * 600_000)
    with pytest.raises(Invalid):
        await sandbox.files.write("a", "\ud800")
    await sandbox.remove()


async def test_a_stopped_sandbox_still_has_files(running: tuple[Node, Cloche]) -> None:
    _, cloche = running
    sandbox = await cloche.create()
    await sandbox.stop(grace_ms=0)
    await sandbox.files.write("a", "kept")
    await sandbox.boot()
    assert (await sandbox.run("cat a")).stdout == b"kept"
    await sandbox.remove()


async def test_permissions_hold_over_the_wire(running: tuple[Node, Cloche]) -> None:
    _, cloche = running
    sandbox = await cloche.create({"permissions": {"read": ["src", "docs"], "write": ["src"]}})
    await sandbox.run("mkdir src docs other; echo d > docs/d; echo o > other/o; ln -s ../other src/link")
    files = sandbox.files
    assert (await files.read("docs/d")).content == "d\n"
    await files.write("src/new/a", "a")
    for denied in (
        files.read("other/o"),
        files.read("src/link/o"),
        files.write("docs/d", "x"),
        files.write("src/link/o", "x"),
        files.remove("docs/d"),
        files.move("src/new/a", "docs/a"),
        files.move("docs/d", "src/d"),
        files.mkdir("other/x"),
    ):
        with pytest.raises(SandboxPathDenied):
            await denied
    left = await sandbox.run("cat docs/d other/o; ls other docs")
    assert left.stdout.split() == b"d o docs: d other: o".split()
    await sandbox.remove()


async def test_a_tree_goes_in_and_comes_out_as_it_was(running: tuple[Node, Cloche], tmp_path: Path) -> None:
    _, cloche = running
    sandbox = await cloche.create()
    top = tmp_path / "tree"
    (top / "empty").mkdir(parents=True)
    (top / "deep/er").mkdir(parents=True)
    (top / "large").write_bytes(pattern(3_000_000))
    (top / "run.sh").write_bytes(b"#!/bin/sh\necho ran\n")
    (top / "run.sh").chmod(0o755)
    (top / "nothing").touch()
    for number in range(1200):
        (top / "deep/er" / f"{number:04}").write_text(str(number))
    (top / "deep/link").symlink_to("../run.sh")
    (top / "deep/out").symlink_to("/etc/passwd")
    os.mkdir(os.fsencode(top) + b"/not-\xff-utf8")
    Path(os.fsdecode(os.fsencode(top) + b"/not-\xff-utf8/\xfe")).write_bytes(b"raw")
    (top / "deep/er").chmod(0o555)
    done = await sandbox.files.put(top, "in/tree")
    assert done.files == 1200 + 3 + 1
    assert (await sandbox.run("sh in/tree/deep/link && ls in/tree | wc -l")).stdout.split() == [b"ran", b"6"]
    back = await sandbox.files.get("in/tree", tmp_path / "back")
    assert (back.files, back.bytes) == (done.files, done.bytes)
    assert tree_of(tmp_path / "back") == tree_of(top)
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".cloche")]
    assert [invoked.tool for invoked, _ in await calls(sandbox)] == ["upload", "download"]
    (top / "deep/er").chmod(0o755)
    (tmp_path / "back/deep/er").chmod(0o755)
    await sandbox.remove()


DEEP = """
import os
for _ in range(30):
    os.mkdir("d" * 200)
    os.chdir("d" * 200)
for number in range(300):
    open(f"{number:03}", "w").write("bottom")
"""


async def test_a_tree_deeper_than_a_path_comes_out(running: tuple[Node, Cloche], tmp_path: Path) -> None:
    """All the files of one page would not fit into one request."""
    _, cloche = running
    sandbox = await cloche.create()
    assert (await sandbox.run(["python3", "-c", DEEP])).exit_code == 0
    assert (await sandbox.files.get(".", tmp_path / "deep")).files == 300
    found = [entry async for entry in sandbox.files.list(recursive=True)]
    assert len(found[-1].path) > 6000
    assert (await sandbox.files.read(found[-1].path)).content == "bottom"
    assert (await sandbox.files.remove("d" * 200, recursive=True)).entries == 330
    subprocess.run(["rm", "-r", tmp_path / "deep"], check=True)
    await sandbox.remove()


async def test_an_upload_outlives_the_service(running: tuple[Node, Cloche], tmp_path: Path) -> None:
    node, cloche = running
    sandbox = await cloche.create()
    (tmp_path / "large").write_bytes(pattern(40_000_000))
    copying = asyncio.create_task(sandbox.files.put(tmp_path / "large", "large"))
    transfers = node.data / "transfers"
    await eventually(lambda: any(transfers.glob("*/part-*")))
    await node.restart("executor")
    assert (await copying).bytes == 40_000_000
    expected = hashlib.sha256((tmp_path / "large").read_bytes()).hexdigest()
    assert (await sandbox.run("sha256sum large")).stdout.split()[0].decode() == expected
    assert not [each for each in transfers.iterdir() if each.is_dir()]
    assert len(await calls(sandbox)) == 1
    await sandbox.remove()


async def test_many_edits_at_once_lose_nothing(running: tuple[Node, Cloche]) -> None:
    _, cloche = running
    sandbox = await cloche.create()
    await sandbox.files.write("counts", "".join(f"<{number}>\n" for number in range(40)))
    await asyncio.gather(*(sandbox.files.edit("counts", f"<{number}>", f"[{number}]") for number in range(40)))
    content = await sandbox.files.read_bytes("counts")
    assert content == b"".join(b"[%d]\n" % number for number in range(40))
    await sandbox.remove()

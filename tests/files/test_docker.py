"""The same files, whatever the sandbox is made of."""

from pathlib import Path

import pytest

from contracts.errors import SandboxPathDenied
from tests.images import busybox, require_docker
from tests.services.node import node_in


async def test_a_container_and_the_tools_see_the_same_files(tmp_path: Path) -> None:
    require_docker()
    (tmp_path / "up").write_bytes(b"#!/bin/sh\necho ran\n")
    (tmp_path / "up").chmod(0o755)
    async with node_in(tmp_path / "node") as (_, cloche):
        sandbox = await cloche.create({"isolation": "docker", "docker": {"image": busybox()}})
        files = sandbox.files
        await files.write("a/b", "from outside\n")
        await files.put(tmp_path / "up", "up")
        result = await sandbox.run("cat a/b && ./up && echo inside > a/c && rm a/b && ln -s /etc/passwd link")
        assert result.stdout == b"from outside\nran\n"
        assert (await files.read("/workspace/a/c")).content == "inside\n"
        await files.edit("a/c", "inside", "edited")
        assert (await sandbox.run("cat a/c; echo more >> a/c")).stdout == b"edited\n"
        assert [entry.path async for entry in files.list("a")] == ["/workspace/a/c"]
        with pytest.raises(SandboxPathDenied):
            await files.read("link")
        await files.get("a", tmp_path / "a")
        assert (tmp_path / "a/c").read_text() == "edited\nmore\n"
        await sandbox.remove()

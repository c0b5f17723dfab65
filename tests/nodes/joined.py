"""A node that joined servers which are run elsewhere, with local sandboxes: it can be killed whole, or in part."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

from contracts.errors import Unavailable
from infra.embedded import secrets
from infra.keeper.client import KeeperClient
from infra.sandbox.providers import load_provider
from services.cli.bench.node_process import NodeProcess, Running
from tests.bus.servers import Server
from tests.cli.command_line import CommandLine
from tests.services.node import DEFAULTS


def values_of(server: Server) -> dict[str, str]:
    return {"CLOCHE_URL": server.url, "CLOCHE_CREDS": str(secrets.directory(server.data))}


class JoinedNode(NodeProcess):
    def __init__(
        self,
        name: str,
        data: Path,
        values: Mapping[str, str],
        config: str = "",
        begin: Callable[[], object] | None = None,
    ) -> None:
        """`begin` is called in its process, before anything else."""
        super().__init__(data, {**DEFAULTS, **values, "CLOCHE_NODE": name}, config)
        self.name = name
        self._first = begin

    def cloche(self, *arguments: str) -> str:
        """What the command line says with the node's own settings."""
        with CommandLine(arguments, self.environment) as line:
            out, err = line.communicate()
            assert line.returncode == 0, err
            return out.decode()

    async def ended(self) -> int:
        """Its exit code, once it has ended by itself."""
        assert self._process is not None
        return await asyncio.to_thread(self._process.wait)

    async def die(self) -> None:
        """As a machine does: every service, the keeper, and every sandbox; what is on its disk stays."""
        await self.end()
        with contextlib.suppress(Unavailable):
            async with await KeeperClient.connect(self.data) as keeper:
                os.kill((await keeper.hello()).pid, signal.SIGKILL)
        async with load_provider("local", self.data) as provider:
            for sandbox in await provider.sandboxes():
                seen = await provider.inspect(sandbox)
                if seen is not None and seen.pid is not None:
                    os.kill(seen.pid, signal.SIGKILL)

    async def holds_nothing(self) -> bool:
        """Whether the keeper has let go of every command."""
        try:
            async with await KeeperClient.connect(self.data) as keeper:
                return not await keeper.list()
        except Unavailable:
            return True

    def _spawn(self, said: BinaryIO) -> Running:
        """Without the wait for its imports."""
        out = said.fileno()
        return CommandLine(["node"], self.environment, stdout=out, stderr=out, begin=self._first)

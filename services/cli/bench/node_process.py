"""`cloche node` as a process of its own: started, ended, started again, and cleared away with all that it leaves."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, Protocol, Self

from contracts.errors import Unavailable
from infra.configuration import CONFIG_FILE, load
from infra.keeper.launcher import end_keeper
from infra.sandbox.providers import load_providers

READY_S = 240.0
READY = "Ctrl-C"
LOOK_S = 0.02


class Running(Protocol):
    """As much of `subprocess.Popen` as a node needs."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self) -> int: ...


class NodeProcess:
    """All services of a node, without those of its servers. Its keeper and its sandboxes outlive it until `aclose`."""

    def __init__(self, data: Path, environment: Mapping[str, str], config: str = "") -> None:
        """`environment` says whose node it is, and where its servers are; `config` is the file in `data`."""
        self.data = data
        self.environment = {**os.environ, **environment, "CLOCHE_DATA": str(data)}
        self._said = data / "said"
        self._process: Running | None = None
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        (data / CONFIG_FILE).write_text(config)
        self.settings = load(self.environment)

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def start(self) -> None:
        """Back when it takes orders. Raises `Unavailable` with what it said if it ends, or does not come to it."""
        already = self.words().count(READY)
        self._process = running = await asyncio.to_thread(self._begin)
        for _ in range(int(READY_S / LOOK_S)):
            if self.words().count(READY) > already:
                return
            if running.poll() is not None:
                break
            await asyncio.sleep(LOOK_S)
        raise Unavailable(f"the node does not start ({running.poll()}): {self.words()[-5000:]}")

    async def end(self, number: int = signal.SIGKILL) -> int | None:
        """Every service at once. Its exit code, when they have ended; None if it was never started."""
        if self._process is None:
            return None
        if self._process.poll() is None:
            os.kill(self._process.pid, number)
        return await asyncio.to_thread(self._process.wait)

    async def aclose(self) -> None:
        await self.end()
        async with load_providers(self.data) as providers:
            for provider in providers.values():
                for sandbox in await provider.sandboxes():
                    await provider.remove(sandbox)
                await provider.discard_blanks()
        await end_keeper(self.data, force=True)

    def words(self) -> str:
        """All that it has said."""
        return self._said.read_text(errors="replace") if self._said.exists() else ""

    def _begin(self) -> Running:
        with self._said.open("ab") as said:
            return self._spawn(said)

    def _spawn(self, said: BinaryIO) -> Running:
        command = [sys.executable, "-m", "services.cli", "node"]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=self.environment)

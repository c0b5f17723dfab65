"""An engine of the test's own, which may be killed."""

import asyncio
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from contracts.errors import ClocheError
from infra.docker.engine import Engine
from tests.docker.containers import until
from tests.images import require_docker


class OwnEngine:
    """A `dockerd` without a network of its own. Where it runs is short: sockets have short names."""

    def __init__(self) -> None:
        require_docker()
        self._place = TemporaryDirectory(prefix="cd-", ignore_cleanup_errors=True)
        self.root = Path(self._place.name)
        self.address = f"unix://{self.root}/docker.sock"
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        with (self.root / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    "dockerd",
                    *("--host", self.address, "--pidfile", str(self.root / "pid")),
                    *("--data-root", str(self.root / "data"), "--exec-root", str(self.root / "exec")),
                    *("--bridge", "none", "--iptables=false", "--ip6tables=false", "--storage-driver", "overlay2"),
                ],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        async with Engine(self.address) as engine:
            await until(lambda: self._answers(engine), "the engine answers")

    async def _answers(self, engine: Engine) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.root / "log").read_text()[-2000:]
        try:
            await engine.ping()
        except ClocheError:
            return False
        return True

    async def kill(self) -> None:
        """SIGKILL, to the engine and with it its containerd; the containers go on."""
        await self._end(signal.SIGKILL)
        # Where nobody reaps it, a dead containerd looks alive to the next engine.
        (self.root / "exec/containerd/containerd.pid").unlink(missing_ok=True)

    async def end(self) -> None:
        """SIGTERM: it ends its containers and then itself."""
        await self._end(signal.SIGTERM)

    async def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        await asyncio.to_thread(process.wait)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end(signal.SIGTERM)
        await asyncio.to_thread(self._clean)

    def _clean(self) -> None:
        """What a killed engine left running or mounted goes first."""
        for shim in self._shims():
            with suppress(ProcessLookupError):
                os.kill(shim, signal.SIGKILL)
        mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for path in sorted((each for each in mounted if each.startswith(f"{self.root}/")), reverse=True):
            subprocess.run(["umount", "-l", path], check=False, capture_output=True)
        self._place.cleanup()

    def _shims(self) -> list[int]:
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if os.fsencode(f"{self.root}/exec/containerd") in (process / "cmdline").read_bytes():
                    found.append(int(process.name))
        return found

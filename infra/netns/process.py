"""The first process of a sandbox, and its network namespace, held by descriptors and not by number."""

import asyncio
import os
from pathlib import Path
from typing import NamedTuple

from infra.target import DockerTarget, Target


class HeldProcess(NamedTuple):
    process: int
    """A pidfd."""
    namespace: int | None
    """Of its network; None where we may not look into it."""

    async def ended(self) -> None:
        """Returns once it is gone."""
        loop = asyncio.get_running_loop()
        gone = asyncio.Event()
        loop.add_reader(self.process, gone.set)
        try:
            await gone.wait()
        finally:
            loop.remove_reader(self.process)

    def close(self) -> None:
        os.close(self.process)
        if self.namespace is not None:
            os.close(self.namespace)


def hold(pid: int, target: Target) -> HeldProcess | None:
    """None where it is not to be seen from here. Whose number it is, the caller has to ask before and after."""
    try:
        process = os.pidfd_open(pid)
    except OSError:
        return None
    # An engine that lives in another PID namespace counts differently: the number may be anybody's.
    if isinstance(target, DockerTarget) and not _is_of(target.container, pid):
        os.close(process)
        return None
    try:
        namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return HeldProcess(process, None)
    return HeldProcess(process, namespace)


def _is_of(container: str, pid: int) -> bool:
    try:
        return container.encode() in Path(f"/proc/{pid}/cgroup").read_bytes()
    except OSError:
        return False

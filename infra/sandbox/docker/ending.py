"""Ending a container: first it is asked, then killed."""

from contracts.errors import SandboxStopFailed
from infra.docker.containers import Containers
from infra.sandbox.base import SandboxState
from infra.sandbox.docker.observing import Observation
from infra.sandbox.docker.pausing import resume_container

KILL_S = 30.0
"""How long the kernel may take to end what was killed."""


async def end_container(containers: Containers, seen: Observation, grace_s: float) -> None:
    """Returns when it does not run. Raises `SandboxStopFailed`, `Refused`, `Unavailable`."""
    container = seen.record.container
    if seen.inspection.state is SandboxState.PAUSED:
        await resume_container(containers, container)
    if grace_s > 0:
        await containers.kill(container, "SIGTERM")
        if await containers.ended(container, grace_s):
            return
    await containers.kill(container, "SIGKILL")
    if not await containers.ended(container, KILL_S):
        raise SandboxStopFailed(f"something in container {container[:12]} survives SIGKILL")

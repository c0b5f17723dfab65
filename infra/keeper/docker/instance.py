"""Whether a container is still the one that was meant."""

from contracts.errors import ClocheError, Conflict, SandboxInvalidState, SandboxNotFound
from infra.docker.execs import Execs
from infra.keeper.launch import LaunchFailed, SandboxGone
from infra.target import DockerTarget


async def check_instance(execs: Execs, target: DockerTarget) -> None:
    """Raises `LaunchFailed` where it is gone or was started anew since, and what `Execs` raises."""
    state = await execs.container(target.container)
    if not state.running:
        raise LaunchFailed("SANDBOX_GONE", "the container is not running")
    if state.instance != target.instance:
        raise LaunchFailed("WRONG_INSTANCE", "the container was started anew")


async def check_answering(execs: Execs, target: DockerTarget) -> None:
    """Raises `SandboxGone` where it is gone, `Conflict` where it is paused, and what `Execs` raises."""
    state = await execs.container(target.container)
    if not state.running or state.instance != target.instance:
        raise SandboxGone("the container is gone")
    if state.paused:
        raise Conflict("the sandbox does not answer: it is paused")


async def is_current(execs: Execs, target: DockerTarget) -> bool:
    """Whether this start of the container is still running. Raises `Unavailable` where the engine does not answer."""
    try:
        state = await execs.container(target.container)
    except SandboxNotFound:
        return False
    return state.running and state.instance == target.instance


def as_launch_failed(error: ClocheError) -> LaunchFailed:
    """For what the engine said before anything of a command began."""
    stopped = isinstance(error, SandboxInvalidState) and "paused" not in error.message
    gone = stopped or isinstance(error, SandboxNotFound)
    return LaunchFailed("SANDBOX_GONE" if gone else "FAILED", error.message)

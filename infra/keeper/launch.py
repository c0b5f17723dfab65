"""What the keeper needs from a way of starting processes; each kind of sandbox brings its own."""

from typing import NamedTuple, Protocol

from infra.keeper.outcome import Rusage
from infra.keeper.protocol import Scope, Start


class LaunchFailed(Exception):
    """The command did not begin."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class SandboxGone(Exception):
    """The sandbox went away, and with it the knowledge of how the command ended."""

    cause = "sandbox_gone"


class SandboxSilent(SandboxGone):
    """The sandbox did not say whether the command began."""

    cause = "sandbox_silent"


class ConnectionLost(SandboxGone):
    """The sandbox may be there, but what carried the command's bytes broke: the command is killed."""

    cause = "connection_lost"


class Ending(NamedTuple):
    code: int | None
    signal: int | None
    core: bool
    rusage: Rusage | None


class Way(Protocol):
    """A way into a sandbox, open and ready for one command."""

    async def launch(self, start: Start, stdio: tuple[int, ...]) -> "Launched":
        """Starts the command with these descriptors, none for a pty, and takes over the way.

        Raises `LaunchFailed` with the reason, where it did not begin, and `SandboxSilent` where nobody can say.
        """
        ...

    def close(self) -> None: ...


class Launched(Protocol):
    pid: int
    """As the sandbox counts."""
    master: int | None
    """The terminal of a command with a pty; the keeper owns it."""
    answers_within_s: float | None
    """Longer is not waited for the answer to a signal; None where `signal` gives up by itself."""

    async def ended(self) -> Ending: ...

    async def answer_signals(self) -> None: ...

    async def signals_answered(self) -> None: ...

    async def signal(self, signum: int, scope: Scope) -> int:
        """How many processes got it. Raises `SandboxGone`, and `Conflict` where it could not be sent."""
        ...

    async def resize(self, rows: int, cols: int) -> None:
        """Only while `master` is open. Raises `Invalid` where the terminal is gone."""
        ...

    def close(self) -> None: ...

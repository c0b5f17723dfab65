"""The sandbox that all tools work in: given to this process, never said by the model."""

from contracts.errors import ContextMissing, SandboxNotFound
from contracts.ids import is_token
from contracts.state import Status
from infra.client import Cloche, Sandbox
from services.mcp.patience import patiently

HOW = "start the server with `cloche mcp --sandbox SANDBOX`, or set CLOCHE_SANDBOX"


class Context:
    def __init__(self, cloche: Cloche, sandbox: str | None) -> None:
        self.cloche = cloche
        self._sandbox = sandbox

    async def sandbox(self) -> Sandbox:
        """As it is now: it may have been recovered, on another node even, since the last call.

        Raises `ContextMissing` where none was given, or where there is none of that name or no more.
        """
        if not self._sandbox:
            raise ContextMissing(f"no sandbox was given to this server: {HOW}")
        if not is_token(self._sandbox):
            raise ContextMissing(f"{self._sandbox[:80]!r} is not a sandbox id: {HOW}")
        try:
            found = await patiently(self.cloche.bus_of(self._sandbox), lambda: self.cloche.sandbox(self._sandbox or ""))
        except SandboxNotFound:
            raise ContextMissing(f"there is no sandbox {self._sandbox!r}: {HOW}") from None
        if found.state.status == Status.REMOVED:
            raise ContextMissing(f"sandbox {self._sandbox!r} is removed: {HOW}")
        return found

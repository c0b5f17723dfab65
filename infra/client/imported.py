"""A sandbox of another Cloche that was imported: it can be read, and nothing else."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, NoReturn

from contracts import codec, subjects
from contracts.errors import SandboxInvalidState, SandboxNotFound
from contracts.state import SandboxState, Sequenced, fold
from infra.bus.connection import Bus
from infra.bus.reader import OnGap
from infra.client.sandbox import LogEvent, Sandbox
from infra.log.archived import ArchivedView
from infra.log.imports import find_import


class ImportedSandbox(Sandbox):
    """Whatever would have something done in it raises `SandboxInvalidState`."""

    def __init__(self, bus: Bus, state: SandboxState, view: ArchivedView) -> None:
        super().__init__(bus, state)
        self.view = view

    async def events(
        self,
        start: int | None = None,
        *,
        types: Sequence[str] = (),
        follow: bool = False,  # noqa: ARG002
        on_gap: OnGap | None = None,
    ) -> AsyncIterator[LogEvent]:
        """As of any sandbox. There is nothing to follow."""
        filters, begin = subjects.typed(self.id, types), start or self.state.first_sequence
        async for entry in self.view.read(filters, begin, on_gap=on_gap):
            yield LogEvent(entry.seq, entry.subject, codec.decode_head(entry.data), entry.data)

    def _refuse(self, hint: str = "") -> NoReturn:
        raise SandboxInvalidState(f"sandbox {self.id!r} was imported from another Cloche: it can only be read{hint}")

    async def start(self, *_: Any, **__: Any) -> Any:
        self._refuse()

    async def run(self, *_: Any, **__: Any) -> Any:
        self._refuse()

    def execution(self, *_: Any, **__: Any) -> Any:
        self._refuse()

    async def recover(self, *_: Any, **__: Any) -> Any:
        self._refuse()

    async def flush(self, *_: Any, **__: Any) -> Any:
        self._refuse()

    async def snapshot(self, *_: Any, **__: Any) -> Any:
        self._refuse()

    async def _ask_git(self, *_: Any, **__: Any) -> Any:
        self._refuse()

    async def _until(self, *_: Any, **__: Any) -> None:
        self._refuse()

    @property
    def net(self) -> Any:
        self._refuse(f"; its requests with `cloche show {self.id} --type network`")

    @property
    def agent(self) -> Any:
        self._refuse(f"; its agents with `cloche show {self.id} --type agent,user`")

    @property
    def files(self) -> Any:
        self._refuse("; its files with `cloche files cat`, `tree`, `diff`, and `ls --at`")


async def imported_sandbox(bus: Bus, sandbox: str) -> ImportedSandbox:
    """Raises `SandboxNotFound`, `Unavailable`."""
    record = await find_import(bus, sandbox)
    if record is None:
        raise SandboxNotFound(f"there is no sandbox {sandbox!r}")
    view = ArchivedView(bus, record)
    lifecycle = view.read([subjects.lifecycle(sandbox)])
    state = fold([Sequenced(entry.seq, codec.decode_head(entry.data)) async for entry in lifecycle])
    if state is None:
        raise SandboxNotFound(f"what was imported of {sandbox!r} does not tell how it began: import more of it")
    return ImportedSandbox(bus, state, view)

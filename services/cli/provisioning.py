"""One provisioning of servers, as `cloche provision` tells it."""

from collections.abc import Callable

import msgspec

from contracts.errors import Unavailable
from infra.access import open_as
from infra.bus import copies
from infra.bus.connection import Bus
from infra.bus.provision import Change, May, Wanted, apply, plan, until_ready
from infra.embedded.users import ADMIN
from infra.provisioning import realms_of, wanted_in
from infra.settings import Settings
from services.cli.looking_at_servers import less_durable, look
from services.cli.words import say


class Words:
    """What changes goes to stdout, everything else to stderr; with `json` all of it is one object a line."""

    def __init__(self, *, json: bool) -> None:
        self._json = json

    def change(self, what: str, *, done: bool) -> None:
        self._out("change", what, what if done else f"would {what}", done=done)

    def note(self, text: str) -> None:
        """Progress, and what is to be known."""
        if self._json:
            self._out("note", text, text)
        else:
            say(text)

    def _out(self, kind: str, what: str, text: str, **more: bool) -> None:
        print(msgspec.json.encode({"type": kind, "text": what, **more}).decode() if self._json else text, flush=True)


async def provision_all(
    settings: Settings,
    told: Words,
    *,
    only: str | None = None,
    only_plan: bool,
    fewer_replicas: bool,
    wait_s: float,
) -> list[Change]:
    """For every realm that the settings serve, or for `only` one tenant. Returns what was, or would be, changed.

    Raises as `_provision` does.
    """
    changes: list[Change] = []
    want, may = wanted_in(settings), May(have_fewer_replicas=fewer_replicas)
    async for part in realms_of(settings, only=only, dry_run=only_plan, patience_s=wait_s):
        if part.realm:
            told.note(f"realm {part.realm}")
        changes += await _provision(part, want, told, only_plan=only_plan, may=may, wait_s=wait_s)
    if not changes:
        told.note("nothing to change")
    if warning := less_durable(settings, await look(settings)):
        told.note(f"warning: {warning}")
    return changes


async def _provision(
    settings: Settings, want: Wanted, told: Words, *, only_plan: bool, may: May, wait_s: float
) -> list[Change]:
    """Returns what was, or would be, changed.

    Raises `Unavailable` when servers are missing or copies not whole after `wait_s`, `Invalid` for what is refused.
    """
    async with open_as(settings, ADMIN, patience_s=wait_s) as admin:
        changes = await until_ready(lambda: plan(admin, want, may), wait_s=wait_s, tell=told.note)
        if only_plan or not changes:
            for change in changes:
                told.change(change.what, done=False)
            if not changes:
                await _note_unfinished(admin, want, settings.limits.replicas, told.note)
            return changes
        try:
            await apply(admin, changes, tell=lambda what: told.change(what, done=True), wait_s=wait_s)
        except Unavailable as error:
            names = [server.name for server in await look(settings)]
            raise Unavailable(
                f"{error.message}; of all servers these answer: {', '.join(names) or 'unknown'}"
            ) from error
        names = [config["name"] for config in want.streams]
        replicas = settings.limits.replicas
        await copies.settle(admin, names, want.consumers, replicas, wait_s=wait_s, tell=told.note)
        return changes


async def _note_unfinished(admin: Bus, want: Wanted, replicas: int, tell: Callable[[str], None]) -> None:
    names = [config["name"] for config in want.streams]
    for words in await copies.unfinished(admin, names, want.consumers, replicas):
        tell(f"not whole: {words}")

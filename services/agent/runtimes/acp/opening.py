"""The beginning of a conversation: who speaks, in which session, and what the agent is told first."""

from collections.abc import Awaitable, Callable
from typing import Any

from acp.meta import PROTOCOL_VERSION

from contracts.errors import AgentFailed
from services.agent.runtimes.acp import sessions, talk
from services.agent.runtimes.acp.options import Options
from services.agent.runtimes.acp.retelling import retold
from services.agent.runtimes.acp.said import Said
from services.agent.runtimes.acp.sessions import Session
from services.agent.runtimes.acp.talk import Settled, Talk
from services.agent.stage import Stage

PAST = "past"
"""The document that holds what an agent was told of the conversation before it came."""
AUTH_REQUIRED = -32000
ASKED = "What you were asked in the first place:"
ASKED_CHARACTERS = 4000
OPENS = 1
"""The id of the request that opens a session: after `initialize`, before everything else."""

Request = Callable[[str, dict[str, Any]], Awaitable[Settled]]


class Opening:
    def __init__(
        self,
        stage: Stage,
        process: str,
        options: Options,
        conversation: Talk,
        said: Said,
        earlier: Session | None,
        request: Request,
    ) -> None:
        self._stage = stage
        self._process = process
        self._earlier = earlier
        self._options = options
        self._talk = conversation
        self._said = said
        self._request = request
        self._cwd = options.cwd or stage.workspace

    async def open(self) -> str:
        """What the first turn begins with. Raises `AgentFailed` for an agent that hangs, or will not."""
        await self._ask(talk.INITIALIZE, _hello())
        loaded = await self._load()
        if not loaded:
            await self._ask(talk.NEW, {"cwd": self._cwd, "mcpServers": []})
        opened = Session(name=self._talk.session or "", cost_usd=self._talk.cost_usd)
        await sessions.keep(self._stage, f"session/{self._stage.attempt}", self._process, opened)
        if self._stage.order.model is not None:
            await self._choose("model", self._stage.order.model)
        if self._options.mode is not None:
            await self._choose("mode", self._options.mode)
        return await self._beginning(loaded=loaded)

    async def _load(self) -> bool:
        """Whether the agent remembers the conversation that this one goes on from."""
        session = self._to_load()
        if session is None:
            return False
        params = {"sessionId": session, "cwd": self._cwd, "mcpServers": []}
        settled = await self._asked(talk.LOAD, params)
        return settled.error is None

    def _to_load(self) -> str | None:
        known = self._said.requests.get(OPENS)
        if known is not None:
            # What it was asked stands, whatever has been kept since.
            return "" if known.method == talk.LOAD else None
        agent = self._talk.agent
        can = agent is not None and agent.agent_capabilities is not None and agent.agent_capabilities.load_session
        return self._earlier.name if can and self._earlier is not None else None

    async def _choose(self, what: str, value: str) -> None:
        """Raises `AgentFailed` for an agent that does not offer it."""
        settings = self._talk.settings
        offered = (settings.config_options if settings else None) or []
        session = self._talk.session
        for option in offered:
            if what in (option.id, option.category):
                await self._ask(talk.CONFIGURE, {"sessionId": session, "configId": option.id, "value": value})
                return
        if what == "mode" and settings is not None and settings.modes is not None:
            await self._ask(talk.MODE, {"sessionId": session, "modeId": value})
            return
        raise AgentFailed(f"the agent offers no choice of a {what}", reason="refused")

    async def _ask(self, method: str, params: dict[str, Any]) -> None:
        settled = await self._asked(method, params)
        if settled.error is not None:
            words = "it wants to be authenticated first: " if settled.code == AUTH_REQUIRED else ""
            raise AgentFailed(f"the agent refuses {method}: {words}{settled.error}", reason="refused")

    async def _asked(self, method: str, params: dict[str, Any]) -> Settled:
        limit = self._stage.settings.handshake_s
        try:
            async with self._stage.within(limit):
                return await self._request(method, params)
        except TimeoutError:
            raise AgentFailed(f"the agent has not answered {method} in {limit:g} s", reason="hang") from None

    async def _beginning(self, *, loaded: bool) -> str:
        order = self._stage.order
        past = "" if loaded or not sessions.goes_on(self._stage) else await self._past()
        if self._stage.attempt == 1:
            return "\n\n".join(filter(None, (past, order.prompt)))
        asked = f"{ASKED} {order.prompt[:ASKED_CHARACTERS]}"
        return "\n\n".join(filter(None, (past or asked, self._stage.story)))

    async def _past(self) -> str:
        """As it was first told: meanwhile more may have been said, and a prompt is the same in every life."""
        key, transcripts = f"past/{self._stage.attempt}", self._stage.transcripts
        if not self._stage.is_told(key):
            words = retold(await transcripts.conversation())
            await transcripts.keep(key, sessions.RUNTIME, PAST, words.encode(), replaces=True)
        documents = await transcripts.documents()
        return next(each.data.decode() for each in documents if (each.session, each.path) == (sessions.RUNTIME, PAST))


def _hello() -> dict[str, Any]:
    """The agent lives in the sandbox, with its files and its commands: it needs none of ours."""
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False},
        "clientInfo": {"name": "cloche", "version": "1"},
    }

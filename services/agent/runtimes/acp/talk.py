"""One agent process's talk, folded from what was sent to it and what it wrote.

Pure: the same lines are always the same talk, so whoever reads them again knows what the one before him knew.
"""

from typing import NamedTuple, TypeVar

from acp import schema
from acp.meta import AGENT_METHODS, CLIENT_METHODS, PROTOCOL_VERSION
from pydantic import BaseModel, ValidationError

from contracts.message import Fact
from services.agent.runtimes.acp import envelope
from services.agent.runtimes.acp.envelope import Answer, Broken, Id, Notice, Request, Stray, shown
from services.agent.runtimes.acp.permissions import Permission
from services.agent.runtimes.acp.sessions import Session
from services.agent.runtimes.acp.speech import Chunk, Speech
from services.agent.runtimes.acp.tools import Calls, text_of

OPEN_REQUESTS = 100

INITIALIZE = AGENT_METHODS["initialize"]
NEW = AGENT_METHODS["session_new"]
LOAD = AGENT_METHODS["session_load"]
CONFIGURE = AGENT_METHODS["session_set_config_option"]
MODE = AGENT_METHODS["session_set_mode"]
PROMPT = AGENT_METHODS["session_prompt"]
CANCEL = AGENT_METHODS["session_cancel"]
UPDATE = CLIENT_METHODS["session_update"]
PERMISSION = CLIENT_METHODS["session_request_permission"]
SESSION_CHARACTERS = 1000
FAILED = "failed"
MOST_USD = 1e9
"""More than anybody has: what is said beyond is this."""

Model = TypeVar("Model", bound=BaseModel)


class Refused(NamedTuple):
    """A request that is answered with an error."""

    request: Id
    number: int
    code: int
    message: str


class Spent(NamedTuple):
    """Since the last of these."""

    cost_usd: float


class Turn(NamedTuple):
    """How a prompt ended."""

    stop: str
    text: str
    usage: schema.Usage | None
    cost_usd: float
    """Since the last of these."""
    tool_calls: int


class Settled(NamedTuple):
    """An answer to a request of ours; `error` in the agent's words where it is one."""

    request: Id
    method: str
    error: str | None
    code: int = 0
    turn: Turn | None = None


Happening = Fact | Chunk | Permission | Refused | Spent | Settled


class Talk:
    def __init__(self, run: str, process: str, *, cost_at_once: bool, earlier: Session | None = None) -> None:
        """`cost_at_once`: what is spent is told as it is known, otherwise with the turn.

        `earlier`: what is known of the session that may be loaded.
        """
        self._at_once = cost_at_once
        self._earlier = earlier
        self._asked: dict[Id, str] = {}
        """Our requests that have no answer yet, by id."""
        self._loading: str | None = None
        self._numbered = 0
        self._calls = Calls(run)
        self._speech = Speech(run, process)
        self.cost_usd = 0.0
        """Of the session from its beginning, as the agent counts."""
        self._cost_told = 0.0
        self._counts = False
        """Whether it has said yet what the session costs."""
        self._open: set[Id] = set()
        """The agent's requests that wait for an answer."""
        self.agent: schema.InitializeResponse | None = None
        self.session: str | None = None
        self.settings: schema.NewSessionResponse | schema.LoadSessionResponse | None = None

    @property
    def owes(self) -> bool:
        """Whether something that it was asked has no answer yet."""
        return bool(self._asked)

    @property
    def prompting(self) -> bool:
        return PROMPT in self._asked.values()

    def ask(self, request: Request) -> None:
        """It is on its way to the agent."""
        self._asked[request.id] = request.method
        if request.method == LOAD:
            self._loading = _read(schema.LoadSessionRequest, request.params).session_id

    def answer(self, own: Id) -> None:
        """An answer is on its way to it."""
        self._open.discard(own)

    def hear(self, line: bytes) -> list[Happening]:
        """What a line says. Raises `Stray` for one that is no message, `Broken` where it breaks the protocol."""
        match envelope.decode(line):
            case Answer() as answer:
                return self._answered(answer)
            case Request() as request:
                return self._requested(request)
            case Notice(method=method, params=params) if method == UPDATE:
                return self._update(params)
        return []

    def _answered(self, answer: Answer) -> list[Happening]:
        method = self._asked.pop(answer.id, None)
        if method is None:
            raise Broken(f"an answer to {shown(str(answer.id))}, which was not asked")
        error = None if answer.error is None else f"{shown(answer.error.message)} ({answer.error.code})"
        code = 0 if answer.error is None else answer.error.code
        if method == PROMPT:
            return self._prompted(answer, error, code)
        if error is None:
            self._learn(method, answer.result)
        return [Settled(answer.id, method, error, code)]

    def _learn(self, method: str, result: bytes) -> None:
        match method:
            case _ if method == INITIALIZE:
                self._initialized(result)
            case _ if method == NEW:
                self._opened(result)
            case _ if method == LOAD:
                self._loaded(result)

    def _initialized(self, result: bytes) -> None:
        self.agent = _answer(schema.InitializeResponse, INITIALIZE, result)
        if self.agent.protocol_version != PROTOCOL_VERSION:
            raise Broken(f"it speaks version {self.agent.protocol_version} of the protocol, not {PROTOCOL_VERSION}")

    def _opened(self, result: bytes) -> None:
        self.settings = opened = _answer(schema.NewSessionResponse, NEW, result)
        if not 0 < len(opened.session_id) <= SESSION_CHARACTERS:
            raise Broken(f"the name of a session has 1 to {SESSION_CHARACTERS} characters")
        self.session = opened.session_id

    def _loaded(self, result: bytes) -> None:
        self.settings = _answer(schema.LoadSessionResponse, LOAD, b"{}" if result == b"null" else result)
        self.session = self._loading
        if self._earlier is not None and self._earlier.name == self.session:
            self.cost_usd = self._cost_told = self._earlier.cost_usd

    def _prompted(self, answer: Answer, error: str | None, code: int) -> list[Happening]:
        response = None if error else _answer(schema.PromptResponse, PROMPT, answer.result)
        over = [*self._speech.end(), *self._calls.end()]
        turn = Turn(
            stop=response.stop_reason if response else FAILED,
            text=self._speech.last,
            usage=response.usage if response else None,
            cost_usd=self._unspent(),
            tool_calls=self._calls.count,
        )
        self._speech.last, self._calls.count = "", 0
        return [*over, Settled(answer.id, PROMPT, error, code, turn)]

    def _unspent(self) -> float:
        new, self._cost_told = self.cost_usd - self._cost_told, self.cost_usd
        return new

    def _requested(self, request: Request) -> list[Happening]:
        if request.id in self._open:
            raise Broken(f"two requests with the id {shown(str(request.id))}")
        if len(self._open) >= OPEN_REQUESTS:
            raise Broken(f"more than {OPEN_REQUESTS} requests at once")
        self._open.add(request.id)
        self._numbered += 1
        if request.method == PERMISSION:
            return self._permission(request)
        words = f"this client has no {shown(request.method)}"
        return [Refused(request.id, self._numbered, envelope.METHOD_NOT_FOUND, words)]

    def _permission(self, request: Request) -> list[Happening]:
        try:
            wanted = _read(schema.RequestPermissionRequest, request.params)
        except ValidationError as error:
            return [Refused(request.id, self._numbered, envelope.INVALID_PARAMS, _first(error))]
        self._check(wanted.session_id)
        call = self._calls.of(wanted.tool_call)
        asked = Permission(request.id, self._numbered, call.id, call.tool, call.input, tuple(wanted.options))
        return [*self._speech.end(), *self._calls.clear(call), asked]

    def _update(self, params: bytes) -> list[Happening]:
        try:
            notification = _read(schema.SessionNotification, params)
        except ValidationError as error:
            if _is_of_another_time(error):
                return []
            raise Stray(_first(error)) from error
        if self.session is None and notification.session_id == self._loading:
            # What was said before, which the log has.
            return []
        self._check(notification.session_id)
        return self._told(notification.update)

    def _check(self, session: str) -> None:
        """Some agents speak of a session before they have answered that it is open."""
        if self.session is not None and session != self.session:
            raise Broken(f"it speaks of a session {shown(session)!r}, which is not the one that it opened")

    def _told(self, update: BaseModel) -> list[Happening]:
        match update:
            case schema.AgentMessageChunk():
                return [*self._speech.chunk("message", update.message_id, text_of(update.content))]
            case schema.AgentThoughtChunk():
                return [*self._speech.chunk("thinking", update.message_id, text_of(update.content))]
            case schema.ToolCallStart() | schema.ToolCallProgress():
                return [*self._speech.end(), *self._calls.learn(update)]
            case schema.AgentPlanUpdate():
                plan = "\n".join(f"- {entry.content} ({entry.status})" for entry in update.entries)
                return [*self._speech.end(), *self._speech.chunk("thinking", "plan", plan), *self._speech.end()]
            case schema.UsageUpdate(cost=schema.Cost(currency="USD", amount=amount)):
                return self._cost_of(amount)
        return []

    def _cost_of(self, session_so_far: float) -> list[Happening]:
        if not 0 <= session_so_far < float("inf"):
            return []
        total = min(session_so_far, MOST_USD)
        if not self._counts and total < self.cost_usd:
            # Some begin at nothing again with a session that they have loaded.
            self.cost_usd = self._cost_told = 0.0
        self._counts = True
        if total <= self.cost_usd:
            return []
        self.cost_usd = total
        return [Spent(self._unspent())] if self._at_once else []


def _read(model: type[Model], raw: bytes) -> Model:
    return model.model_validate_json(raw)


def _answer(model: type[Model], method: str, raw: bytes) -> Model:
    try:
        return _read(model, raw)
    except ValidationError as error:
        raise Broken(f"{method}: an answer that is none: {_first(error)}") from error


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return shown(f"{'.'.join(map(str, first['loc']))}: {first['msg']}")


def _is_of_another_time(error: ValidationError) -> bool:
    """A kind of update that this version of the protocol does not know."""
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    return all(each["type"] == "union_tag_invalid" and each["loc"] == ("update",) for each in errors)

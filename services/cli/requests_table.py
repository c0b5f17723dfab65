"""How a sandbox's requests look: one a line, wide enough for what matters, and safe to show."""

from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.text import Text

from contracts.approvals import Ask
from contracts.events.network import NetworkAllowed, NetworkDenied
from contracts.spec import Network, NetworkMode, UnknownHost
from infra import clock
from infra.client.network import Request
from infra.words.escaping import printable
from infra.words.summaries import of_network
from services.cli import show
from services.cli.measures import size
from services.cli.words import say

HEAD = f"{'TIME':<12} {'STATUS':<7} {'OUT':>6} {'IN':>6} {'TOOK':>8}  REQUEST"
LONGEST = 200
DENIED = "denied"


class View:
    """Lines as they come, so that it can be followed."""

    def __init__(self, *, json: bool) -> None:
        self._json = json
        self._console = Console(highlight=False)
        self._lines = 0

    def pending(self, sandbox: str, asks: Iterable[Ask]) -> None:
        """What waits, on top: it is what somebody has to do something about."""
        now = clock.now()
        for ask in asks:
            left_s = (ask.expires_at - now).total_seconds()
            when = f"{left_s:.0f} s left" if left_s > 0 else "expired"
            line = Text("waits  ", style="bold yellow")
            line.append(printable(f"{ask.method} {ask.host}:{ask.port}  {when}", LONGEST))
            line.append(f"  cloche net {sandbox} --approve {ask.approval}", style="dim")
            self._print(line)

    def add(self, told: Request) -> None:
        if self._json:
            kind = f"network.{type(told.fact).__name__.removeprefix('Network').lower()}"
            show.json_line({"sequence": told.sequence, "time": told.at, "type": kind, "data": told.fact})
            return
        if not self._lines:
            self._print(Text(HEAD, style="bold"))
        self._lines += 1
        self._print(_line(told))

    def end(self, sandbox: str) -> None:
        if not self._lines and not self._json:
            say(f"nothing has asked for the network in {sandbox!r} yet")

    def _print(self, line: Text) -> None:
        self._console.print(line, soft_wrap=True)


def _line(told: Request) -> Text:
    line = Text(f"{told.at.astimezone():%H:%M:%S.%f}"[:-3] + " ", style="dim")
    fact = told.fact
    if isinstance(fact, NetworkAllowed):
        status = "error" if fact.error else str(fact.status or "done")
        line.append(f"{status:<7} ", style="red" if fact.error else "green")
        line.append(f"{size(fact.sent_bytes):>6} {size(fact.received_bytes):>6} {fact.duration_ms:>6.0f}ms  ")
        line.append(printable(_request(fact), LONGEST))
    elif isinstance(fact, NetworkDenied):
        line.append(f"{DENIED:<7} {'':>6} {'':>6} {'':>8}  ", style="bold red")
        line.append(printable(_denial(fact), LONGEST))
    else:
        kind = type(fact).__name__.removeprefix("Network").lower()
        line.append(f"{kind:<31}  ", style="yellow")
        line.append(printable(of_network(fact) or "", LONGEST))
    return line


def _request(fact: NetworkAllowed) -> str:
    why = f"  ({fact.error})" if fact.error else ""
    secret = f"  with {fact.secret}" if fact.secret else ""
    return f"{fact.method} {fact.host}:{fact.port}{fact.path or ''}{secret}{why}"


def _denial(fact: NetworkDenied) -> str:
    where = f"{fact.method} {fact.host}:{fact.port}  " if fact.host else ""
    address = f" {fact.address}" if fact.address else ""
    times = f", {fact.count} times" if fact.count > 1 else ""
    return f"{where}{fact.reason}{address}{times}"


def policy_lines(policy: Network) -> Iterator[str]:
    if policy.mode != NetworkMode.RESTRICTED:
        yield f"network {policy.mode}"
        return
    names = [*policy.presets, *policy.allowed_hosts]
    yield f"allowed: {', '.join(names) or 'nothing'}"
    yield f"ports:   {', '.join(map(str, policy.allowed_ports)) or 'none'}"
    yield f"others:  {'wait for an answer' if policy.unknown == UnknownHost.ASK else 'denied'}"

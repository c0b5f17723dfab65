"""Who may do what on the bus, as data.

Every user has an account of its own; the streams live in an account that only provisioning enters. What a user may
publish is an import of exactly those subjects. Permissions inside one account would not do: the server itself writes
to whatever *reply* subject a request names, and to a push consumer's deliver subject, and checks neither against the
rights of the asker. So a client that may ask anything at all could have its own bytes stored as history, or the empty
"not found" of a direct get delivered to `$JS.API.STREAM.DELETE.…`. Across accounts a reply only ever reaches the
asker's own account, where no stream listens.

A realm has all of these accounts for itself, and imports nothing of another's: so the subjects, streams and buckets of
two realms have the same names and nothing else in common.

Nobody but `admin` creates, changes, purges or deletes streams and consumers, and nobody else needs to: readers use
direct get, services pull from durables that provisioning made. There are two exceptions: the spawner may delete a
message of CLOCHE_COMMANDS (the sweep of commands that no consumer covers), and the file watcher, who writes the blobs,
may remove what nothing refers to. Whoever writes blobs could also erase them by a roll-up: contents are found to be
missing by their names, which are their hashes.
"""

from collections.abc import Iterable

from msgspec import Struct

from contracts import streams, subjects
from contracts.streams import (
    ARCHIVE_STREAM,
    BLOBS_BUCKET,
    COMMANDS_STREAM,
    LOG_STREAM,
    REPLAYS_BUCKET,
    SANDBOXES_BUCKET,
    VITALS_STREAM,
)
from contracts.vitals import PROGRESS
from infra.bus.stream_config import kv_told

ADMIN = "admin"
SYSTEM = "system"
CLIENT = "client"
HUB = "CLOCHE"

JS_API = "$JS.API."
API = f"{subjects.ROOT}.api."
"""What users call the API of the hub. By its own name the server would answer for the user's own, empty, account."""

FAMILIES: dict[str, tuple[str, ...]] = {
    "spawner": ("sandbox", "node"),
    "executor": ("command", "tool"),
    "file_watcher": ("file",),
    "health_monitor": ("health",),
    "replay": ("audit",),
    "agent": ("agent", "user"),
    "guardian": ("guardian",),
    "egress": ("network",),
    "gateway": (),
    CLIENT: (),
}
"""Which event families each may write. A family has one writer."""

COMMANDERS: dict[str, tuple[str, ...]] = {
    "agent": ("command",),
    "gateway": ("sandbox", "command", "agent", "network", "replay"),
}
"""Who may give every order of these families. Any order at all, also about nodes and the log itself, is for clients."""
ORDERS: dict[str, tuple[str, ...]] = {
    "guardian": ("agent.guidance", "agent.interrupt", "agent.pause", "sandbox.stop"),
    "health_monitor": ("sandbox.stop", "sandbox.recover"),
    "spawner": ("sandbox.recover",),
}
"""Who may order these and nothing else."""

FILES_RPC = f"{subjects.ROOT}.rpc.*.*.files.>"
GIT_RPC = f"{subjects.ROOT}.rpc.*.*.git.*"
WATCH_RPC = f"{subjects.ROOT}.rpc.*.*.watch.*"
EGRESS_RPC = f"{subjects.ROOT}.rpc.*.*.egress.*"
STATE_RPC = f"{subjects.ROOT}.rpc.state.>"
REPLAYED = f"{subjects.ROOT}.replay.>"
RPC: dict[str, str] = {
    "executor": FILES_RPC,
    "spawner": GIT_RPC,
    "file_watcher": WATCH_RPC,
    "egress": EGRESS_RPC,
    "replay": STATE_RPC,
}
"""Who answers which requests."""
ASKS: dict[str, tuple[str, ...]] = {
    "spawner": ("file_watcher", "egress"),
    "agent": ("executor",),
    "gateway": tuple(RPC),
    CLIENT: tuple(RPC),
}
"""Who asks whom; all others need the log alone. Of those who answer, nobody asks back whoever asks them."""

READABLE = (
    LOG_STREAM,
    VITALS_STREAM,
    ARCHIVE_STREAM,
    f"KV_{SANDBOXES_BUCKET}",
    f"KV_{REPLAYS_BUCKET}",
    f"OBJ_{BLOBS_BUCKET}",
)
HEARD = {
    subjects.LIVE: subjects.LOG,
    subjects.LIVE_VITALS: subjects.VITALS,
    kv_told(SANDBOXES_BUCKET): kv_told(SANDBOXES_BUCKET),
    kv_told(REPLAYS_BUCKET): kv_told(REPLAYS_BUCKET),
}
"""Whoever subscribes to the log hears of an event once it is stored, with its sequence in the headers."""

USERS: tuple[str, ...] = (*FAMILIES, ADMIN, SYSTEM)
"""Of the realm that every installation has."""


def login_name(realm: str, user: str) -> str:
    """What a user of a realm logs in as. No user's name has a `-`, so no two are the same."""
    return f"{realm}-{user}" if realm else user


def account_name(realm: str, user: str) -> str:
    return login_name(realm, user.upper())


def hub_name(realm: str) -> str:
    """The account that holds the streams of a realm."""
    return login_name(realm, HUB)


class User(Struct, frozen=True, kw_only=True):
    """One service's account, as imports from and exports to the others of its realm."""

    name: str
    realm: str = ""
    hub: tuple[str, ...]
    """Subjects of the hub that it may publish on; replies come back to it."""
    hears: dict[str, str]
    """Subjects of the hub that it may subscribe to, and what they are called in its own account."""
    answers: str | None
    """Requests that it serves for everybody else."""
    asks: dict[str, str]
    """Subjects that it may send requests on, and whose they are."""
    tells: str | None
    """Subjects of its own that everybody else may subscribe to."""

    @property
    def publishes(self) -> tuple[str, ...]:
        return tuple(local(subject) for subject in self.hub)

    @property
    def account(self) -> str:
        return account_name(self.realm, self.name)

    @property
    def login(self) -> str:
        return login_name(self.realm, self.name)

    @property
    def inboxes(self) -> tuple[str, ...]:
        """Alone in its account, so the default prefix of any NATS client is safe too."""
        return (f"_INBOX_{self.login}.>", "_INBOX.>")


def local(subject: str) -> str:
    """What a subject of the hub is called in a user's account."""
    return API + subject.removeprefix(JS_API) if subject.startswith(JS_API) else subject


def user(name: str, nodes: Iterable[str], realm: str = "") -> User:
    return User(
        name=name,
        realm=realm,
        hub=(*_writes(name), *_reads(), *_pulls(name, nodes)),
        hears=HEARD,
        answers=RPC.get(name),
        asks=_asks(name),
        tells=REPLAYED if name == "replay" else None,
    )


def _asks(name: str) -> dict[str, str]:
    """The patterns overlap, and the server refuses imports that could go round in a circle."""
    return {RPC[owner]: owner for owner in ASKS.get(name, ())}


def everybody(nodes: Iterable[str], realm: str = "") -> list[User]:
    """All of a realm but `admin` and `system`, who have no imports: they are at home where they work."""
    nodes = tuple(nodes)
    return [user(name, nodes, realm) for name in FAMILIES]


def _writes(name: str) -> list[str]:
    """Subjects whose messages are stored."""
    may = [f"{subjects.ROOT}.log.*.{family}.>" for family in FAMILIES[name]]
    if name == CLIENT:
        may.append(subjects.COMMANDS)
    may += [f"{subjects.ROOT}.cmd.*.*.{family}.*" for family in COMMANDERS.get(name, ())]
    may += [f"{subjects.ROOT}.cmd.*.*.{tag}" for tag in ORDERS.get(name, ())]
    if name not in (CLIENT, "gateway"):
        mine = f"{subjects.ROOT}.log.*.{subjects.DEAD_LETTER}.{name}"
        may += [mine, f"{mine}.*"]
    if name == "health_monitor":
        may += [subjects.vitals_of_all(kind) for kind in ("heartbeat", "metrics")]
    if name == "replay":
        may += [f"$KV.{SANDBOXES_BUCKET}.>", f"$KV.{REPLAYS_BUCKET}.>"]
        may += [subjects.ARCHIVE, f"$O.{BLOBS_BUCKET}.>"]
    if name == "file_watcher":
        may.append(f"$O.{BLOBS_BUCKET}.>")
        may += [f"$JS.API.STREAM.MSG.DELETE.OBJ_{BLOBS_BUCKET}", f"$JS.API.STREAM.PURGE.OBJ_{BLOBS_BUCKET}"]
    if name == "agent":
        may.append(f"$O.{BLOBS_BUCKET}.>")
    if name == "spawner":
        may += [f"{subjects.ROOT}.vitals.*.{PROGRESS}", subjects.node_vitals()]
        may.append(subjects.duty_vitals("*"))
        may.append(f"$JS.API.STREAM.MSG.DELETE.{COMMANDS_STREAM}")
    return may


def _reads() -> list[str]:
    may: list[str] = []
    for stream in READABLE:
        may += [f"$JS.API.STREAM.INFO.{stream}", f"$JS.API.STREAM.MSG.GET.{stream}"]
        may += [f"$JS.API.DIRECT.GET.{stream}", f"$JS.API.DIRECT.GET.{stream}.>"]
    return may


def _pulls(name: str, nodes: Iterable[str]) -> list[str]:
    """A durable belongs to the service that its name starts with."""
    specs = [*streams.shared_consumers(), *(spec for node in nodes for spec in streams.node_consumers(node))]
    may: list[str] = []
    for spec in specs:
        if spec.durable.startswith(f"{name}-"):
            where = f"{spec.stream}.{spec.durable}"
            may += [f"$JS.API.CONSUMER.MSG.NEXT.{where}", f"$JS.API.CONSUMER.INFO.{where}", f"$JS.ACK.{where}.>"]
    if name == "spawner":
        may += [
            f"$JS.API.STREAM.INFO.{COMMANDS_STREAM}",
            f"$JS.API.DIRECT.GET.{COMMANDS_STREAM}",
            f"$JS.API.STREAM.MSG.GET.{COMMANDS_STREAM}",
            f"$JS.API.CONSUMER.LIST.{COMMANDS_STREAM}",
        ]
    return may

"""Every sandbox under every rule."""

from collections import OrderedDict
from collections.abc import Collection

from contracts.errors import Invalid
from contracts.guardian import Guardian, Policy
from contracts.ids import is_token
from contracts.subjects import FAMILIES, events_of
from services.guardian import calls, place
from services.guardian.decide import Decision
from services.guardian.rules import dangerous_command
from services.guardian.rules.rule_set import Bound, RuleSet
from services.guardian.rules.table import RULES
from services.guardian.seen import Told, read
from services.guardian.watch import GUARDIAN_TAGS, Watch

MAX_SANDBOXES = 20_000
MAX_GONE = 10_000
REMOVED = "sandbox.removed"
BEGINNINGS = frozenset({"sandbox.creating", "sandbox.created", "sandbox.recovering", "sandbox.recovered"})
"""Of a life, also under an id that was used before."""


def bind(settings: Guardian, names: Collection[str] = ()) -> tuple[Bound, ...]:
    """The rules of these names, or all that are enabled. Raises `Invalid` for one that there is not."""
    if unknown := sorted(set(names) - set(RULES)):
        raise Invalid(f"there is no rule {unknown[0]!r}: one of {', '.join(RULES)}")
    bound = [Bound(rule, policy_of(settings, name)) for name, rule in RULES.items() if not names or name in names]
    dangerous_command.compiled(settings.dangerous_command)
    return tuple(each for each in bound if names or each.settings.enabled)


def policy_of(settings: Guardian, name: str) -> Policy:
    policy: Policy = getattr(settings, name)
    return policy


class Engine:
    """Memory in proportion to the sandboxes that are there, and to nothing else."""

    def __init__(self, rules: tuple[Bound, ...], *, learns: bool, shadow: bool = False, since_ms: int = 0) -> None:
        """As for a `Watch`."""
        self._rules = RuleSet(rules)
        self._learns = learns
        self._shadow = shadow
        self._since_ms = since_ms
        self._watches: OrderedDict[str, Watch] = OrderedDict()
        self._removed: OrderedDict[str, None] = OrderedDict()
        self._dues: dict[str, int] = {}
        wanted = self._rules.wanted | place.TAGS | calls.TAGS
        self.wanted = wanted | GUARDIAN_TAGS if learns else wanted

    def read(self, sequence: int, at_ms: int | None, raw: bytes) -> Told | None:
        """None for what no rule wants. Raises `Invalid` for what cannot be read."""
        told = read(sequence, at_ms, raw, self.wanted)
        return told if told is not None and is_token(told.sandbox) else None

    def feed(self, told: Told, *, silent: bool = False, late: bool = False) -> list[Decision]:
        watch = self._watches.get(told.sandbox) or self._begun(told)
        if watch is None:
            return []
        self._watches.move_to_end(told.sandbox)
        decisions = watch.feed(told.seen, silent=silent, late=late)
        self._note_due(told.sandbox, watch)
        if told.seen.tag == REMOVED:
            self._forget(told.sandbox)
        return decisions

    def _begun(self, told: Told) -> Watch | None:
        """None for words about one that is gone: its last commands may end after it, and we speak of it ourselves."""
        if told.seen.tag in GUARDIAN_TAGS or (told.sandbox in self._removed and told.seen.tag not in BEGINNINGS):
            return None
        self._removed.pop(told.sandbox, None)
        watch = Watch(self._rules, learns=self._learns, shadow=self._shadow, since_ms=self._since_ms)
        self._watches[told.sandbox] = watch
        while len(self._watches) > MAX_SANDBOXES:
            self._gone(next(iter(self._watches)))
        return watch

    def knows(self, sandbox: str) -> bool:
        return sandbox in self._watches

    def place(self, sandbox: str) -> place.Place:
        watch = self._watches.get(sandbox)
        return watch.place if watch else place.Place()

    def due(self, at_ms: int) -> list[str]:
        """Sandboxes in which something is found by then, if nothing happens."""
        return [sandbox for sandbox, moment in self._dues.items() if moment <= at_ms]

    def until(self, sandbox: str, at_ms: int, *, late_ms: int = 0) -> list[Decision]:
        """Found before `late_ms` is found late."""
        watch = self._watches.get(sandbox)
        if watch is None:
            return []
        decisions = watch.until(at_ms, late_ms=late_ms)
        self._note_due(sandbox, watch)
        return decisions

    def _note_due(self, sandbox: str, watch: Watch) -> None:
        due = watch.due_ms
        if due is None:
            self._dues.pop(sandbox, None)
        else:
            self._dues[sandbox] = due

    def _forget(self, sandbox: str) -> None:
        self._gone(sandbox)
        self._removed[sandbox] = None
        while len(self._removed) > MAX_GONE:
            self._removed.popitem(last=False)

    def _gone(self, sandbox: str) -> None:
        del self._watches[sandbox]
        self._dues.pop(sandbox, None)


def filters(wanted: Collection[str], sandbox: str = "*") -> list[str]:
    """Subjects of the tags: whole families where nothing in them is bulk, for each filter is a request a page."""
    found: list[str] = []
    for family in sorted({tag.partition(".")[0] for tag in wanted}):
        kinds = [kind for kind in FAMILIES[family] if f"{family}.{kind}" in wanted]
        if family == "command":
            found += [events_of(sandbox, family=family, kind=kind, scope="*")[0] for kind in kinds]
        else:
            found += events_of(sandbox, family=family)
    return found

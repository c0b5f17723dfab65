"""A paced replay as it is kept, so that it goes on after its player died. Pure."""

import datetime
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from contracts.lacking import Lack
from contracts.message import Time
from contracts.replays import Playing, ReplayStatus

REMEMBERED_ORDERS = 50
"""A command may be delivered twice, and counts once."""
TOLD_ORDERS = 10


class Verb(StrEnum):
    PAUSE = "pause"
    RESUME = "resume"
    SEEK = "seek"
    STEP = "step"
    STOP = "stop"


class Directive(Struct, frozen=True, kw_only=True):
    """An order to a replay that its player has not obeyed yet."""

    order: str
    """The id of the command."""
    verb: Verb
    speed: float | None = None
    sequence: int = 0
    events: int = 0


class Record(Struct, frozen=True, kw_only=True):
    """Whoever is given an order puts it into the inbox; everything else is written by the owner alone."""

    replay: str
    sandbox: str
    owner: str
    """Which life of which service plays it."""
    first_sequence: int
    last_sequence: int
    start: int | None = None
    """Of what was asked for; None where an earlier version noted it."""
    end: int | None = None
    first_time: Time | None = None
    last_time: Time | None = None
    types: tuple[str, ...] = ()
    max_idle_ms: int
    loop: bool = False
    speed: float
    paused: bool = False
    stopped: bool = False
    position: int
    """The last sequence that was played: the next is the first that comes after it."""
    time: Time | None = None
    passes: int = 1
    steps: int = 0
    """Events that are to be played at once."""
    over_at: Time | None = None
    """When it was stopped, or had come to its end."""
    obeyed: tuple[str, ...] = ()
    inbox: tuple[Directive, ...] = ()
    asked: str = ""
    """Somebody wants to know the position as it is now."""
    answered: str = ""
    lacking: tuple[Lack, ...] = ()
    """Found so far: as in `ReplayStatus`."""

    @property
    def at_end(self) -> bool:
        return self.position >= self.last_sequence

    @property
    def playing(self) -> Playing:
        if self.stopped:
            return Playing.STOPPED
        if self.at_end and not self.loop:
            return Playing.ENDED
        return Playing.PAUSED if self.paused else Playing.PLAYING

    @property
    def status(self) -> ReplayStatus:
        return ReplayStatus(
            replay=self.replay,
            sandbox=self.sandbox,
            playing=self.playing,
            speed=self.speed,
            position=self.position,
            time=self.time,
            first_sequence=self.first_sequence,
            last_sequence=self.last_sequence,
            first_time=self.first_time,
            last_time=self.last_time,
            max_idle_ms=self.max_idle_ms,
            types=self.types,
            loop=self.loop,
            passes=self.passes,
            orders=self.obeyed[-TOLD_ORDERS:],
            lacking=self.lacking,
        )

    def has(self, order: str) -> bool:
        """Whether the order came here before."""
        return order in self.obeyed or any(each.order == order for each in self.inbox)


def obey(record: Record, directive: Directive) -> Record:
    """As it is after the order. One that was obeyed before, and any to a replay that was stopped, changes nothing."""
    if record.stopped or directive.order in record.obeyed:
        return record
    obeyed = (*record.obeyed, directive.order)[-REMEMBERED_ORDERS:]
    noted = replace(record, obeyed=obeyed, speed=directive.speed or record.speed, over_at=None)
    match directive.verb:
        case Verb.PAUSE:
            return replace(noted, paused=True, steps=0)
        case Verb.RESUME:
            return replace(noted, paused=False, steps=0)
        case Verb.STEP:
            return replace(noted, paused=True, steps=directive.events)
        case Verb.STOP:
            return replace(noted, stopped=True, steps=0)
        case Verb.SEEK:
            target = min(max(directive.sequence, record.first_sequence), record.last_sequence + 1)
            return replace(noted, position=target - 1, time=None, passes=record.passes + 1, steps=0)


def advanced(record: Record, sequence: int, time: datetime.datetime) -> Record:
    """After it has played an event."""
    return replace(record, position=sequence, time=time, steps=max(record.steps - 1, 0))


def begun_again(record: Record) -> Record:
    return replace(record, position=record.first_sequence - 1, time=None, passes=record.passes + 1)


def merged(mine: Record, stored: Record) -> Record:
    """What its owner has, with the orders that came meanwhile."""
    waiting = tuple(each for each in stored.inbox if each.order not in mine.obeyed)
    return replace(mine, inbox=waiting, asked=stored.asked)

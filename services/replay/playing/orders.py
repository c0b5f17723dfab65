"""Orders to replays: checked here, obeyed by whoever plays them."""

from contracts import codec, subjects
from contracts.commands import replay as orders
from contracts.errors import Invalid
from infra.bus.connection import Bus
from infra.log.ahead import time_of
from infra.log.choosing import view_of
from infra.moments import sequence_since
from services.replay.playing.range import range_of
from services.replay.playing.record import Directive, Record, Verb
from services.replay.playing.stage import Stage


class ReplayOrders:
    def __init__(self, bus: Bus, stage: Stage) -> None:
        self._bus = bus
        self._stage = stage

    async def handle(self, subject: str, raw: bytes) -> None:
        """One `replay.*` command. Raises why it cannot be obeyed, which is then its dead letter."""
        head, order = codec.decode_command(subject, raw)
        sandbox = subjects.parse_command(subject).sandbox
        if isinstance(order, orders.StartReplay):
            await self._start(sandbox, head.id, order)
            return
        match order:
            case orders.PauseReplay(speed=speed):
                directive = Directive(order=head.id, verb=Verb.PAUSE, speed=speed)
            case orders.ResumeReplay(speed=speed):
                directive = Directive(order=head.id, verb=Verb.RESUME, speed=speed)
            case orders.StepReplay(events=events):
                directive = Directive(order=head.id, verb=Verb.STEP, events=events)
            case orders.StopReplay():
                directive = Directive(order=head.id, verb=Verb.STOP)
            case orders.SeekReplay():
                target = await self._target(sandbox, order)
                directive = Directive(order=head.id, verb=Verb.SEEK, sequence=target)
            case _:
                raise Invalid(f"{head.type} is no order to a replay")
        await self._stage.order(sandbox, order.replay, directive)

    async def _start(self, sandbox: str, replay: str, order: orders.StartReplay) -> None:
        if order.from_time is not None and order.from_sequence != 1:
            raise Invalid("from_sequence and from_time: give one of them")
        if order.to_time is not None and order.to_sequence is not None:
            raise Invalid("to_sequence and to_time: give one of them")
        view = await view_of(self._bus, sandbox)
        asked = await range_of(self._bus, view, sandbox, order)

        def make(owner: str, max_idle_ms: int) -> Record:
            return Record(
                replay=replay,
                sandbox=sandbox,
                owner=owner,
                first_sequence=asked.first.seq,
                last_sequence=asked.last.seq,
                start=asked.start,
                end=asked.end,
                first_time=time_of(asked.first),
                last_time=time_of(asked.last),
                types=order.types,
                max_idle_ms=max_idle_ms if order.max_idle_ms is None else order.max_idle_ms,
                loop=order.loop,
                speed=order.speed,
                paused=order.paused,
                position=asked.first.seq - 1,
                obeyed=(replay,),
            )

        await self._stage.begin(replay, make)

    async def _target(self, sandbox: str, order: orders.SeekReplay) -> int:
        if (order.sequence is None) == (order.time is None):
            raise Invalid("a seek needs a sequence or a time, and not both")
        if order.time is not None:
            return await sequence_since(self._bus, sandbox, order.time)
        return order.sequence or 1

"""Plays a recorded session in a terminal, and does what the keys say."""

import asyncio
import time
from contextlib import suppress

from contracts.pacing import FASTEST, SLOWEST, Pace
from services.cli.player_deck import Deck
from services.cli.player_frames import Spot
from services.cli.player_index import Index
from services.cli.player_keys import Key, Pressed
from services.cli.player_picture import Picture, picture_of
from services.cli.player_status import Standing, status_line
from services.cli.player_terminal import PlayerTerminal
from services.cli.player_window import Size

JUMP_S = 5.0
JUST_PASSED_S = 1.0
SLICE_S = 0.04
"""Of work before the keys are looked at."""
FRAME_S = 0.03
"""Between two drawings, at the least."""
REDRAW_S = 0.25
"""At the most, for the clock."""
SLACK_S = 0.25
EVERYWHERE = 2**62


class Player:
    def __init__(self, deck: Deck, index: Index, terminal: PlayerTerminal, *, speed: float, keys: bool) -> None:
        self._deck = deck
        self._index = index
        self._terminal = terminal
        self._keys = keys
        self._pace = Pace(now=time.monotonic(), speed=speed)
        self._goal: Spot | None = None
        """Where a jump goes to."""
        self._steps = 0
        self._is_left = False
        self._drawn_at = 0.0
        self._is_drawn = False
        self._picture: Picture | None = None

    async def begin(self, sequence: int) -> bool:
        """Goes through what came before an event, which is shown and takes no time. False: somebody left meanwhile."""
        self._goal = Spot(sequence - 1, float("inf"))
        while not await self._deck.forward(self._goal, SLICE_S):
            if Key.QUIT in self._terminal.take_keys():
                return False
            self._draw()
        self._goal = None
        self._deck.begin()
        self._pace.seek(0.0, time.monotonic())
        return True

    async def run(self) -> None:
        """Until somebody leaves; without keys, until the end."""
        while not self._is_left:
            for pressed in self._terminal.take_keys():
                self._press(pressed)
            arrived = await self._advance()
            self._draw()
            if self._is_over and self._is_drawn and not self._keys:
                return
            if arrived:
                await self._wait()

    @property
    def _is_over(self) -> bool:
        return self._deck.at_end and not self._goal and not self._deck.is_following

    async def _advance(self) -> bool:
        """Returns whether there is nothing to be done just now."""
        now = time.monotonic()
        if self._goal is not None:
            if not await self._deck.forward(self._goal, SLICE_S):
                return False
            reached = self._deck.spot.place if self._deck.at_end else self._goal.place
            self._pace.seek(min(self._goal.place, reached), time.monotonic())
            self._goal = None
            return True
        if self._steps:
            if await self._deck.step(SLICE_S):
                self._steps -= 1
                self._pace.step_to(self._deck.spot.place, now)
            return not self._steps
        if self._pace.paused:
            return True
        was_at_end = self._deck.at_end
        arrived = await self._deck.forward(Spot(EVERYWHERE, self._pace.at(now)), SLICE_S)
        if was_at_end and (fresh := self._deck.next_place()) is not None:
            # What happens now is not to be waited for.
            self._pace.seek(fresh, now)
        elif not arrived:
            self._pace.catch_up(self._deck.spot.place, time.monotonic(), SLACK_S)
        elif self._deck.at_end:
            self._pace.seek(self._deck.spot.place, time.monotonic())
        return arrived

    async def _wait(self) -> None:
        now = time.monotonic()
        due = self._deck.next_place()
        wait_s = REDRAW_S if self._is_drawn else FRAME_S
        if due is not None and not self._pace.paused:
            wait_s = min(self._pace.wait_s(due, now) or 0.0, wait_s)
        with suppress(TimeoutError):
            async with asyncio.timeout(max(wait_s, 0.001)):
                await self._terminal.news.wait()

    def _press(self, pressed: Pressed) -> None:
        now = time.monotonic()
        place = self._goal.place if self._goal else self._pace.at(now)
        match pressed:
            case Key.QUIT:
                self._is_left = True
            case Key.PAUSE:
                self._toggle(now)
            case Key.FASTER:
                self._pace.hasten(min(self._pace.speed * 2, FASTEST), now)
            case Key.SLOWER:
                self._pace.hasten(max(self._pace.speed / 2, SLOWEST), now)
            case Key.BACK:
                self._jump(place - JUMP_S)
            case Key.FORTH:
                self._jump(place + JUMP_S)
            case Key.STEP:
                self._pace.pause(now)
                self._steps += 1
            case Key.MARK_BEFORE:
                self._go(self._index.mark_before(self._sequence, self._passed(place)) or Spot(0, 0.0))
            case Key.MARK_AFTER:
                if (mark := self._index.mark_after(self._sequence)) is not None:
                    self._go(mark)
            case int(tenths):
                self._jump(self._index.total * tenths / 10)

    @property
    def _sequence(self) -> int:
        """Where it is, or will be in a moment."""
        if self._goal is not None and self._goal.sequence != EVERYWHERE:
            return self._goal.sequence
        return self._deck.spot.sequence

    def _passed(self, place: float) -> float:
        """While it plays, the mark that was only just passed is not the one that is meant."""
        return float("inf") if self._pace.paused else place - JUST_PASSED_S * self._pace.speed

    def _toggle(self, now: float) -> None:
        self._steps = 0
        if not self._pace.paused:
            if self._is_over:
                self._jump(0.0)
            else:
                self._pace.pause(now)
        else:
            self._pace.resume(now)
            if self._is_over:
                self._jump(0.0)

    def _jump(self, place: float) -> None:
        self._go(Spot(EVERYWHERE, max(place, 0.0)))

    def _go(self, goal: Spot) -> None:
        self._steps = 0
        self._goal = goal
        self._deck.go_near(goal)

    def _draw(self) -> None:
        """Unless that was just done: then a little later."""
        now = time.monotonic()
        self._is_drawn = now - self._drawn_at >= FRAME_S
        if not self._is_drawn:
            return
        self._drawn_at = now
        size = self._terminal.size
        shown = Size(max(size.rows - 1, 0), size.cols)
        # On the way to somewhere else nothing is looked at: the emulator may pass over what nobody sees.
        if self._goal is None or self._picture is None or self._picture.size != shown:
            self._picture = picture_of(self._deck.terminal, shown)
        status = status_line(self._standing(self._picture.part_of), size.cols)
        self._terminal.draw([*self._picture.rows, status], self._picture.cursor)

    @property
    def _shown_place(self) -> float:
        if self._goal is not None:
            return min(self._goal.place, max(self._index.total, self._deck.spot.place))
        return self._deck.spot.place if self._deck.at_end else self._pace.at(time.monotonic())

    def _standing(self, part_of: Size | None) -> Standing:
        return Standing(
            place=self._shown_place,
            total=max(self._index.total, self._deck.spot.place),
            is_total_known=self._index.is_whole,
            speed=self._pace.speed,
            paused=self._pace.paused,
            ended=self._is_over,
            seeking=self._goal is not None,
            sequence=self._deck.spot.sequence,
            label=self._deck.label,
            part_of=part_of,
            keys=self._keys,
        )

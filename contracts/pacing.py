"""When a past event is due again. Times come in as arguments, so that nothing here waits.

A `Timeline` says where an event lies once long silences are shortened, a `Pace` says where the player is by now.
"""

import datetime

from contracts.errors import Invalid

FASTEST = 10_000.0
SLOWEST = 0.001


class Timeline:
    """Places in seconds from the first event, which is at 0. No gap is longer than `max_idle_s`."""

    def __init__(self, max_idle_s: float | None = None) -> None:
        self._max_idle_s = max_idle_s
        self._latest: datetime.datetime | None = None
        self.place = 0.0
        """Of the event that was put last."""

    def put(self, time: datetime.datetime) -> float:
        """The place of the next event. One whose time goes back comes with the one before it."""
        if self._latest is None or time > self._latest:
            self.place += self._gap(time)
            self._latest = time
        return self.place

    def copy(self) -> "Timeline":
        other = Timeline(self._max_idle_s)
        other._latest, other.place = self._latest, self.place
        return other

    def from_zero(self) -> "Timeline":
        """The next event is the first: what came before it takes no time."""
        return Timeline(self._max_idle_s)

    def _gap(self, time: datetime.datetime) -> float:
        if self._latest is None:
            return 0.0
        gap = (time - self._latest).total_seconds()
        return gap if self._max_idle_s is None else min(gap, self._max_idle_s)


class Pace:
    """A hand that moves over a time line, and can be stopped, sped up and put elsewhere.

    `now` is any clock that never goes back, in seconds, and always the same one.
    """

    def __init__(self, *, now: float, speed: float = 1.0, place: float = 0.0, paused: bool = False) -> None:
        self._since = now
        self._from = place
        self._paused = paused
        self.speed = _checked(speed)

    @property
    def paused(self) -> bool:
        return self._paused

    def at(self, now: float) -> float:
        """The place that it has come to. What is at or before it is due."""
        return self._from if self._paused else self._from + max(now - self._since, 0.0) * self.speed

    def wait_s(self, place: float, now: float) -> float | None:
        """Until a place is due: 0 where it is, None where it will not be because of the pause."""
        ahead = place - self.at(now)
        if ahead <= 0:
            return 0.0
        return None if self._paused else ahead / self.speed

    def pause(self, now: float) -> None:
        self._from, self._since, self._paused = self.at(now), now, True

    def resume(self, now: float) -> None:
        self._from, self._since, self._paused = self.at(now), now, False

    def hasten(self, speed: float, now: float) -> None:
        """Another speed from here on. Raises `Invalid`."""
        checked = _checked(speed)
        self._from, self._since, self.speed = self.at(now), now, checked

    def seek(self, place: float, now: float) -> None:
        """On from there, paused if it was."""
        self._from, self._since = place, now

    def step_to(self, place: float, now: float) -> None:
        """What is at `place` is due, and nothing that is later."""
        self._from, self._since, self._paused = place, now, True

    def catch_up(self, place: float, now: float, slack_s: float) -> None:
        """What could not be played in time does not come in a rush: more than `slack_s` behind counts as waited."""
        if not self._paused and (self.at(now) - place) / self.speed > slack_s:
            self.seek(place, now)


def _checked(speed: float) -> float:
    if not SLOWEST <= speed <= FASTEST:
        raise Invalid(f"speed {speed:g} is not between {SLOWEST:g} and {FASTEST:g}")
    return speed

"""One measured figure, beside the bare one that was measured in the same run."""

from msgspec import Struct


class Aim(Struct, frozen=True, kw_only=True):
    """What the project has set itself. One of them is given."""

    below: float | None = None
    """Of the figure itself."""
    ratio_from: float | None = None
    ratio_below: float | None = None
    """Or equal to it."""

    def met_by(self, value: float, ratio: float | None) -> bool:
        if self.below is not None:
            return value < self.below
        if ratio is None:
            return False
        if self.ratio_below is not None:
            return ratio <= self.ratio_below
        return self.ratio_from is not None and ratio >= self.ratio_from

    def text(self, unit: str) -> str:
        if self.below is not None:
            return f"< {self.below:g} {unit}"
        return f"≤ {self.ratio_below:g} ×" if self.ratio_below is not None else f"≥ {self.ratio_from:g} ×"


class Figure(Struct, frozen=True, kw_only=True):
    what: str
    value: float
    unit: str
    bare: float | None = None
    beside: str = ""
    """What the bare figure is of."""
    ratios: tuple[float, ...] = ()
    """Of single rounds, where there are few of them: how far the ratio can be trusted."""
    aim: Aim | None = None

    @property
    def ratio(self) -> float | None:
        return self.value / self.bare if self.bare else None

    @property
    def met(self) -> bool | None:
        """None where there is no aim."""
        return None if self.aim is None else self.aim.met_by(self.value, self.ratio)


Measured = dict[str, list[Figure]]
"""By the name of the benchmark."""


def number(value: float) -> str:
    """Three significant digits, without an exponent."""
    for limit, digits in ((100, 0), (10, 1), (1, 2)):
        if abs(value) >= limit:
            return f"{value:,.{digits}f}"
    return f"{value:.3f}"

"""Amounts, short enough for a table and a sentence."""

UNITS = ("B", "K", "M", "G", "T")
MOST_BYTES = 2**63
"""A number can be read that has too many digits to be divided."""
IN_WORDS = {"B": "bytes", "K": "KiB", "M": "MiB", "G": "GiB", "T": "TiB"}


def size(count: float) -> str:
    """`0B`, `512M`, `4.0G`: five characters at most."""
    number, unit = _scaled(count)
    return f"{number:.1f}{unit}" if unit != "B" and number < 9.95 else f"{number:.0f}{unit}"


def size_in_words(count: float) -> str:
    """`4 GiB`, `1.5 GiB`."""
    number, unit = _scaled(count)
    return f"{round(number, 1):g} {IN_WORDS[unit]}"


def _scaled(count: float) -> tuple[float, str]:
    number = float(min(max(count, 0), MOST_BYTES))
    for unit in UNITS[:-1]:
        if number < 999.5:
            return number, unit
        number /= 1024
    return number, UNITS[-1]


def percent(value: float) -> str:
    return f"{value:.1f}%" if value < 9.95 else f"{value:.0f}%"


def counted(count: int, noun: str, several: str = "") -> str:
    """`1 command`, `1,200 commands`."""
    return f"{count:,} {noun if count == 1 else several or f'{noun}s'}"


def duration(milliseconds: float) -> str:
    """`90 s`, `10 min`, `1.5 h`."""
    seconds = milliseconds / 1000
    for least, length, unit in ((3600, 3600, "h"), (120, 60, "min")):
        if seconds >= least or (seconds >= length and seconds % length == 0):
            return f"{round(seconds / length, 1):g} {unit}"
    return f"{round(seconds, 1 if seconds >= 1 else 3):g} s"

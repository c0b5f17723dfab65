"""A diff on a terminal."""

_BOLD, _CYAN, _GREEN, _RED, _PLAIN = "\x1b[1m", "\x1b[36m", "\x1b[32m", "\x1b[31m", "\x1b[0m"
_COLOURS = (
    ("diff ", _BOLD), ("index ", _BOLD), ("+++ ", _BOLD), ("--- ", _BOLD), ("@@", _CYAN), ("+", _GREEN), ("-", _RED),
)  # fmt: skip


def coloured(data: bytes) -> bytes:
    """For a terminal, with everything that could move its cursor taken out: it came out of a sandbox."""
    lines = data.decode("utf-8", "replace").split("\n")
    return "\n".join(_coloured_line(line) for line in lines).encode()


def _coloured_line(line: str) -> str:
    shown = "".join(each if each.isprintable() or each == "\t" else "\N{REPLACEMENT CHARACTER}" for each in line)
    colour = next((colour for start, colour in _COLOURS if shown.startswith(start)), None)
    return f"{colour}{shown}{_PLAIN}" if colour else shown

"""What came out of a sandbox, made safe to show: nothing in it can move a cursor, colour a line or turn it around."""

CONTINUED = "…"


def printable(text: str, most: int | None = None) -> str:
    """One line: everything that is not a plain character is spelled out. Cut to `most` characters."""
    cut = text if most is None or len(text) <= most else text[:most] + CONTINUED
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in cut)


def last_lines(text: str, count: int, most: int) -> list[str]:
    """The last lines that have anything in them, each made printable and cut to `most` characters."""
    lines = [line.rstrip("\r").expandtabs(4).rstrip() for line in text.split("\n")]
    return [printable(line, most) for line in lines if line][-count:]

"""What is said to a person and must not stand in a program's way: always on stderr."""

import sys


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)

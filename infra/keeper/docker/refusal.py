"""Why the engine did not start a command, from the words that it sends in place of the command's output."""

import asyncio
import socket

from infra.keeper.docker.frames import Demultiplexer
from infra.keeper.launch import LaunchFailed

WORDS_S = 5.0
MOST_WORDS = 8192
MEANINGS = (
    ("chdir to cwd", "BAD_CWD"),
    ("executable file not found", "NOT_FOUND"),
    ("no such file or directory", "NOT_FOUND"),
    ("not a directory", "NOT_FOUND"),
    ("permission denied", "NOT_EXECUTABLE"),
    ("exec format error", "NOT_EXECUTABLE"),
    ("is a directory", "NOT_EXECUTABLE"),
)


async def refusal(sock: socket.socket, frames: Demultiplexer, early: bytes) -> LaunchFailed:
    """Only for an exec that the engine says never began: then nothing in its stream is the command's."""
    words = _text(frames, early)
    try:
        async with asyncio.timeout(WORDS_S):
            while len(words) < MOST_WORDS and (data := await asyncio.get_running_loop().sock_recv(sock, 4096)):
                words += _text(frames, data)
    except (TimeoutError, OSError):
        words = words or "the engine gives no reason"
    return classified(words)


def _text(frames: Demultiplexer, data: bytes) -> str:
    return "".join(bytes(part.data).decode("utf-8", "replace") for part in frames.feed(memoryview(data)))


def classified(words: str) -> LaunchFailed:
    code = next((code for part, code in MEANINGS if part in words), "FAILED")
    return LaunchFailed(code, words.strip()[:500])

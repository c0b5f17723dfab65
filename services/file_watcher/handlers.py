"""Answers requests to the file watcher."""

import msgspec

from contracts import codec, subjects
from contracts.errors import ClocheError, Invalid
from contracts.queries import Reply
from contracts.watch import REQUESTS, Flush
from services.file_watcher.loop import Followers


class Desk:
    def __init__(self, followers: Followers) -> None:
        self._followers = followers

    async def answer(self, subject: str, raw: bytes) -> bytes:
        """Never raises for a bad request: the failure is the answer."""
        try:
            address = subjects.parse_rpc("watch", subject)
            if address.verb not in REQUESTS:
                raise Invalid(f"unknown request {address.verb!r}: one of {', '.join(REQUESTS)}")
            request: Flush = codec.decode(raw or b"{}", Flush)
            flushed = await self._followers.flush(address.sandbox, request)
            return codec.encode(Reply(result=msgspec.Raw(codec.encode(flushed))))
        except ClocheError as error:
            return codec.encode(Reply(failure=error.failure()))

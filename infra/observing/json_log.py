"""A service's own words as one JSON object a line, each with what it is about."""

import datetime
import json
import logging

from infra import asking
from infra.observing import about
from infra.secrets.redaction import Redactor

CHARACTERS = 20_000
"""Of a message, and of an error: somebody else's text may be in it."""


class JsonFormatter(logging.Formatter):
    """Known secrets are masked in every field before it is written as JSON, which would spell them otherwise."""

    def __init__(self, redactor: Redactor, node: str) -> None:
        super().__init__()
        self._redactor = redactor
        self._node = node

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        what = about.current()
        told = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "service": about.service.get() or _service_of(record.name),
            "node": self._node,
            "logger": record.name,
            "message": record.getMessage(),
            "sandbox": what.sandbox if what else "",
            "command": what.command if what else "",
            "trace": asking.trace_id(),
            "error": self.formatException(record.exc_info) if record.exc_info else "",
        }
        return json.dumps({name: self._masked(value) for name, value in told.items() if value})

    def _masked(self, text: str) -> str:
        # First masked, then cut: half of a secret is known to nobody.
        return self._redactor.mask_text(text)[:CHARACTERS]


def _service_of(name: str) -> str:
    parts = name.split(".")
    return parts[1] if parts[0] == "services" and len(parts) > 1 else ""

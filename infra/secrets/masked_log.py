"""The log of a service's own words, with known secrets masked in it: in messages and in tracebacks."""

import logging

from infra.secrets.redaction import Redactor


class MaskingFormatter(logging.Formatter):
    def __init__(self, redactor: Redactor, form: str) -> None:
        super().__init__(form)
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        return self._redactor.mask_text(super().format(record))


def mask_log(formatter: logging.Formatter) -> None:
    """For every handler that there is. `formatter` masks."""
    for handler in logging.getLogger().handlers:
        handler.setFormatter(formatter)

"""A node's store of secrets in a directory of the test's own."""

from pathlib import Path

from infra.secrets.redaction import Redactor
from infra.secrets.store import SecretStore

SECRET = 'sk-test-Zq81%/+"7Lm2xV0p'
"""With characters that JSON, URLs and base64 each write in another way."""


def store_with(directory: Path, **values: str) -> SecretStore:
    store = SecretStore(directory / "vault", {})
    for name, value in values.items():
        store.put(name, value.encode())
    return store


def redactor_of(directory: Path, *values: str) -> Redactor:
    return Redactor(store_with(directory, **{f"s{number}": value for number, value in enumerate(values)}))

"""The configuration of the embedded nats-server, as text."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from infra.embedded import store
from infra.embedded.accounts import accounts
from infra.embedded.realm import Realm
from infra.settings import Durability

MAX_PAYLOAD = 2 * 1024 * 1024
"""A message of 1 MiB plus its headers."""


def render(
    *,
    data: Path,
    server_name: str,
    port: int,
    durability: Durability,
    passwords: Mapping[str, str],
    nodes: Iterable[str],
    realms: Iterable[Realm] = (Realm(),),
) -> str:
    """JSON, which nats-server reads as its own configuration language."""
    jetstream: dict[str, Any] = {"store_dir": str(data / "nats" / "store")}
    if durability == Durability.DISK:
        jetstream["sync_interval"] = "always"
    config = {
        "server_name": server_name,
        "host": "127.0.0.1",
        "port": port,
        "max_payload": MAX_PAYLOAD,
        "pid_file": str(store.pid_file(data)),
        "log_file": str(data / "nats" / "server.log"),
        "logfile_size_limit": 16 * 1024 * 1024,
        "logfile_max_num": 3,
        "jetstream": jetstream,
    }
    return json.dumps(config | accounts(passwords, nodes, realms), indent=1)

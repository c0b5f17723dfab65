"""The settings by which the names of a test lead to its servers."""

import json
from collections.abc import Mapping
from pathlib import Path

from tests.egress.upstream import NETWORK


def write_settings(
    data: Path, addresses: Mapping[str, str | tuple[str, ...]], ca_file: Path | None = None, **values: float
) -> None:
    """`cloche.toml` of a node that has not started yet. `values` are more of `[egress]`."""
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    lines = ["[egress]", f'networks = ["{NETWORK}"]']
    if ca_file is not None:
        lines.append(f'ca_file = "{ca_file}"')
    lines += [f"{key} = {value}" for key, value in values.items()]
    lines += ["[egress.addresses]", *(f'"{name}" = {_listed(found)}' for name, found in addresses.items())]
    (data / "cloche.toml").write_text("\n".join(lines) + "\n")


def _listed(addresses: str | tuple[str, ...]) -> str:
    return json.dumps([addresses] if isinstance(addresses, str) else list(addresses))

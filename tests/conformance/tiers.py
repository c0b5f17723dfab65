"""The tiers that every behaviour is shown on, and where they differ on purpose."""

from infra.sandbox.providers import known_providers
from tests.devcontainer.rig import require_cli
from tests.images import require_docker

TIERS = known_providers()

HAVE_BLANKS = tuple(tier for tier in TIERS if tier != "devcontainer")
"""What a devcontainer sandbox is made from is in its project, so none can be made ahead."""

ENGINE_TELLS_SIGNALS_AS_CODES = frozenset({"docker", "devcontainer"})
"""The engine reports 128+n for a process that signal n ended, and cannot tell it from one that exits so."""

HAS_A_NETWORK = frozenset({"docker", "devcontainer"})
"""A local sandbox would need rights on the host for `network.mode: full`."""


def require(tier: str) -> None:
    """Skips, or in CI fails, where this machine lacks what the tier needs."""
    if tier == "docker":
        require_docker()
    elif tier == "devcontainer":
        require_cli()

"""Where a keeper starts processes: what a provider knows of a running sandbox, and a keeper needs."""

from msgspec import Struct


class LocalTarget(Struct, frozen=True, kw_only=True, tag_field="kind", tag="local"):
    """A sandbox whose init listens on a unix socket of this machine, and which init must answer."""

    socket: str
    instance: str


class DockerTarget(Struct, frozen=True, kw_only=True, tag_field="kind", tag="docker"):
    """A running container, and which of its starts is meant."""

    engine: str
    """The engine's address, `unix:///…`."""
    container: str
    """Its full id."""
    instance: str
    """See `infra.docker.instance`."""
    user: str
    """`uid:gid` that commands run as."""
    shell: str | None
    """A shell inside that can wait for its command; None where the image has none."""


Target = LocalTarget | DockerTarget

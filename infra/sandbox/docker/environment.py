"""What commands in a container start with: the image's own variables with the policy laid over them."""

from importlib.metadata import version

from contracts.spec import blocked_names
from infra.sandbox.base import CreateRequest
from infra.sandbox.docker.record import Record
from infra.sandbox.environment import BuiltEnvironment, SandboxOwn, build_environment
from infra.sandbox.way_out import way_out

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
USER_NAME = "sandbox"


def container_environment(request: CreateRequest, record: Record) -> BuiltEnvironment:
    """Raises `Invalid` for a value that no process can be given."""
    built = build_environment(request.spec.environment, request.host_env, _own(record), way_out(request.spec))
    blocked = blocked_names(request.spec.environment)
    image = {name: value for name, value in record.image_env.items() if name not in blocked}
    return BuiltEnvironment({**image, **built.env}, built.blocked)


def _own(record: Record) -> SandboxOwn:
    return SandboxOwn(
        path=record.image_env.get("PATH", DEFAULT_PATH),
        home=record.workspace,
        shell=record.shell or "/bin/sh",
        user=USER_NAME,
        version=version("cloche"),
        root=record.workspace,
    )

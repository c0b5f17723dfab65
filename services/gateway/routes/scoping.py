"""What somebody may make: only what they then may see, of what they may see already."""

from contracts import codec
from contracts.access import Principal, Role
from contracts.errors import Forbidden
from contracts.message import JsonObject
from contracts.spec import CopyDirectory, ForkOf, GitWorktree, SandboxSpec, merge
from services.gateway.desk import Desk


async def in_scope(
    desk: Desk, principal: Principal, sandbox: str, spec: JsonObject, origin: SandboxSpec | None = None
) -> JsonObject:
    """The specification, with the project and the labels that their scope asks for; `origin` is that of a fork.

    Raises `Invalid` naming the field, `Forbidden` for a sandbox that would be out of their sight or reaches into the
    node, `SandboxNotFound` for a fork of one that they may not see.
    """
    # The node lays it over defaults of its own, which every field of it has to fit as well.
    asked = merge(SandboxSpec(), codec.encode(spec))
    if not _reaches_everything(principal):
        _require_reach(asked, desk.settings.sandbox)
        spec = _without_empty_runtime(spec)
    if isinstance(asked.workspace.source, ForkOf):
        await desk.sandbox(principal, asked.workspace.source.sandbox)
    return _labelled(principal, sandbox, _of_project(principal, spec, asked, origin), asked)


def _reaches_everything(principal: Principal) -> bool:
    """To run commands in sandboxes is not to read what lies on their host: that takes an admin of everything."""
    return principal.role.covers(Role.ADMIN) and principal.scope.everything


def _without_empty_runtime(spec: JsonObject) -> JsonObject:
    """`null` is no runtime: laid over the node's it would be the engine's own, which may be less of a wall."""
    docker = spec.get("docker")
    if not isinstance(docker, dict) or docker.get("runtime", "") is not None:
        return spec
    return {**spec, "docker": {key: value for key, value in docker.items() if key != "runtime"}}


def _require_reach(asked: SandboxSpec, given: SandboxSpec) -> None:
    """What the node gives to every sandbox is for everybody. Raises `Forbidden`."""
    for field, reaches in _reaching(asked, given).items():
        if reaches:
            raise Forbidden(f"spec.{field}: what is the node's own takes a token of role admin, without a scope")


def _reaching(asked: SandboxSpec, given: SandboxSpec) -> dict[str, bool]:
    source, environment = asked.workspace.source, asked.environment
    names = {*SandboxSpec().environment.passthrough, *given.environment.passthrough}
    return {
        "workspace.source": isinstance(source, CopyDirectory | GitWorktree) and source != given.workspace.source,
        "docker.runtime": asked.docker.runtime not in (None, given.docker.runtime),
        "docker.mounts": not set(asked.docker.mounts) <= set(given.docker.mounts),
        "environment.inherit_all": environment.inherit_all and not given.environment.inherit_all,
        "environment.passthrough": not names.issuperset(environment.passthrough),
        "secrets": not set(asked.secrets) <= set(given.secrets),
    }


def _of_project(principal: Principal, spec: JsonObject, asked: SandboxSpec, origin: SandboxSpec | None) -> JsonObject:
    """What is made is counted for a project: theirs, never one that they only know the name of. Raises `Forbidden`."""
    projects = principal.scope.projects
    if not projects:
        return spec
    wanted = asked.project_id or (origin and origin.project_id) or (projects[0] if len(projects) == 1 else None)
    if wanted not in projects:
        raise Forbidden(f"spec.project_id: the token of {principal.subject} is for {_listed(projects)}")
    return {**spec, "project_id": wanted}


def _listed(projects: tuple[str, ...]) -> str:
    return f"project {projects[0]}" if len(projects) == 1 else f"one of the projects {', '.join(projects)}"


def _labelled(principal: Principal, sandbox: str, spec: JsonObject, asked: SandboxSpec) -> JsonObject:
    scope = principal.scope
    if scope.of_whole_projects or sandbox in scope.sandboxes:
        return spec
    if not scope.labels:
        raise Forbidden(f"{principal.subject} may only use the sandboxes that its token names")
    other = next((key for key, value in scope.labels.items() if asked.labels.get(key, value) != value), None)
    if other is not None:
        raise Forbidden(f"{principal.subject} may only use sandboxes with the label {other}={scope.labels[other]}")
    return {**spec, "labels": {**asked.labels, **scope.labels}}

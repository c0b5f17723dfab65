"""What a project's devcontainer.json may not ask for. The project is not trusted: it may be what the agent wrote."""

from collections.abc import Mapping
from typing import Any

from contracts.errors import Invalid

REFUSED: dict[str, str] = {
    "initializeCommand": "it would run on the host",
    "mounts": "only the workspace is mounted",
    "workspaceMount": "the workspace is the sandbox's own",
    "runArgs": "how the container runs is the sandbox's to say",
    "privileged": "it would undo the sandbox",
    "capAdd": "a sandbox has no capabilities",
    "securityOpt": "it would undo the sandbox",
    "appPort": "a sandbox publishes no ports",
    "dockerComposeFile": "a sandbox is one container; use image or build",
    "service": "a sandbox is one container; use image or build",
    "runServices": "a sandbox is one container; use image or build",
}

TAKEN = frozenset({
    "image", "build", "dockerFile", "context", "features", "overrideFeatureInstallOrder", "containerEnv", "remoteEnv",
    "onCreateCommand", "updateContentCommand", "postCreateCommand", "postStartCommand", "waitFor",
})  # fmt: skip
"""What has an effect in a sandbox."""

PASSED_OVER = frozenset({
    "$schema", "name", "customizations", "extensions", "settings", "devPort", "forwardPorts", "portsAttributes",
    "otherPortsAttributes", "hostRequirements", "shutdownAction", "secrets", "postAttachCommand", "userEnvProbe",
    "workspaceFolder", "remoteUser", "containerUser", "updateRemoteUserUID", "overrideCommand", "init",
})  # fmt: skip
"""For editors, or decided by the sandbox: harmless, and without effect."""

REFUSED_FEATURES = ("docker-in-docker", "docker-outside-of-docker", "docker-from-docker", "kubectl-helm-minikube")

_UNDOING = ("privileged", "capAdd", "securityOpt", "mounts")


def check_properties(config: Mapping[str, Any], path: str) -> None:
    """Raises `Invalid` for a property that would reach out of the sandbox, or that nobody has judged yet."""
    for name, value in config.items():
        if name in REFUSED:
            if value:
                raise Invalid(f"{path}: `{name}` is refused: {REFUSED[name]}")
        elif name not in TAKEN and name not in PASSED_OVER:
            raise Invalid(f"{path}: `{name}` is not a property that sandboxes know")
    build = config.get("build")
    if isinstance(build, dict) and build.get("options"):
        raise Invalid(f"{path}: `build.options` is refused: how an image is built is the sandbox's to say")


def check_feature_name(name: str, path: str) -> None:
    """Raises `Invalid` for features that are there to reach the engine."""
    last = name.rstrip("/").rpartition("/")[2].partition(":")[0].partition("@")[0]
    if last.lower() in REFUSED_FEATURES:
        raise Invalid(f"{path}: feature `{name}` is refused: a sandbox has no Docker engine")


def check_metadata(entries: list[dict[str, Any]], image: str) -> None:
    """Raises `Invalid` where an image, or a feature built into it, asks for more than a sandbox gives."""
    for entry in entries:
        for name in _UNDOING:
            if entry.get(name):
                whose = f"feature `{entry['id']}`" if entry.get("id") else f"image {image}"
                raise Invalid(f"{whose} asks for `{name}`, which is refused: {REFUSED[name]}")

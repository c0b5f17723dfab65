"""What a project's devcontainer.json may not ask for. The project is not trusted: it may be what the agent wrote."""

import re
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

_CONTINUED = re.compile(r"[\\`][ \t]*\r?\n(?:[ \t]*(?:#[^\n]*)?\r?\n)*")
_FETCHES = re.compile(r"^\s*(?:ONBUILD\s+)*ADD\s", re.MULTILINE | re.IGNORECASE)
_FRONTEND = re.compile(r"^\s*(?:#|//)\s*syntax\s*=\s*(\S*)", re.MULTILINE | re.IGNORECASE)
_OWN_FRONTEND = re.compile(r"(?:docker\.io/)?docker/dockerfile(?::[\w.-]+)?(?:@sha256:[0-9a-f]+)?\Z")
_FRONTEND_ARGUMENT = "BUILDKIT_SYNTAX"


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


def check_dockerfile(text: str, arguments: Mapping[str, str], path: str) -> None:
    """Raises `Invalid` for what the builder itself would fetch, from wherever the host can reach: only what runs in
    the build is without network.
    """
    if _FETCHES.search(_CONTINUED.sub("", text)):
        raise Invalid(f"{path}: `ADD` is refused without network, for it can fetch: use COPY")
    if any(not _OWN_FRONTEND.match(name) for name in _FRONTEND.findall(text)) or text.lstrip().startswith("{"):
        raise Invalid(f"{path}: `syntax` is refused, but for docker/dockerfile: how an image is built is the sandbox's")
    if _FRONTEND_ARGUMENT in arguments:
        raise Invalid(f"{path}: `{_FRONTEND_ARGUMENT}` is refused: how an image is built is the sandbox's to say")

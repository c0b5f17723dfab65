"""What two specifications must share for a blank made for one to serve the other."""

import hashlib

import msgspec

from contracts.spec import Isolation, SandboxSpec


def shape_of(spec: SandboxSpec) -> str:
    """Everything that is fixed when a sandbox starts. What is filled in or decided later does not count."""
    fixed: list[object] = [spec.isolation, spec.resources, spec.network.mode, spec.workspace.path]
    if spec.isolation is not Isolation.LOCAL:
        fixed.append(spec.docker)
    if spec.isolation is Isolation.DEVCONTAINER:
        fixed.append(spec.devcontainer)
    return hashlib.sha256(msgspec.json.encode(fixed)).hexdigest()[:16]

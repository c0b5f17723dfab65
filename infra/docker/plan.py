"""What a container is to be, and the words in which the engine wants it."""

from typing import Any

from msgspec import Struct


class BindMount(Struct, frozen=True, kw_only=True):
    source: str
    target: str
    read_only: bool = True


class VolumeMount(Struct, frozen=True, kw_only=True):
    volume: str
    target: str


class ContainerPlan(Struct, frozen=True, kw_only=True):
    """A hardened container: what is not named here is off."""

    image: str
    command: tuple[str, ...]
    user: str
    working_dir: str
    hostname: str
    labels: dict[str, str]
    network: str
    memory_bytes: int
    cpus: float
    pids: int
    mounts: tuple[BindMount | VolumeMount, ...]
    tmpfs: dict[str, str]
    ulimits: dict[str, int]
    runtime: str | None = None
    oom_score_adj: int = 0
    stop_signal: str = "SIGTERM"


def engine_body(plan: ContainerPlan) -> dict[str, Any]:
    return {
        "Image": plan.image,
        "Entrypoint": list(plan.command),
        "Cmd": [],
        "User": plan.user,
        "WorkingDir": plan.working_dir,
        "Hostname": plan.hostname,
        "Labels": plan.labels,
        "Healthcheck": {"Test": ["NONE"]},
        "StopSignal": plan.stop_signal,
        "HostConfig": _host_config(plan),
    }


def _host_config(plan: ContainerPlan) -> dict[str, Any]:
    config: dict[str, Any] = {
        "Memory": plan.memory_bytes,
        "MemorySwap": plan.memory_bytes,
        "NanoCpus": round(plan.cpus * 1e9),
        "PidsLimit": plan.pids,
        "Ulimits": [{"Name": name, "Soft": most, "Hard": most} for name, most in sorted(plan.ulimits.items())],
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges:true"],
        "ReadonlyRootfs": True,
        "Tmpfs": plan.tmpfs,
        # The command is its own: an engine may be set to put another before it.
        "Init": False,
        "NetworkMode": plan.network,
        "IpcMode": "private",
        "CgroupnsMode": "private",
        "RestartPolicy": {"Name": "no"},
        "LogConfig": {"Type": "none"},
        "OomScoreAdj": plan.oom_score_adj,
        "Mounts": [_mount(mount) for mount in plan.mounts],
    }
    return config if plan.runtime is None else {**config, "Runtime": plan.runtime}


def _mount(mount: BindMount | VolumeMount) -> dict[str, Any]:
    if isinstance(mount, VolumeMount):
        options = {"NoCopy": True}
        return {"Type": "volume", "Source": mount.volume, "Target": mount.target, "VolumeOptions": options}
    # What is mounted beneath a read-only mount would stay writable.
    return {
        "Type": "bind",
        "Source": mount.source,
        "Target": mount.target,
        "ReadOnly": mount.read_only,
        "BindOptions": {"NonRecursive": mount.read_only},
    }

"""What holds each limit of a Docker sandbox, honestly."""

from contracts.spec import NetworkMode, SandboxSpec
from infra.docker.engine import EngineInfo
from infra.sandbox.base import Enforcement

NOT_ENFORCED = "not enforced"


def enforcement(spec: SandboxSpec, engine: EngineInfo) -> Enforcement:
    by = f"control group (v{engine.cgroup_version}) of the engine"
    return Enforcement(
        memory=_memory(by, engine),
        cpus=_cpus(by, spec.resources.cpus, engine),
        pids=by if engine.pids_limit else NOT_ENFORCED,
        disk="watched every few seconds; RLIMIT_FSIZE per file",
        timeout="watched",
        network=_network(spec.network.mode),
    )


def held_cpus(asked: float, engine: EngineInfo) -> float:
    """The engine refuses more than the machine has."""
    return min(asked, float(engine.cpus))


def _memory(by: str, engine: EngineInfo) -> str:
    if not engine.memory_limit:
        return NOT_ENFORCED
    return by if engine.swap_limit else f"{by}; swap is not counted"


def _cpus(by: str, asked: float, engine: EngineInfo) -> str:
    if not engine.cpu_quota:
        return NOT_ENFORCED
    return by if held_cpus(asked, engine) == asked else f"{by}, at the {engine.cpus} that the machine has"


def _network(mode: NetworkMode) -> str:
    match mode:
        case NetworkMode.FULL:
            return "the engine's bridge: everything that the host can reach"
        case NetworkMode.RESTRICTED:
            return "loopback only; out by name only, through egress"
        case NetworkMode.NONE:
            return "loopback only"

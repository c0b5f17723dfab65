"""The files of tests that take longest, in the order in which they are begun.

One that began last would go on alone when all others are done. Begun first, they are over by then.
"""

LONGEST = (
    "tests/compose/test_upgrade.py",
    "tests/cluster_faults/test_chaos.py",
    "tests/agents/conformance/test_openhands.py",
    "tests/agents/conformance/test_claude.py",
    "tests/conformance/test_ordinary_user.py",
    "tests/cluster_faults/test_replicated_log.py",
    "tests/cluster/test_raising.py",
    "tests/cluster/test_three.py",
    "tests/faults/test_docker_kills.py",
    "tests/conformance/test_lifecycle.py",
    "tests/keeper/test_docker_lives.py",
    "tests/agents/scripted/test_playing.py",
    "tests/agents/claude/test_run.py",
    "tests/agents/cli/test_command_line.py",
    "tests/agents/acp/test_runs.py",
    "tests/recovery/test_causes.py",
    "tests/egress/test_attaching.py",
    "tests/manifest/test_toolchain.py",
    "tests/cli/test_node.py",
    "tests/keeper/test_docker_commands.py",
    "tests/services/test_hostile_bus.py",
    "tests/worktree/test_ordinary_user.py",
    "tests/soak/test_soak.py",
    "tests/bench/test_benchmarks.py",
    "tests/recovery/test_many_kills.py",
    "tests/keeper/test_keeper_process.py",
    "tests/files/test_ordinary_user.py",
    "tests/bench/test_docker_figures.py",
    "tests/conformance/test_exec.py",
    "tests/devcontainer/test_provider.py",
    "tests/recovery/test_two_nodes.py",
    "tests/docker/test_deaths.py",
)


def rank(nodeid: str) -> int:
    """For `sorted`: the longest first, the others as they are."""
    file = nodeid.partition("::")[0]
    return LONGEST.index(file) if file in LONGEST else len(LONGEST)

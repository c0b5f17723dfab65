"""No secret of the host's environment is readable inside."""

import os
from pathlib import Path

from contracts.spec import ALWAYS_BLOCKED, DEFAULT_PASSTHROUGH, Environment, SandboxSpec
from tests.conformance.inside import a_sandbox
from tests.security.tiers import on_each_tier

SECRET = "hunter2-of-the-host"
RECORDS = {"local": "sandboxes/sb-1/runtime.json", "docker": "containers/sandboxes/sb-1.json"}
CLOSED = {"local": "sandboxes/sb-1/control", "docker": "containers/sandboxes"}


@on_each_tier
async def test_secrets_are_absent_however_they_are_asked_for(tmp_path: Path, name: str) -> None:
    host = dict.fromkeys((*ALWAYS_BLOCKED, "GITHUB_TOKEN", "CLOCHE_PASSWORD", "MY_OWN"), SECRET)
    wanted = (*DEFAULT_PASSTHROUGH, *ALWAYS_BLOCKED, "MY_OWN")
    policy = Environment(
        passthrough=wanted, blocked=("MY_OWN",), set=dict.fromkeys(ALWAYS_BLOCKED, SECRET), inherit_all=True
    )
    async with a_sandbox(tmp_path, SandboxSpec(environment=policy), name, **host) as inside:
        result = await inside.sh("env; cat /proc/*/environ | tr '\\0' '\\n'")
        assert "IS_SANDBOXED=true" in result.out
        assert SECRET not in result.out
        assert not any(f"{name}=" in result.out for name in host)


@on_each_tier
async def test_the_environment_of_the_service_does_not_leak(tmp_path: Path, name: str) -> None:
    async with a_sandbox(tmp_path, name=name) as inside:
        names = {line.partition("=")[0] for line in (await inside.run("env")).out.splitlines()}
        assert names == {*(await inside.provider.environment("sb-1")), "CLOCHE_EXEC"}


@on_each_tier
async def test_the_record_with_its_values_is_for_the_owner_only(tmp_path: Path, name: str) -> None:
    async with a_sandbox(tmp_path, name=name) as inside:
        record = tmp_path / RECORDS[name]
        assert record.stat().st_mode & 0o077 == 0
        assert record.stat().st_uid == os.geteuid()
        for directory in (record.parent, inside.workspace.parent, tmp_path / CLOSED[name]):
            assert directory.stat().st_mode & 0o077 == 0, directory

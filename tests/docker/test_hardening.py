"""What a Docker sandbox cannot do, seen from inside."""

from pathlib import Path

import pytest

from contracts.errors import Invalid, SandboxStartFailed
from contracts.spec import Docker, Mount, Network, NetworkMode, Resources
from tests.docker.containers import a_provider, a_sandbox, engine, engine_client, request, run, sh, spec, with_docker
from tests.images import busybox, debian


async def test_the_limits_are_the_ones_that_were_asked_for(tmp_path: Path) -> None:
    wanted = spec(resources=Resources(memory_mb=640, cpus=0.5, pids=77, disk_mb=2048))
    async with a_sandbox(tmp_path, wanted) as provider:
        async with engine_client() as docker:
            container = (await provider.target("sb-1")).container
            host = (await docker.containers.container(container).show())["HostConfig"]
        assert (host["Memory"], host["MemorySwap"]) == (640 << 20, 640 << 20)
        assert (host["NanoCpus"], host["PidsLimit"]) == (500_000_000, 77)
        seen = await sh(
            provider,
            "for f in memory/memory.limit_in_bytes pids/pids.max cpu/cpu.cfs_quota_us memory.max pids.max cpu.max; "
            "do cat /sys/fs/cgroup/$f 2>/dev/null; done; ulimit -f; ulimit -c",
        )
        words = seen.out.split()
        assert {str(640 << 20), "77", "50000"} <= set(words)
        assert words[-2:] == [str((2048 << 20) // 512), "0"]


async def test_a_fork_bomb_stops_at_its_limit(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path, spec(resources=Resources(memory_mb=512, pids=40))) as provider:
        bomb = await sh(provider, "i=0; while [ $i -lt 100 ]; do sleep 100 & i=$((i+1)); done; echo all began")
        assert "all began" not in bomb.out
        assert (await provider.stats("sb-1")).pids <= 40


async def test_a_memory_hog_is_killed_and_counted_and_the_sandbox_lives(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path, spec(debian())) as provider:
        hog = await run(provider, "python3", "-c", "x = bytearray(700 << 20)")
        assert hog.code == 137
        assert (await provider.stats("sb-1")).oom_kills == 1
        assert (await sh(provider, "echo alive")).out == "alive\n"


async def test_nothing_is_privileged(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path) as provider:
        status = (await sh(provider, "cat /proc/self/status")).out
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            assert int(fields[name], 16) == 0
        assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")
        assert set(fields["Uid"].split()) == {"1000"}
        assert set(fields["Gid"].split()) == {"1000"}
        assert (await run(provider, "hostname")).out == "sandbox\n"


async def test_only_the_workspace_and_tmp_can_be_written_and_tmp_not_executed(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path) as provider:
        tried = await sh(
            provider, "for d in / /bin /etc /proc /sys /run /var; do touch $d/x 2>/dev/null && echo $d; done"
        )
        assert tried.out == ""
        root = [line.split() for line in (await sh(provider, "cat /proc/mounts")).out.splitlines()]
        options = {line[1]: set(line[3].split(",")) for line in root}
        assert "ro" in options["/"]
        assert {"noexec", "nosuid", "nodev", "size=524288k"} <= options["/tmp"]
        copied = await sh(provider, "cp /bin/busybox /tmp/true && /tmp/true")
        assert (copied.code, "Permission denied" in copied.out) == (126, True)
        assert (await sh(provider, "cp /bin/busybox true && ./true")).code == 0


@pytest.mark.parametrize("mode", [NetworkMode.NONE, NetworkMode.RESTRICTED])
async def test_there_is_no_network_but_loopback(tmp_path: Path, mode: NetworkMode) -> None:
    async with a_sandbox(tmp_path, spec(network=Network(mode=mode))) as provider:
        assert (await sh(provider, "ls /sys/class/net")).out == "lo\n"
        assert (await sh(provider, "cat /proc/net/route | wc -l")).out.strip() == "1"


async def test_nothing_of_the_host_is_mounted_but_the_workspace(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path) as provider, engine_client() as docker:
        shown = await docker.containers.container((await provider.target("sb-1")).container).show()
        mounts = {mount["Destination"]: mount["RW"] for mount in shown["Mounts"]}
        assert mounts == {"/workspace": True, "/.cloche-idle": False, "/opt/cloche/bin": False}
        assert (await sh(provider, "ls /var/run/docker.sock /run/docker.sock 2>/dev/null")).out == ""
        assert "docker.sock" not in (await sh(provider, "cat /proc/mounts")).out


async def test_the_idle_process_cannot_be_changed_from_inside(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path) as provider:
        tried = await sh(provider, "echo x > /.cloche-idle; chmod 777 /.cloche-idle; rm /.cloche-idle")
        assert tried.out.count("Read-only file system") + tried.out.count("Permission denied") == 3


async def test_a_mount_that_was_asked_for_is_there_and_read_only_unless_said(tmp_path: Path) -> None:
    shared, writable = tmp_path / "shared", tmp_path / "writable"
    for directory in (shared, writable):
        directory.mkdir()
        directory.chmod(0o777)
        (directory / "file").write_text("theirs\n")
    mounts = (
        Mount(source=str(shared), target="/mnt/shared"),
        Mount(source=str(writable), target="/mnt/writable", read_only=False),
    )
    async with a_sandbox(tmp_path / "data", with_docker(mounts=mounts)) as provider:
        seen = await sh(provider, "cat /mnt/shared/file; echo x 2>/dev/null > /mnt/shared/new || echo no")
        assert seen.out.startswith("theirs\nno\n")
        assert (await sh(provider, "echo x > /mnt/writable/new")).code == 0
    assert (writable / "new").exists()
    assert not (shared / "new").exists()


async def test_mounts_of_what_is_kept_are_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    link = tmp_path / "link"
    link.symlink_to("/etc")
    socket = engine().removeprefix("unix://")
    kept = ("/", "/proc", "/proc/1", "/sys", "/dev", "/dev/shm", "/etc", "/etc/passwd", "/root", "/var/run", "/run")
    ours = (socket, str(Path(socket).parent), str(data), str(tmp_path), str(data / "containers"), str(link), "/none")
    async with a_provider(data) as provider:
        async with engine_client() as docker:
            root = (await docker.system.info())["DockerRootDir"]
        for source in (*kept, *ours, "/tmp/../etc", "/var", "/var/lib/docker", root, f"{root}/volumes", "//etc"):
            for read_only in (True, False):
                mount = Mount(source=source, target="/mnt/x", read_only=read_only)
                with pytest.raises(Invalid, match=r"docker\.mounts"):
                    await provider.create(request(wanted=with_docker(mounts=(mount,))))
        for target in ("/workspace", "/workspace/x", "/", "/proc/x", "/.cloche-idle", "/a/../b", "/a:b", "//proc/x"):
            (tmp_path / "fine").mkdir(exist_ok=True)
            mount = Mount(source=str(tmp_path / "fine"), target=target)
            with pytest.raises(Invalid, match=r"docker\.mounts"):
                await provider.create(request(wanted=with_docker(mounts=(mount,))))
        assert await provider.sandboxes() == ()


async def test_a_link_that_took_the_place_of_a_mount_is_not_followed_at_the_next_start(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    inner = shared / "inner"
    inner.mkdir(parents=True)
    mounts = (
        Mount(source=str(shared), target="/mnt/shared", read_only=False),
        Mount(source=str(inner), target="/mnt/inner"),
    )
    async with a_sandbox(tmp_path / "data", with_docker(mounts=mounts)) as provider:
        await provider.stop("sb-1", 0)
        inner.rmdir()
        inner.symlink_to("/etc")
        with pytest.raises(SandboxStartFailed, match=r"docker\.mounts"):
            await provider.start("sb-1")
        inner.unlink()
        inner.mkdir()
        await provider.start("sb-1")


async def test_a_volume_that_the_image_wants_is_memory_and_no_disk_of_the_host(tmp_path: Path) -> None:
    async with a_provider(tmp_path) as provider, engine_client() as docker:
        tag = "cloche-test/wants-a-volume"
        made = await docker.containers.create(
            {"Image": busybox(), "Cmd": ["true"]}, name=f"cloche-test-{tmp_path.name}"
        )
        try:
            await made.commit(repository=tag, tag=tmp_path.name, changes=["VOLUME /var/data"])
        finally:
            await made.delete(force=True)
        image = f"{tag}:{tmp_path.name}"
        try:
            await provider.create(request(wanted=spec(docker=Docker(image=image))))
            await provider.start("sb-1")
            assert "tmpfs /var/data tmpfs" in (await sh(provider, "cat /proc/mounts")).out
            await provider.remove("sb-1")
        finally:
            await docker.images.delete(image, force=True)

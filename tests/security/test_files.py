"""Nothing of the host's files can be read or written from inside."""

import os
from pathlib import Path

from tests.conformance.inside import Inside, a_provider, a_sandbox, request
from tests.security.tiers import on_each_tier

SECRET = "a secret of the host"


HIDDEN = (
    "/etc/shadow", "/root", "/home", "/var/log", "/srv", "/mnt", "/boot", "/sys", "/run/dbus", "/etc/ssh"
)  # fmt: skip


async def test_places_of_the_host_are_not_there(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path) as inside:
        for path in HIDDEN:
            result = await inside.run("ls", path)
            assert not result.ok
            assert "No such file" in result.err
        # Programs of agents, where the node has some.
        assert (await inside.sh("ls -A /opt /opt/cloche 2>/dev/null | sort -u | xargs")).out in (
            "\n",
            "/opt/cloche: /opt: bin cloche\n",
            "/opt: /opt/cloche: bin cloche\n",
        )


@on_each_tier
async def test_the_data_directory_and_other_sandboxes_are_not_there(tmp_path: Path, name: str) -> None:
    (tmp_path / "keeper").mkdir()
    (tmp_path / "keeper/spool").write_text(SECRET)
    async with a_provider(tmp_path, name) as provider:
        for sandbox in ("sb-1", "sb-2"):
            await provider.create(request(sandbox, on=name))
        mine, other = [await Inside(provider, sandbox).begin() for sandbox in ("sb-1", "sb-2")]
        assert (await other.sh(f"echo '{SECRET}' > /workspace/f; echo '{SECRET}' > /tmp/f")).ok
        for path in (tmp_path / "keeper/spool", other.workspace / "f", tmp_path / "sandboxes", tmp_path):
            assert not (await mine.run("cat", str(path))).ok
            assert not (await mine.run("ls", str(path))).ok
        result = await mine.sh(
            "cat /workspace/f /tmp/f; ls -A /workspace /tmp; grep -rs 'secret of the host' /run /etc /dev/shm"
        )
        assert SECRET not in result.out + result.err


@on_each_tier
async def test_a_link_out_of_the_workspace_leads_nowhere_inside(tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.write_text(SECRET)
    async with a_sandbox(tmp_path / "data", name=name) as inside:
        (inside.workspace / "link").symlink_to(outside)
        (inside.workspace / "up").symlink_to("../../../outside")
        result = await inside.sh("cat link up ../outside ../../outside ../../../../outside")
        assert not result.ok
        assert SECRET not in result.out


@on_each_tier
async def test_only_workspace_tmp_and_shared_memory_can_be_written(tmp_path: Path, name: str) -> None:
    script = """
import os
where = []
seen = set()
for top, directories, _ in os.walk("/"):
    if top.startswith("/proc"):
        directories.clear()
        continue
    try:
        os.close(os.open(top + "/probe", os.O_CREAT | os.O_WRONLY | os.O_EXCL))
        where.append(top)
    except OSError:
        pass
print(sorted(where))
"""
    async with a_sandbox(tmp_path, name=name) as inside:
        result = await inside.python(script)
        queues = ["/dev/mqueue"] if name == "docker" else []
        assert result.out == f"{[*queues, '/dev/shm', '/tmp', '/workspace']}\n", result.err


@on_each_tier
async def test_what_belongs_to_the_system_cannot_be_changed(tmp_path: Path, name: str) -> None:
    async with a_sandbox(tmp_path, name=name) as inside:
        ours = {"local": "/run/cloche/init.pyc", "docker": "/.cloche-idle"}[name]
        for path in ("/usr/bin/env", ours, "/etc/passwd", "/etc/hosts"):
            script = f"echo x >> {path} || rm -f {path} || mv /etc/group {path} || chmod 777 {path}"
            assert not (await inside.sh(script)).ok
            assert (await inside.run("test", "-s", path)).ok


@on_each_tier
async def test_the_parent_of_a_passed_directory_cannot_be_reached(tmp_path: Path, name: str) -> None:
    async with a_sandbox(tmp_path, name=name) as inside:
        script = """
import os
fd = os.open("/workspace", os.O_RDONLY)
for _ in range(30):
    fd = os.open("..", os.O_RDONLY, dir_fd=fd)
print(sorted(os.listdir(fd)) == sorted(os.listdir("/")))
"""
        assert (await inside.python(script)).out == "True\n"


@on_each_tier
async def test_device_files_are_the_harmless_ones(tmp_path: Path, name: str) -> None:
    async with a_sandbox(tmp_path, name=name) as inside:
        devices = set((await inside.sh("find /dev -type b -o -type c | grep -v /dev/pts")).out.split())
        assert devices <= {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "console")}


@on_each_tier
async def test_files_made_inside_are_never_roots(tmp_path: Path, name: str) -> None:
    async with a_sandbox(tmp_path, name=name) as inside:
        assert (await inside.sh("cp /bin/sh s; chmod 4755 s; mkfifo p; ln -s /etc/shadow l")).ok
        for name in ("s", "p", "l"):
            owner = (inside.workspace / name).lstat().st_uid
            assert owner != 0
            assert os.geteuid() in (0, owner)
        assert (await inside.sh("./s -c 'id -u'")).out == "1000\n"

import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from contracts.errors import Invalid, SandboxInvalidState
from infra.sandbox.ends import end_by_code
from infra.sandbox.local.liveness import hold_life_lock, is_life_lock_held
from infra.sandbox.local.processes import identify, is_alive, open_process, read_process
from infra.sandbox.local.record import load_record
from infra.sandbox.local.seccomp import seccomp_program
from infra.sandbox.workspace_path import check_workspace_path


def test_a_process_is_itself_and_no_other_with_its_number() -> None:
    me = identify(os.getpid())
    assert me is not None
    assert is_alive(me)
    assert not is_alive(msgspec.structs.replace(me, started=me.started + 1))
    assert open_process(msgspec.structs.replace(me, boot_id="another")) is None


def test_a_name_full_of_parentheses_is_read_right(tmp_path: Path) -> None:
    program = tmp_path / "a) R 1 (b"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([program, "1000"]) as process:
        found = read_process(process.pid)
        assert found is not None
        assert found.parent == os.getpid()
        process.kill()


def test_a_dead_process_that_nobody_reaped_is_not_alive() -> None:
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert identify(process.pid) is None
    process.wait()


def test_the_life_lock_lives_as_long_as_anything_that_inherited_it(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert not is_life_lock_held(path)
    descriptor = hold_life_lock(path)
    assert descriptor is not None
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stderr=descriptor) as heir:
        os.close(descriptor)
        assert is_life_lock_held(path)
        assert hold_life_lock(path) is None
        heir.kill()
    assert not is_life_lock_held(path)


def test_a_damaged_record_is_an_error_and_not_a_missing_sandbox(tmp_path: Path) -> None:
    path = tmp_path / "runtime.json"
    assert load_record(path) is None
    path.write_text('{"sandbox": 1')
    with pytest.raises(SandboxInvalidState, match="damaged"):
        load_record(path)


@pytest.mark.parametrize(
    "path", ["/", "/usr/x", "/etc", "/proc/1", "/a/../b", "/a//b", "/a/", "/run/cloche", "/a:b", "/a\nb"]
)
def test_a_workspace_never_covers_the_system(path: str) -> None:
    with pytest.raises(Invalid):
        check_workspace_path(path)


@pytest.mark.parametrize(
    ("code", "out_of_memory", "cause"),
    [(0, False, "exit"), (1, True, "exit"), (137, False, "killed"), (137, True, "oom"), (139, True, "killed")],
)
def test_the_cause_of_an_end_is_told_only_as_far_as_it_is_known(code: int, out_of_memory: bool, cause: str) -> None:
    end = end_by_code(code, "words", out_of_memory=out_of_memory)
    assert (end.cause, end.exit_code) == (cause, code)
    assert end.signal == (code - 128 if code > 128 else None)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_is_whole_instructions_and_short_enough_for_the_kernel(machine: str) -> None:
    program = seccomp_program(machine)
    assert program is not None
    assert len(program) % 8 == 0
    assert len(program) // 8 < 4096


def test_an_unknown_machine_has_no_filter_rather_than_a_wrong_one() -> None:
    assert seccomp_program("riscv64") is None

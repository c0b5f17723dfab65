"""What a service asks of the kernel for itself, seen from a process that has asked."""

import json
import subprocess
import sys

import pytest

from tests.services.node import ROOT

NOBODY = 65534
PROGRAM = """
import ctypes, json, os, resource, subprocess, sys
from infra.files.beneath import mount_of
from infra.own_process import settle

nobody, limits = int(sys.argv[1]), [resource.RLIMIT_NOFILE, resource.RLIMIT_CORE]
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 300))
os.setgroups([]), os.setresgid(nobody, nobody, nobody), os.setresuid(nobody, nobody, nobody)
# As after the start of a program: a change of the user alone has taken it away.
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
if sys.argv[2] == "settled":
    settle()
said = subprocess.run(["sh", "-c", "ulimit -Sn; ulimit -c"], capture_output=True, check=True).stdout
print(json.dumps([[resource.getrlimit(each) for each in limits], said.decode().split()]), flush=True)
assert mount_of(0).startswith(b"mnt_id:")
sys.stdin.read()
"""
LOOK = """
import os, sys
nobody = int(sys.argv[1])
os.setgroups([]), os.setresgid(nobody, nobody, nobody), os.setresuid(nobody, nobody, nobody)
open(f"/proc/{sys.argv[2]}/mem").close()
"""


@pytest.mark.parametrize("settled", [True, False])
def test_a_settled_process_has_its_descriptors_and_shows_its_memory_to_nobody(settled: bool) -> None:
    argv = [sys.executable, "-c", PROGRAM, str(NOBODY), "settled" if settled else "as it was"]
    with subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        [[files, core], inherited] = json.loads(process.stdout.readline())
        looked = subprocess.run(
            [sys.executable, "-c", LOOK, str(NOBODY), str(process.pid)], capture_output=True, check=False
        )
        process.stdin.close()
        assert process.wait() == 0
    assert files == ([300, 300] if settled else [64, 300])
    assert (looked.returncode == 0) is not settled, looked.stderr
    if settled:
        assert core == [0, 0]
        assert inherited == ["300", "0"]
        assert b"PermissionError" in looked.stderr

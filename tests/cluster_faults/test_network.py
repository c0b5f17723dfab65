"""The namespaces of the tests: made, cut, and never left behind."""

import subprocess

from tests.cluster_faults import network
from tests.cluster_faults.network import NAMED, PREFIX, Network


def test_what_a_killed_run_left_is_swept_by_the_next() -> None:
    gone = f"{PREFIX}4194303-s1"
    subprocess.run(["ip", "netns", "add", gone], check=True)
    network.sweep()
    assert not (NAMED / gone).exists()


def test_a_network_has_no_way_out_and_leaves_nothing() -> None:
    with Network(("one", "two")) as found:
        names = [found.namespace(host) for host in found.hosts]
        with found.inside("one"):
            ways = subprocess.run(["ip", "route"], capture_output=True, text=True, check=True).stdout.splitlines()
        assert [line.split()[0] for line in ways] == ["10.231.0.0/24"]
    assert not [name for name in names if (NAMED / name).exists()]

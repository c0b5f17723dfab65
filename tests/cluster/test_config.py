"""What `cloche nats config` writes."""

import json
import stat
import subprocess
from pathlib import Path

import pytest
from cryptography import x509

from contracts.errors import Invalid
from infra.embedded import process
from infra.nats import addresses
from infra.nats.certificates import Authority
from tests.cluster.command_line import cloche

COMMITTED = Path(__file__).parents[2] / "infra" / "nats" / "cluster"
THREE = ("--server", "n1=n1", "--server", "n2=n2", "--server", "n3=n3")


def _config(out: Path, *more: str) -> str:
    ran = cloche(out.parent / "data", "nats", "config", "--out", str(out), *more)
    assert ran.code == 0, ran.err
    return ran.out


def test_the_committed_servers_are_what_is_written(tmp_path: Path) -> None:
    _config(
        tmp_path, *THREE, "--make-certificates", "--place", "/etc/cloche/nats", "--store", "/var/lib/nats",
        "--monitor", "8222",
    )  # fmt: skip
    for name in ("n1.conf", "n2.conf", "n3.conf"):
        assert (tmp_path / name).read_text() == (COMMITTED / name).read_text()


def test_no_password_is_in_the_servers_own_files(tmp_path: Path) -> None:
    _config(tmp_path, *THREE, "--make-certificates")
    login = json.loads((tmp_path / "secrets" / "spawner.json").read_text())
    route = json.loads((tmp_path / "route.json").read_text())
    for name in ("n1.conf", "n2.conf", "n3.conf"):
        text = (tmp_path / name).read_text()
        assert login["password"] not in text
        assert route["password"] not in text
    assert login["password"] in (tmp_path / "accounts.conf").read_text()
    for file in tmp_path.rglob("*"):
        assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0, file


def test_a_second_time_keeps_passwords_and_certificates_and_lets_new_nodes_in(tmp_path: Path) -> None:
    before = _config(tmp_path, *THREE, "--make-certificates")
    kept = {file: file.read_bytes() for folder in ("secrets", "tls") for file in (tmp_path / folder).iterdir()}
    accounts = (tmp_path / "accounts.conf").read_text()
    after = _config(tmp_path, *THREE, "--make-certificates", "--node", "local", "--node", "second")
    assert {file: file.read_bytes() for file in kept} == kept
    assert "executor-second" not in accounts
    assert "executor-second" in (tmp_path / "accounts.conf").read_text()
    assert after == before.replace("CLOCHE_NODES=local", "CLOCHE_NODES=local,second")


def test_what_clients_need_is_printed_as_an_environment(tmp_path: Path) -> None:
    printed = _config(tmp_path, *THREE, "--make-certificates", "--verify-clients")
    assert printed.splitlines() == [
        "CLOCHE_URL=tls://n1:4222,tls://n2:4222,tls://n3:4222",
        f"CLOCHE_CREDS={tmp_path}/secrets",
        f"CLOCHE_CA={tmp_path}/tls/ca.pem",
        f"CLOCHE_CERT={tmp_path}/tls/client.pem",
        f"CLOCHE_KEY={tmp_path}/tls/client-key.pem",
        "CLOCHE_REPLICAS=3",
        "CLOCHE_NODES=local",
    ]
    assert "verify: true" in (tmp_path / "n1.conf").read_text().split("cluster {")[0]


def test_own_certificates_are_named_for_each_server(tmp_path: Path) -> None:
    files = ("--ca", "/pki/ca.pem", "--cert", "/pki/{server}.pem", "--key", "/pki/{server}.key")
    printed = _config(tmp_path, *THREE, *files, "--zone", "n1=a", "--zone", "n2=b", "--zone", "n3=c")
    conf = (tmp_path / "n2.conf").read_text()
    assert '"/pki/n2.pem"' in conf
    assert '"/pki/n2.key"' in conf
    assert 'server_tags: ["zone:b"]' in conf
    assert 'unique_tag: "zone:"' in conf
    assert not (tmp_path / "tls").exists()
    assert "CLOCHE_CA" not in printed


@pytest.mark.parametrize(
    "more",
    [
        ("--plain", "--monitor", "8222"),
        ("--make-certificates", "--verify-clients"),
        ("--make-certificates", *THREE, "--zone", "n1=a", "--zone", "n2=b", "--zone", "n3=c", "--monitor", "8222"),
        ("--plain", *THREE),
    ],
)
def test_the_server_takes_whatever_is_written(tmp_path: Path, more: tuple[str, ...]) -> None:
    _config(tmp_path, *more)
    tried = subprocess.run([process.binary(), "-t", "-c", tmp_path / "n1.conf"], capture_output=True, check=False)
    assert tried.returncode == 0, tried.stderr


@pytest.mark.parametrize("more", [(), ("--plain", "--make-certificates"), ("--ca", "ca.pem")])
def test_how_servers_are_secured_has_to_be_said_in_one_way(tmp_path: Path, more: tuple[str, ...]) -> None:
    ran = cloche(tmp_path, "nats", "config", "--out", str(tmp_path / "nats"), *THREE, *more)
    assert ran.code == 2
    assert "say one of --make-certificates" in ran.err
    assert not (tmp_path / "nats").exists()


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (["n1"], "no server"),
        (["n1=a b"], "no server"),
        (["n1=a:99999"], "no port"),
        (["n1=a", "n2=b"], "more than half"),
        (["n1=a", "n1=b", "n2=c"], "one name"),
        (["n1=a", "n2=a", "n3=a"], "one port"),
    ],
)
def test_servers_that_cannot_be_are_refused_in_words(said: list[str], why: str) -> None:
    with pytest.raises(Invalid, match=why):
        addresses.parse_all(said)


def test_one_server_does_not_become_a_cluster_on_the_same_store(tmp_path: Path) -> None:
    """It would delete every stream that it had alone."""
    _config(tmp_path / "nats", "--plain", "--store", "/var/lib/nats")
    assert 'store_dir: "/var/lib/nats"' in (tmp_path / "nats" / "n1.conf").read_text()
    ran = cloche(tmp_path, "nats", "config", "--out", str(tmp_path / "nats"), "--plain", *THREE)
    assert ran.code == 2
    assert "is for one alone" in ran.err
    _config(tmp_path / "three", "--plain", "--store", "/var/lib/nats", *THREE)
    assert 'store_dir: "/var/lib/nats/cluster"' in (tmp_path / "three" / "n1.conf").read_text()


def test_an_address_in_brackets_is_understood() -> None:
    found = addresses.parse("n1=[::1]:4223:6223")
    assert (found.host, found.port, found.route_port) == ("[::1]", 4223, 6223)


def test_a_certificate_is_made_again_when_its_host_changes(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    assert authority.ensure("n1", ["10.0.0.1"])
    assert not authority.ensure("n1", ["10.0.0.1"])
    assert authority.ensure("n1", ["10.0.0.2"])
    made = x509.load_pem_x509_certificate((tmp_path / "n1.pem").read_bytes())
    made.verify_directly_issued_by(x509.load_pem_x509_certificate((tmp_path / "ca.pem").read_bytes()))

"""What a local sandbox sees as its file system, as arguments for bubblewrap."""

import base64
import py_compile
import sys
import sysconfig
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from msgspec import Struct

from infra.agent_tools import INSIDE as TOOLS_INSIDE
from infra.sandbox.local.launch import STAGE

USER_NAME = "sandbox"
HOST_NAME = "sandbox"
"""The same in all of them: one that waits for its specification does not know its id yet."""
USER_ID = 1000
TMP_MB = 512
SHM_MB = 256
CODE_DIR = "/run/cloche"
INIT_SOURCES = tuple(Path(__file__).with_name(name) for name in ("init.py", "init_tree.py"))
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_ROOT_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC = (
    "alternatives", "bash.bashrc", "bash_completion.d", "ca-certificates", "ca-certificates.conf", "debian_version",
    "fonts", "inputrc", "java-*", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias", "localtime", "magic",
    "magic.mime", "mime.types", "os-release", "perl", "pki/ca-trust/extracted", "pki/tls/certs", "protocols",
    "python3*", "services", "shells", "ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone",
)  # fmt: skip
"""Nothing in here is secret on any distribution that we know."""


class Data(Struct, frozen=True):
    """Stands in the arguments for a descriptor that yields these bytes."""

    base64: str


Argument = str | Data


class Pieces(NamedTuple):
    """Host files that must be reachable for the sandbox's user, under the name that they get on the stage."""

    by_name: dict[str, Path]
    staged: bool

    def at(self, name: str) -> str:
        """Where bubblewrap finds it."""
        return f"{STAGE}/{name}" if self.staged else str(self.by_name[name])


class Interpreter(NamedTuple):
    """The Python that runs init inside."""

    program: str
    prefix: Path | None
    """Host directory to bind; None where it comes with /usr."""
    search_path: str


def interpreter() -> Interpreter:
    prefix = Path(sys.base_prefix).resolve()
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    if prefix.is_relative_to("/usr"):
        return Interpreter(str(prefix / "bin" / name), None, SYSTEM_PATH)
    inside = f"{CODE_DIR}/python"
    return Interpreter(f"{inside}/bin/{name}", prefix, f"{SYSTEM_PATH}:{inside}/bin")


def shell() -> str:
    return "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"


def file_system(pieces: Pieces, workspace: str, memory_mb: int) -> list[Argument]:
    # Files in memory outlive the commands that made them: filling both must leave memory for the rest.
    shm, tmp = min(SHM_MB, memory_mb // 4) << 20, min(TMP_MB, memory_mb // 2) << 20
    return [
        *_system(),
        *("--proc", "/proc", "--dev", "/dev"),
        *("--perms", "1777", "--size", str(shm), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"),  # noqa: S108
        *("--perms", "1777", "--size", str(tmp), "--tmpfs", "/tmp", "--symlink", "/tmp", "/var/tmp"),  # noqa: S108
        *_etc(workspace),
        *_code(pieces),
        *_agent_tools(pieces),
        *("--bind", pieces.at("workspace"), workspace),
        *("--remount-ro", "/"),
    ]


def _system() -> list[Argument]:
    arguments: list[Argument] = ["--ro-bind", "/usr", "/usr"]
    for name in _ROOT_LINKS:
        host = Path("/", name)
        if host.is_symlink():
            arguments += ["--symlink", str(host.readlink()), str(host)]
        elif host.is_dir():
            arguments += ["--ro-bind", str(host), str(host)]
    return arguments


def _etc(home: str) -> list[Argument]:
    arguments: list[Argument] = []
    for pattern in _ETC:
        for host in sorted(Path("/etc").glob(pattern)):
            arguments += ["--ro-bind-try", str(host), str(host)]
    for name, text in _etc_texts(home).items():
        arguments += ["--perms", "0444", "--ro-bind-data", data(text.encode()), f"/etc/{name}"]
    return arguments


def _etc_texts(home: str) -> dict[str, str]:
    return {
        "passwd": f"{USER_NAME}:x:{USER_ID}:{USER_ID}:sandbox:{home}:{shell()}\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
        "group": f"{USER_NAME}:x:{USER_ID}:\nnogroup:x:65534:\n",
        "hosts": f"127.0.0.1 localhost {HOST_NAME}\n::1 localhost\n",
        "hostname": f"{HOST_NAME}\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
    }


@cache
def compiled_init() -> dict[str, bytes]:
    """Init's files as the byte code of this very interpreter: compiling them anew would be a third of each start."""
    code: dict[str, bytes] = {}
    with TemporaryDirectory(prefix="cloche-init-") as directory:
        for source in INIT_SOURCES:
            target = Path(directory, f"{source.stem}.pyc")
            py_compile.compile(str(source), str(target), source.name, doraise=True)
            code[target.name] = target.read_bytes()
    return code


def _code(pieces: Pieces) -> list[Argument]:
    arguments: list[Argument] = []
    for name, code in compiled_init().items():
        arguments += ["--perms", "0444", "--ro-bind-data", data(code), f"{CODE_DIR}/{name}"]
    if "python" in pieces.by_name:
        arguments += ["--ro-bind", pieces.at("python"), f"{CODE_DIR}/python"]
        if sysconfig.get_config_var("Py_ENABLE_SHARED") and not Path("/usr/bin/python3").exists():
            # Its library is found under the name that the prefix has on the host.
            arguments += ["--symlink", f"{CODE_DIR}/python", str(pieces.by_name["python"])]
    return arguments


def _agent_tools(pieces: Pieces) -> list[Argument]:
    return ["--ro-bind", pieces.at("agent_tools"), TOOLS_INSIDE] if "agent_tools" in pieces.by_name else []


def data(content: bytes) -> Data:
    return Data(base64.b64encode(content).decode())

"""What a parked shell runs, and how to tell it its command. For busybox ash, dash and bash.

The shell reads one line, byte by byte as POSIX asks of `read`, so what follows is the command's stdin. The line is
shell code made here: every value is quoted, and a line break in it is the variable `N`. So every byte but NUL comes
through. The shell answers with one word before the command has its stdout.
"""

from collections.abc import Mapping

from msgspec import Struct

from infra.keeper.launch import LaunchFailed
from infra.keeper.protocol import Start

READY = "cloche"
OK = "OK"
MARKER = "CLOCHE_EXEC"
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
LONGEST_ARGUMENT = 128 * 1024 - 1
MOST_ARGUMENTS = 2 * 1024**2 - 16 * 1024
"""The kernel's limits of one string, and of all with their pointers at the usual stack size."""

ENV = ("LC_ALL=C", "BASH_ENV=", "ENV=")
"""For the shell itself: it works on bytes, and runs no start-up file that the image names."""

_WAIT = f"""\
N='
'
cloche_env=
command -v env >/dev/null 2>&1 && cloche_env=env
echo "{READY} $$ $cloche_env"
IFS= read -r cloche_line || exit 0
eval "$cloche_line"
"""

_LOOK_UP = """\
set -f
cd -P -- "$cloche_cwd" 2>/dev/null || { echo BAD_CWD; exit; }
cloche_word=NOT_FOUND
cloche_try() {
  if [ -f "$1" ] && [ -x "$1" ]; then cloche_word=OK; elif [ -e "$1" ]; then cloche_word=NOT_EXECUTABLE; fi
}
case $cloche_name in
*/*) cloche_try "$cloche_name" ;;
*)
  cloche_ifs=$IFS IFS=:
  for cloche_place in $cloche_path; do
    cloche_try "${cloche_place:-.}/$cloche_name"
    [ $cloche_word = OK ] && break
  done
  IFS=$cloche_ifs ;;
esac
echo $cloche_word
[ $cloche_word = OK ] || exit
"""

_BECOME = """\
[ $cloche_stdin = 1 ] || exec </dev/null
exec "$cloche_env" -i "$@"
"""

TERMINAL = f"""\
echo "{READY} $$ env"
IFS= read -r cloche_line || exit 0
cloche_cwd=$1 cloche_name=$2 cloche_path=${{PATH:-{DEFAULT_PATH}}}
shift
{_LOOK_UP}exec "$@"
"""
"""For a command with a terminal, given as arguments: it waits only until the terminal has its size. The variables of
the shell are the command's own here, so ours have names that nobody has.
"""

MOST_USUAL = 64 * 1024


class Usual(Struct, frozen=True):
    """What commands of a sandbox usually start with, given to a slot ahead: a shell takes microseconds for each byte
    of its line. The values go in as variables of ours, for a command line can be seen by everybody on the machine.
    """

    env: dict[str, str] = {}

    @property
    def script(self) -> str:
        words = b" ".join(quoted(f"{name}=") + b'"$cloche_%d"' % number for number, name in enumerate(self.env))
        path = f"cloche_path=$cloche_{list(self.env).index('PATH')}" if "PATH" in self.env else ""
        return f"set -- {words.decode()}\n{path}\n{_WAIT}{_LOOK_UP}{_BECOME}"

    @property
    def variables(self) -> list[str]:
        return [*ENV, *(f"cloche_{number}={value}" for number, value in enumerate(self.env.values()))]


def usual(env: Mapping[str, str]) -> Usual:
    """As much as can be given ahead: all or nothing."""
    given = {name: value for name, value in env.items() if name != MARKER}
    size = sum(len(name) + len(value) for name, value in given.items())
    if size > MOST_USUAL or not all(_is_plain(name) and _is_text(value) for name, value in given.items()):
        return Usual()
    return Usual(given)


def _is_plain(name: str) -> bool:
    return name.isascii() and name.isprintable() and name != "" and "=" not in name


def _is_text(value: str) -> bool:
    """The engine is told in JSON, which has no place for other bytes."""
    try:
        return b"\0" not in value.encode()
    except UnicodeEncodeError:
        return False


MEANINGS = {
    "NOT_FOUND": "No such file or directory",
    "NOT_EXECUTABLE": "Permission denied",
    "BAD_CWD": "No such directory, or not to be entered",
}


def quoted(text: str) -> bytes:
    """One word of shell code on one line, for text without NUL."""
    raw = text.encode("utf-8", "surrogateescape")
    return b"'" + raw.replace(b"'", b"'\\''").replace(b"\n", b"'\"$N\"'") + b"'"


def fits_shell(start: Start) -> bool:
    """False for what `env` would take for something else."""
    return "=" not in start.argv[0] and all(name and "=" not in name for name in start.env)


def environment(start: Start) -> list[str]:
    """The marker comes first: it ends the options of `env`, whatever the other names look like."""
    given = {name: value for name, value in start.env.items() if name != MARKER}
    return [f"{MARKER}={start.exec}", *(f"{name}={value}" for name, value in given.items())]


def command_line(start: Start, known: Usual) -> bytes:
    """The line that makes a parked shell become the command; it has been given what is `known`.

    Raises `LaunchFailed` for what no process can be given.
    """
    check(start)
    marker, *given = environment(start)
    settings = [b"cloche_cwd=" + quoted(_directory(start)), b"cloche_name=" + quoted(start.argv[0])]
    settings.append(b"cloche_stdin=%d" % start.stdin)
    path = start.env.get("PATH", DEFAULT_PATH)
    has_usual = known.env.keys() <= start.env.keys()
    if not has_usual or known.env.get("PATH") != path:
        settings.append(b"cloche_path=" + quoted(path))
    if has_usual:
        given = [word for word in given if known.env.get(word.partition("=")[0]) != word.partition("=")[2]]
    words = [quoted(marker), b'"$@"' if has_usual else b"", *(quoted(word) for word in (*given, *start.argv))]
    return b" ".join(settings) + b"; set -- " + b" ".join(words) + b"\n"


def terminal_words(start: Start) -> list[str]:
    """What follows `sh -c` for a command with a terminal. Raises `LaunchFailed` for what no process can be given."""
    check(start)
    return [TERMINAL, "sh", _directory(start), *start.argv]


def _directory(start: Start) -> str:
    """A name such as `-` means something to `cd` unless it is a path."""
    return start.cwd if start.cwd.startswith("/") else f"./{start.cwd}"


def check(start: Start) -> None:
    """Raises `LaunchFailed` for what no process can be given, and no shell needs to be asked."""
    if not start.argv[0]:
        raise LaunchFailed("NOT_FOUND", MEANINGS["NOT_FOUND"])
    if not start.cwd:
        raise LaunchFailed("BAD_CWD", MEANINGS["BAD_CWD"])
    words = [*environment(start), *start.argv]
    if any("\0" in word for word in (*words, start.cwd)):
        raise LaunchFailed("FAILED", "text without NUL expected")
    sizes = [len(word.encode("utf-8", "surrogateescape")) for word in words]
    if max(sizes) > LONGEST_ARGUMENT or sum(sizes) + 9 * len(sizes) > MOST_ARGUMENTS:
        raise LaunchFailed("FAILED", "Argument list too long")


def script_line(script: str, **variables: str) -> bytes:
    """The line that makes a parked shell run a script of ours, and end."""
    settings = b" ".join(name.encode() + b"=" + quoted(value) for name, value in variables.items())
    return settings + b"; eval " + quoted(script) + b"; exit\n"

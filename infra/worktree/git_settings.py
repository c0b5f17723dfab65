"""How the host's git is to behave in a cage, whatever the repository says.

The environment wins over a repository's own configuration. The cage is what keeps us safe; these settings keep git
from even trying to run what it finds.
"""

PROGRAM = "/usr/bin/git"

SYSTEM_CONFIG = b"[safe]\n\tdirectory = *\n"
"""As a file, because older versions of git believe `safe.directory` only there."""

_OVERRIDES: dict[str, str] = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.untrackedCache": "false",
    "core.attributesFile": "/dev/null",
    # Who owns a file looks different in a user namespace; all else would be hashed again.
    "core.checkStat": "minimal",
    "core.bigFileThreshold": "32m",
    "core.quotePath": "false",
    "core.pager": "cat",
    "core.sshCommand": "/bin/false",
    "credential.helper": "",
    "gpg.program": "/bin/false",
    "commit.gpgSign": "false",
    "diff.ignoreSubmodules": "dirty",
    "submodule.recurse": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "transfer.fsckObjects": "true",
    "fetch.fsckObjects": "true",
    "fetch.writeCommitGraph": "false",
    "pack.threads": "2",
    "pack.windowMemory": "256m",
}

_ALWAYS: dict[str, str] = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "file",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "/bin/false",
    "GIT_ASKPASS": "/bin/false",
    "GIT_SSH_COMMAND": "/bin/false",
}


def environment() -> dict[str, str]:
    overrides = {"GIT_CONFIG_COUNT": str(len(_OVERRIDES))}
    for at, (key, value) in enumerate(_OVERRIDES.items()):
        overrides |= {f"GIT_CONFIG_KEY_{at}": key, f"GIT_CONFIG_VALUE_{at}": value}
    return {**_ALWAYS, **identity("cloche"), **overrides}


def identity(name: str) -> dict[str, str]:
    """Who commits."""
    email = email_of(name)
    return {
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": email,
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": email,
    }


def email_of(name: str) -> str:
    """An address that can be nobody's."""
    return f"{name}@cloche.invalid"

"""The repository in a workspace, after the sandbox had its way with it.

Nothing of its configuration, hooks, index and attributes is used: work happens in a fresh repository in the cage's own
memory, which borrows only the workspace's objects and files. Its refs are read, and written, by git's plumbing.
"""

import os
from pathlib import Path
from typing import IO, NamedTuple

from contracts.errors import Conflict, Invalid, SandboxInvalidState
from infra.worktree.cage import SCRATCH, Bind, Cage, Done, User
from infra.worktree.git_settings import identity
from infra.worktree.naming import is_commit, object_format

INSIDE = "/workspace"
TRUE_OBJECTS = "/objects"
BUNDLE_SECONDS = 120.0

_NO_BASE, _NO_BRANCH, _MOVED = 41, 42, 43
_FRESH = f"""
set -eu
base=$1 format=$2 branch=refs/heads/$3
theirs() {{ GIT_DIR={INSIDE}/.git GIT_WORK_TREE={INSIDE} git "$@"; }}
git init --quiet --bare --template= --object-format="$format" {SCRATCH}/git
ours() {{ GIT_DIR={SCRATCH}/git GIT_WORK_TREE={INSIDE} git "$@"; }}
"""
_DIFF = f"""{_FRESH}
shift 3
# Objects of the workspace may be forged, to hide a change. They serve only where the true ones are gone.
export GIT_ALTERNATE_OBJECT_DIRECTORIES={TRUE_OBJECTS}
ours cat-file -e "$base^{{tree}}" 2>/dev/null || GIT_ALTERNATE_OBJECT_DIRECTORIES={INSIDE}/.git/objects
ours read-tree "$base" || exit {_NO_BASE}
ours add --intent-to-add -- .
ours diff --no-ext-diff --no-textconv --no-color --ignore-submodules=dirty "$@" "$base" --
"""
_TIP = f"""
export GIT_OBJECT_DIRECTORY={INSIDE}/.git/objects
tip=$(theirs rev-parse --verify --quiet "$branch^{{commit}}") || exit {_NO_BRANCH}
"""
_COMMIT = f"""{_FRESH}{_TIP}
ours read-tree "$tip" || exit {_NO_BRANCH}
ours add --all -- .
tree=$(ours write-tree)
[ "$tree" != "$(ours rev-parse --verify "$tip^{{tree}}")" ] || exit 0
new=$(ours commit-tree -p "$tip" -m "$4" "$tree")
theirs update-ref -m 'commit: cloche' "$branch" "$new" "$tip" || exit {_MOVED}
echo "$new"
# Else `git status` inside would show the commit taken back. Somebody inside may hold the index; then it stays theirs.
if [ "$(theirs symbolic-ref --quiet HEAD)" = "$branch" ]; then
    theirs read-tree "$new" || :
fi
"""
_BUNDLE = f"""{_FRESH}{_TIP}
ours cat-file -e "$base^{{commit}}" || exit {_NO_BASE}
[ "$(ours rev-list --count "$base..$tip")" != 0 ] || exit 0
ours update-ref "$branch" "$tip"
ours bundle create --quiet - "^$base" "$branch"
"""


class Workspace(NamedTuple):
    path: Path
    owner: User | None
    """None where we are not root, and it is our own."""
    base: str
    """The commit that it began from, as the log has it."""
    branch: str
    agent: str

    def diff(self, *, stat: bool, most_bytes: int, objects: Path | None = None) -> Done:
        """Tracked and untracked files, not ignored ones, against the base as `objects` of the source have it.

        Raises `SandboxInvalidState` when neither they nor the workspace's own have the base.
        """
        options = ["--stat=120"] if stat else []
        return self._checked(self._run(_DIFF, *options, most_out=most_bytes, objects=objects))

    def commit(self, message: str) -> str | None:
        """Everything as it is now, on top of the branch. None when there is nothing to commit.

        Raises `Invalid` for an empty message, `Conflict` when the branch moved meanwhile, `SandboxInvalidState` for a
        repository that was destroyed.
        """
        if not message.strip():
            raise Invalid("a commit needs a message")
        done = self._checked(self._run(_COMMIT, message, writable=True))
        made = done.out.decode("ascii", "replace").strip()
        if made and not is_commit(made):
            raise SandboxInvalidState("the workspace's repository cannot be used: git made no commit of it")
        return made or None

    def bundle(self, into: IO[bytes], most_bytes: int) -> bool:
        """The commits since the base. False when there are none. Raises `SandboxInvalidState`."""
        self._checked(self._run(_BUNDLE, stdout=into, file_bytes=most_bytes, seconds=BUNDLE_SECONDS))
        return os.fstat(into.fileno()).st_size > 0

    def _checked(self, done: Done) -> Done:
        if done.code == 0 or done.truncated:
            return done
        if done.code == _MOVED:
            raise Conflict(f"branch {self.branch!r} moved in the workspace while it was committed: try again")
        words = {
            _NO_BASE: f"it lacks the commit that it began from, {self.base}",
            _NO_BRANCH: f"it has no branch {self.branch!r}",
        }
        why = words.get(done.code, done.complaint or f"git ended with code {done.code}")
        raise SandboxInvalidState(f"the workspace's repository cannot be used: {why}")

    def _run(
        self,
        script: str,
        *arguments: str,
        writable: bool = False,
        stdout: IO[bytes] | None = None,
        objects: Path | None = None,
        most_out: int = 1 << 20,
        file_bytes: int = 1 << 34,
        seconds: float = 60.0,
    ) -> Done:
        try:
            binds = [Bind.of(self.path, INSIDE, writable=writable)]
            binds += [Bind.of(objects, TRUE_OBJECTS)] if objects else []
        except OSError as error:
            raise SandboxInvalidState(f"the workspace is gone: {error.strerror}") from error
        cage = Cage(tuple(binds), self.owner, INSIDE, seconds=seconds, file_bytes=file_bytes)
        given = (self.base, object_format(self.base), self.branch, *arguments)
        argv = ["sh", "-c", script, "sh", *given]
        return cage.run(argv, env=identity(self.agent), stdout=stdout, most_out=most_out)

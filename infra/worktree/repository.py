"""The repository of the host that a workspace is made from, and that the agent's branch comes back to.

Also this one is only ever touched in a cage, as its own owner: it may belong to somebody whose configuration must not
run with our rights.
"""

import os
import re
import stat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, NamedTuple

from contracts.errors import Conflict, Invalid, SandboxCreationFailed, SandboxInvalidState
from infra.worktree.cage import MB, Bind, Cage, Done, User
from infra.worktree.naming import object_format

INSIDE = "/repository"
INCOMING = "/incoming"
SLOW_SECONDS = 600.0
LISTING_BYTES = 256 * MB
_ENV = {"GIT_DIR": f"{INSIDE}/.git", "GIT_WORK_TREE": INSIDE}
_SIZE = re.compile(rb"^\d+ \w+ \w+ +(\d+)\t", re.MULTILINE)

_NOT_A_REPOSITORY, _NO_COMMIT, _BAD_BRANCH, _DIRTY, _BRANCH_AHEAD, _BRANCH_IN_THE_WAY = 21, 22, 23, 24, 25, 26
_LOOK = f"""
set -eu
ref=$1 branch=$2
git rev-parse --git-dir >/dev/null 2>&1 || exit {_NOT_A_REPOSITORY}
commit=$(git rev-parse --verify --quiet --end-of-options "$ref^{{commit}}") || exit {_NO_COMMIT}
[ "$(git check-ref-format --branch "$branch" 2>/dev/null)" = "$branch" ] || exit {_BAD_BRANCH}
if [ "$ref" != "$commit" ]; then
    changes=$(git status --porcelain --untracked-files=normal --ignore-submodules=dirty)
    [ -z "$changes" ] || {{ printf '%s' "$changes"; exit {_DIRTY}; }}
fi
if git show-ref --verify --quiet "refs/heads/$branch"; then
    git merge-base --is-ancestor "refs/heads/$branch" "$commit" || exit {_BRANCH_AHEAD}
fi
[ -z "$(git for-each-ref --count=1 "refs/heads/$branch/")" ] || exit {_BRANCH_IN_THE_WAY}
above=$branch
while [ "$above" != "${{above%/*}}" ]; do
    above=${{above%/*}}
    ! git show-ref --verify --quiet "refs/heads/$above" || exit {_BRANCH_IN_THE_WAY}
done
echo "$commit" "$(git rev-list --objects --use-bitmap-index --disk-usage "$commit")"
exec git ls-tree -r -l --full-tree "$commit"
"""

_PACK = 'printf "%s\\n" "$1" | git pack-objects --revs --stdout --quiet --delta-base-offset'

_UNSOUND, _NOT_FORWARDS = 31, 32
_RECEIVE = f"""
set -eu
branch=refs/heads/$1 tip=$2 format=$3
env -u GIT_DIR -u GIT_WORK_TREE git init --quiet --bare --template= --object-format="$format" {INCOMING}
echo {INSIDE}/.git/objects > {INCOMING}/objects/info/alternates
git --git-dir={INCOMING} index-pack --strict --fix-thin --stdin >/dev/null || exit {_UNSOUND}
git --git-dir={INCOMING} update-ref "$branch" "$tip" || exit {_UNSOUND}
if old=$(git rev-parse --verify --quiet "$branch"); then
    git --git-dir={INCOMING} merge-base --is-ancestor "$old" "$tip" || exit {_NOT_FORWARDS}
fi
git fetch --quiet --no-tags --no-prune --no-write-fetch-head --no-auto-maintenance --no-recurse-submodules \\
    {INCOMING} "$branch:$branch"
exec git rev-parse --verify "$branch"
"""


class Found(NamedTuple):
    commit: str
    bytes: int
    """Of the history and of the files that are checked out, about."""


class Repository(NamedTuple):
    path: Path
    owner: User

    @property
    def objects(self) -> Path:
        return self.path / ".git" / "objects"

    def look(self, ref: str, branch: str) -> Found:
        """The commit that `ref` names, if a workspace on `branch` can be made from it.

        Raises `Invalid` in clear words: no repository, no such commit, uncommitted changes (unless `ref` is a whole
        commit id, which cannot mean them), a branch in the way.
        """
        if ref.startswith("-"):
            raise Invalid(f"workspace.source.ref: {ref!r} names no commit")
        done = self._run(_LOOK, ref, branch, most_out=LISTING_BYTES)
        if done.code != 0:
            raise Invalid(f"workspace.source: {self._trouble(done, ref, branch)}")
        first, _, listing = done.out.partition(b"\n")
        commit, history = first.decode().split()
        return Found(commit, int(history) + sum(map(int, _SIZE.findall(listing))))

    def _trouble(self, done: Done, ref: str, branch: str) -> str:
        changed = done.out.decode("utf-8", "replace").splitlines()
        words = {
            _NOT_A_REPOSITORY: f"{self.path} is not a git repository, or is damaged",
            _NO_COMMIT: f"ref {ref!r} names no commit of {self.path}",
            _BAD_BRANCH: f"{branch!r} cannot be the name of a branch",
            _DIRTY: f"{self.path} has {len(changed)} uncommitted changes (first {' '.join(changed[:1])!r}), which "
            "would be missing inside: commit or stash them (`git stash -u`), or give the whole id of a commit as ref "
            "to do without them",
            _BRANCH_AHEAD: f"{self.path} already has a branch {branch!r} with commits of its own: delete or merge it, "
            "or name another with workspace.source.branch",
            _BRANCH_IN_THE_WAY: f"{self.path} has a branch that {branch!r} cannot stand beside, as one would be a "
            "directory of the other: name another with workspace.source.branch",
        }
        return words.get(done.code, f"git cannot read {self.path}: {done.complaint or f'code {done.code}'}")

    def pack(self, commit: str, into: IO[bytes], most_bytes: int) -> None:
        """The whole history of a commit. Raises `SandboxCreationFailed`."""
        done = self._run(_PACK, commit, stdout=into, file_bytes=most_bytes)
        if done.code != 0:
            raise SandboxCreationFailed(f"git cannot pack {commit} of {self.path}: {done.complaint}")

    def receive(self, pack: IO[bytes], *, branch: str, tip: str, near: Path) -> str:
        """Take a thin pack, and move the branch to `tip`, forwards only. Returns where the branch is now.

        Objects are checked (fsck) before any of them comes into the repository. No hook runs, no other ref moves.
        `near` is a directory of ours for what is not yet trusted. Raises `SandboxInvalidState` when the objects are
        not sound, `Conflict` when the branch cannot move forwards to `tip` or may not be written.
        """
        with TemporaryDirectory(dir=near, prefix=".incoming-") as directory:
            if os.geteuid() == 0:
                os.chown(directory, *self.owner)
            area = Bind.of(Path(directory), INCOMING, writable=True)
            given = (branch, tip, object_format(tip))
            done = self._run(_RECEIVE, *given, stdin=pack, area=area, writable=True)
        if done.code == _UNSOUND:
            raise SandboxInvalidState(
                f"the commits of {branch!r} are refused, git finds them damaged: {done.complaint}"
            )
        if done.code == _NOT_FORWARDS:
            raise Conflict(
                f"branch {branch!r} of {self.path} has commits that the workspace lacks: rename or delete it there, "
                "then try again"
            )
        if done.code != 0:
            raise Conflict(f"branch {branch!r} of {self.path} cannot take the commits: {done.complaint}")
        return done.out.decode().strip()

    def _run(
        self,
        script: str,
        *arguments: str,
        stdin: IO[bytes] | None = None,
        stdout: IO[bytes] | None = None,
        area: Bind | None = None,
        writable: bool = False,
        file_bytes: int = 1 << 40,
        most_out: int = MB,
    ) -> Done:
        try:
            binds = (Bind.of(self.path, INSIDE, writable=writable), *filter(None, [area]))
        except OSError as error:
            raise Invalid(f"workspace.source: {self.path} is gone: {error.strerror}") from error
        cage = Cage(binds, self.owner, INSIDE, seconds=SLOW_SECONDS, file_bytes=file_bytes)
        argv = ["sh", "-c", script, "sh", *arguments]
        done = cage.run(argv, env=_ENV, stdin=stdin, stdout=stdout, most_out=most_out)
        return done._replace(complaint=done.complaint.replace(INSIDE, str(self.path)))


def find_repository(path: str) -> Repository:
    """Raises `Invalid` in clear words for what is no repository of its own with a work tree."""
    try:
        whole = Path(path).resolve(strict=True)
        if not whole.is_dir():
            raise Invalid(f"workspace.source: {path} is not a directory")
        info = _git_directory(whole)
    except FileNotFoundError as error:
        raise Invalid(f"workspace.source: {path} does not exist") from error
    except (OSError, RuntimeError) as error:
        raise Invalid(f"workspace.source: {path} cannot be read: {error}") from error
    return Repository(whole, User(info.st_uid, info.st_gid))


def _git_directory(path: Path) -> os.stat_result:
    git = path / ".git"
    try:
        info = git.lstat()
    except FileNotFoundError:
        if (path / "HEAD").is_file() and (path / "objects").is_dir():
            raise Invalid(f"workspace.source: {path} is a bare repository: give one with a work tree") from None
        raise Invalid(f"workspace.source: {path} is not the top of a git repository: it has no .git") from None
    if not stat.S_ISDIR(info.st_mode):
        raise Invalid(
            f"workspace.source: {git} is not a directory but points elsewhere, as in a linked worktree or submodule: "
            "give the main repository"
        )
    if (git / "objects" / "info" / "alternates").exists():
        raise Invalid(f"workspace.source: {path} borrows objects from another repository: run `git repack -a -d` in it "
                      "and delete .git/objects/info/alternates")  # fmt: skip
    if (git / "shallow").exists():
        raise Invalid(f"workspace.source: {path} is a shallow clone: run `git fetch --unshallow` in it")
    return info

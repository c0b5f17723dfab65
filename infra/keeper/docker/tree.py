"""Signals to a command's whole process tree, from inside its container.

The script uses what every shell has built in, for there may be no process left to start. A command's processes are
those of its session, their children, whoever shares a session or group with one of them, and whoever carries its
marker in the environment. What left the session, lost its parents and cleared its environment is not found.
"""

from collections.abc import Iterable

from infra.keeper.docker.shell import MARKER, script_line
from infra.keeper.protocol import Scope

ROUNDS = 50

# Variables: M the command's id; X longer ids that begin with it; R its main process, if known; G the signal; O the
# scope. `read` leaves NULs out, so nothing ends a variable of an environment: that is what X is for.
SCRIPT = f"""\
exec 2>/dev/null
set -f
carries() {{
  h=1
  while IFS= read -r l || [ -n "$l" ]; do
    case $l in *"{MARKER}=$M"*) h=0 ;; esac
    for x in $X; do case $l in *"{MARKER}=$x"*) return 1 ;; esac; done
  done <"/proc/$1/environ"
  return $h
}}
look() {{
  T=
  set +f
  set -- /proc/[0-9]*
  set -f
  for d; do
    p=${{d#/proc/}} s=
    case $p in 1 | $$) continue ;; esac
    while IFS= read -r l || [ -n "$l" ]; do s="$s $l"; done <"$d/stat"
    set -- ${{s##*)}}
    [ $# -ge 18 ] || continue
    case $1 in Z | X) [ "${{18}}" -gt 1 ] || continue ;; esac
    T="$T $p:$2:$3:$4"
  done
}}
split() {{
  p=${{1%%:*}} r=${{1#*:}}
  q=${{r%%:*}} r=${{r#*:}}
  g=${{r%%:*}} s=${{r#*:}}
}}
grow() {{
  n=1
  while [ -n "$n" ]; do
    n=
    for t in $T; do
      split $t
      case $F in *" $p "*) continue ;; esac
      case $F in *" $q "* | *" $g "* | *" $s "*) F="$F$p " n=1 ;; esac
    done
  done
}}
find() {{
  look
  grow
  for t in $T; do
    split $t
    case $F in *" $p "*) continue ;; esac
    carries $p && F="$F$p "
  done
  grow
}}
F=" $R "
if [ $O != tree ] && [ -z "$R" ]; then
  look
  for t in $T; do split $t; [ $q = 0 ] && carries $p && R=$p && break; done
fi
if [ $O = main ]; then
  [ -n "$R" ] && kill -$G $R && echo 1 || echo 0
  exit
fi
K=" " c=0 i=0 new=1
[ $O = rest ] && K=" $R "
while [ -n "$new" ] && [ $i -lt {ROUNDS} ]; do
  new= i=$((i + 1))
  find
  for t in $T; do
    p=${{t%%:*}}
    case $F in *" $p "*) ;; *) continue ;; esac
    case $K in *" $p "*) continue ;; esac
    K="$K$p "
    kill -$G $p && c=$((c + 1))
    [ $G = 9 ] && new=1
  done
done
echo $c
"""


def signal_line(exec_id: str, pid: int | None, signum: int, scope: Scope, others: Iterable[str]) -> bytes:
    """For a parked shell, which answers with the number of processes that got it. `others`: ids of other commands."""
    longer = " ".join(other for other in others if other != exec_id and other.startswith(exec_id))
    return script_line(SCRIPT, M=exec_id, X=longer, R="" if pid is None else str(pid), G=str(signum), O=scope)

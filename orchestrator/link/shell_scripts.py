"""What the plain shell does on a target without Python: POSIX sh, tmux, and nothing else needed.

Each script gets its words as arguments and prints what shell_probe.py reads. No secret is in an
argument: those go through stdin into a FIFO that one reader empties.
"""

HELLO = """
printf 'tmux=%s\\n' "$(tmux -V 2>/dev/null)"
printf 'time=%s\\n' "$(date +%s)"
printf 'boot=%s\\n' "$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)"
printf 'name=%s\\n' "$(uname -n)"
"""

LAUNCH = """
dir=$1 script=$2 record=$3 cwd=$4; shift 4
[ -d "$cwd" ] || { echo "The working folder $cwd is not there." >&2; exit 65; }
umask 077
mkdir -p "$dir" || exit 66
printf '%s\\n' "$script" >"$dir/attempt.sh" && rm -f "$dir/spec" && mkfifo "$dir/spec" || exit 66
: >>"$dir/output.log"
"$@" || exit 67
timeout 30 sh -c 'cat >"$1"' sh "$dir/spec" || exit 68
tries=0
while [ ! -e "$dir/attempt.json" ]; do
  tries=$((tries + 1)); [ "$tries" -lt 40 ] || exit 68
  sleep 0.25 2>/dev/null || sleep 1
done
cat "$dir/attempt.json"
"""
"""Arguments: attempt folder, attempt.sh, its record, working folder, tmux's words; stdin: spec."""

LOOK = """
dir=$1 log=$2 metrics=$3 moff=$4 most=$5
own() { [ -f "$1" ] && [ ! -L "$1" ]; }
size() { own "$1" && wc -c <"$1" 2>/dev/null || echo 0; }
record=; if own "$dir/exit.json"; then record=$(cat "$dir/exit.json" 2>/dev/null); fi
alive=1
pid=$(sed -n 's/.*"pid":\\([0-9]*\\).*/\\1/p' "$dir/attempt.json" 2>/dev/null)
if [ -n "$pid" ] && ! grep -q attempt.sh "/proc/$pid/cmdline" 2>/dev/null; then alive=0; fi
[ -d "$dir" ] || alive=0
total=$(($(size "$dir/output.log"))) mtotal=$(($(size "$metrics")))
n=$((total - log)) m=$((mtotal - moff))
[ "$n" -gt 0 ] || n=0; [ "$n" -le "$most" ] || n=$most
[ "$m" -gt 0 ] || m=0; [ "$m" -le "$most" ] || m=$most
printf '%s %s %s %s %s %s\\n' "$alive" "$total" "$n" "$mtotal" "$m" "$(date +%s)"
printf '%s\\n' "$record"
[ "$n" = 0 ] || tail -c "+$((log + 1))" "$dir/output.log" | head -c "$n"
[ "$m" = 0 ] || tail -c "+$((moff + 1))" "$metrics" | head -c "$m"
exit 0
"""
"""Arguments: attempt folder, log offset, metrics file and offset, most bytes of each.

The record is read before the bytes: where it is there, the log is whole. Of what a program put in
the place of a file (a link, a FIFO) nothing is read.
"""

END = """
run_dir=$1 grace=$2
ours() {
  for pid in $(grep -lF "ORCH_RUN_DIR=$run_dir" /proc/[0-9]*/environ 2>/dev/null |
    sed 's,/proc/\\([0-9]*\\)/environ,\\1,'); do
    [ "$pid" = "$$" ] || case $(cut -d' ' -f3 "/proc/$pid/stat" 2>/dev/null) in
      ''|Z) ;; *) printf '%s ' "$pid" ;; esac
  done
}
pids=$(ours)
for pid in $pids; do kill -TERM "$pid"; kill -CONT "$pid"; done 2>/dev/null
waited=0
while [ -n "$(ours)" ] && [ "$waited" -lt "$grace" ]; do sleep 1; waited=$((waited + 1)); done
for pid in $(ours); do kill -KILL "$pid"; done 2>/dev/null
sleep 1
printf 'ended %s\\n' "$pids"
printf 'left %s\\n' "$(ours)"
"""
"""Arguments: run folder, grace in whole seconds. attempt.sh is spared: it writes the record."""

PREFLIGHT = """
path=$1
while [ ! -d "$path" ]; do path=$(dirname "$path"); done
printf 'writable=%s\\n' "$([ -w "$path" ] && echo 1 || echo 0)"
printf 'free_kib=%s\\n' "$(df -Pk "$path" | awk 'NR==2 {print $4}')"
printf 'tmux=%s\\n' "$(tmux -V 2>/dev/null)"
printf 'time=%s\\n' "$(date +%s)"
"""

READ = """
size=$(wc -c <"$1") || exit 65
printf '%s\\n' "$((size))"
tail -c "+$(($2 + 1))" "$1" | head -c "$3"
"""

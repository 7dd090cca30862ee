# One attempt in a tmux pane, where the target has no Python for the relay: sh attempt.sh DIR RECORD
# Runs what comes through DIR/spec once, and writes DIR/exit.json by rename when it has ended.
# tmux's pipe-pane writes DIR/output.log; the record is written once the pipe is drained.
# A code above 128 may be a program's own or a signal's: it goes into `raw` alone.
dir=$1
umask 077
# Handled, not ignored: what is ignored here would be ignored by the program too.
trap : HUP INT QUIT TERM
spec=$(cat "$dir/spec") || exit 1
rm -f "$dir/spec"
boot=$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)
start=$(sed 's/.*) //' "/proc/$$/stat" 2>/dev/null | cut -d' ' -f20)
started=$(date +%s)
printf '{%s,"relay_pid":0,"relay_start":0,"pid":%s,"start":%s,"boot_id":"%s","started_at":%s}\n' \
  "$2" "$$" "${start:-0}" "$boot" "$started" >"$dir/attempt.new" && mv "$dir/attempt.new" "$dir/attempt.json"

(eval "$spec")
raw=$?

ended=$(date +%s)
mark="[orch] the attempt has ended: exit status $raw"
printf '\n%s\n' "$mark"
tries=0
while [ "$tries" -lt 50 ] && ! tail -c 400 "$dir/output.log" 2>/dev/null | grep -qF "$mark"; do
  tries=$((tries + 1))
  sleep 0.1 2>/dev/null || sleep 1
done
size=$(wc -c <"$dir/output.log" 2>/dev/null || echo 0)
code=$raw
[ "$raw" -le 128 ] || code=null
printf '{"code":%s,"signal":null,"raw":%s,"started_at":%s,"ended_at":%s,"boot_id":"%s","log_bytes":%s}\n' \
  "$code" "$raw" "$started" "$ended" "$boot" "$((size))" >"$dir/exit.new" &&
  mv "$dir/exit.new" "$dir/exit.json"
exit "$raw"

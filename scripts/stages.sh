# Sourced by scripts: `stage NAME COMMAND...` runs a command and notes its time. The table is printed when the outermost script
# ends, also after a failure. A stage that keeps N cores busy has a CPU time of N times its duration.
if [ -z "${PREFOLD_STAGES:-}" ]; then
    PREFOLD_STAGES=$(mktemp)
    export PREFOLD_STAGES
    trap 'note_stage 0 0 "in all"; printf "\nseconds  CPU time  stage\n"; cat "$PREFOLD_STAGES"; rm -f "$PREFOLD_STAGES"*' EXIT
fi

# Sets `cpu_seconds` to the CPU time of all commands that have ended.
take_cpu_seconds() {
    times >"$PREFOLD_STAGES.times" # Not in a subshell, where it would count from zero.
    cpu_seconds=$(awk -F '[ ms]+' 'NR == 2 { print int(60 * $1 + $2 + 60 * $3 + $4) }' "$PREFOLD_STAGES.times")
}

note_stage() { # seconds and CPU seconds at its start, name
    take_cpu_seconds
    printf '%7d %9d  %s\n' $((SECONDS - $1)) $((cpu_seconds - $2)) "$3" >>"$PREFOLD_STAGES"
}

stage() {
    local name=$1 start=$SECONDS cpu_start
    shift
    take_cpu_seconds
    cpu_start=$cpu_seconds
    "$@"
    note_stage "$start" "$cpu_start" "$name"
}

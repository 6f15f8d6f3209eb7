# Sourced by scripts: `stage NAME COMMAND...` runs a command and notes its time. The table is printed when the outermost script
# ends, also after a failure.
if [ -z "${PREFOLD_STAGES:-}" ]; then
    PREFOLD_STAGES=$(mktemp)
    export PREFOLD_STAGES
    trap 'printf "\nseconds  stage\n"; cat "$PREFOLD_STAGES"; printf "%7d  in all\n" "$SECONDS"; rm -f "$PREFOLD_STAGES"' EXIT
fi

stage() {
    local name=$1 start=$SECONDS
    shift
    "$@"
    printf '%7d  %s\n' $((SECONDS - start)) "$name" >>"$PREFOLD_STAGES"
}

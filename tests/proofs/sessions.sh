# Clients: one-shot commands, and sessions that stay open between commands. Sourced by `run`; uses $work.

redis() {
    redis-cli -h 127.0.0.1 -p "$redis_port" "$@"
}

sleep_ms() {
    sleep "$(printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)))"
}

declare -A session_in=() session_out=() session_pid=()

# open NAME COMMAND..: a client that reads commands from a pipe.
open() {
    local name=$1 in out
    shift
    mkfifo "$work/$name.in" "$work/$name.out"
    "$@" <"$work/$name.in" >"$work/$name.out" 2>&1 &
    session_pid[$name]=$!
    exec {in}>"$work/$name.in" {out}<"$work/$name.out"
    session_in[$name]=$in
    session_out[$name]=$out
    rm "$work/$name.in" "$work/$name.out"
}

# A direct session (PORT left out) or one through the pooler.
open_sql() {
    open "$1" psql -qAtX -v VERBOSITY=terse "host=127.0.0.1 port=${2:-$postgres_port} user=postgres dbname=postgres"
}

open_redis() {
    open "$1" redis-cli -h 127.0.0.1 -p "$redis_port"
}

# ask NAME SQL..: sends statements to an SQL session and prints the last line of the answer.
ask() {
    local name=$1 line last=
    shift
    printf '%s\n\\echo @end\n' "$*" >&"${session_in[$name]}"
    while IFS= read -r -t 10 -u "${session_out[$name]}" line; do
        if [ "$line" = @end ]; then
            printf '%s\n' "$last"
            return
        fi
        last=$line
    done
    echo "no answer within 10 s"
}

# ask_redis NAME COMMAND: one command of a Redis session; prints the first line of the answer.
ask_redis() {
    local line
    printf '%s\n' "$2" >&"${session_in[$1]}"
    IFS= read -r -t 10 -u "${session_out[$1]}" line || line="no answer within 10 s"
    printf '%s\n' "$line"
}

# Ends a session. Later sessions have inherited its pipe, so closing that would not tell the client.
close() {
    local in=${session_in[$1]} out=${session_out[$1]}
    kill "${session_pid[$1]}" 2>/dev/null || true
    exec {in}>&- {out}<&-
    wait "${session_pid[$1]}" 2>/dev/null || true
    unset "session_in[$1]" "session_out[$1]" "session_pid[$1]"
}

close_sessions() {
    local name
    for name in "${!session_pid[@]}"; do
        close "$name"
    done
}

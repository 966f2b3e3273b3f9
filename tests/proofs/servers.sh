# Installing, starting and stopping the servers. Sourced by `run`; uses $work.

postgres_bin() {
    local newest
    newest=$(find /usr/lib/postgresql -maxdepth 3 -name initdb 2>/dev/null | sort -V | tail -n 1)
    if [ -n "$newest" ]; then dirname "$newest"; elif command -v initdb >/dev/null; then dirname "$(command -v initdb)"; fi
}

install_servers() {
    local missing=()
    command -v redis-server >/dev/null && command -v redis-cli >/dev/null || missing+=(redis-server redis-tools)
    [ -n "$(postgres_bin)" ] && command -v psql >/dev/null || missing+=(postgresql postgresql-client)
    [ -x /usr/sbin/pgbouncer ] || command -v pgbouncer >/dev/null || missing+=(pgbouncer)
    [ "${#missing[@]}" -eq 0 ] && return
    echo "installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >"$work/apt.log" 2>&1 &&
        apt-get install -y -qq --no-install-recommends "${missing[@]}" >>"$work/apt.log" 2>&1 ||
        { tail -n 20 "$work/apt.log"; echo "these could not be installed: ${missing[*]}"; exit 1; }
}

# PostgreSQL and PgBouncer refuse to run as root.
unprivileged=()
if [ "$(id -u)" -eq 0 ]; then
    unprivileged=(setpriv --reuid=postgres --regid=postgres --clear-groups -- env "HOME=$work")
fi

# Process ids and the signals that stop them at once, newest first.
servers=()

# serve SIGNAL LOG COMMAND..: starts a server. The subshell becomes the server, so its id is the server's.
serve() {
    local signal=$1 log=$2
    shift 2
    (exec "$@") >"$log" 2>&1 &
    servers=("$signal $!" "${servers[@]}")
}

free_port() {
    local port
    for _ in $(seq 100); do
        # Below the ports from which clients of this machine connect: one of those can be taken at any moment.
        port=$((20000 + RANDOM % 12000))
        if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
            echo "$port"
            return
        fi
    done
    exit 1
}

# wait_for SECONDS COMMAND..: until it succeeds.
wait_for() {
    local until=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$until" ] || { echo "gave up waiting for: $*"; tail -n 20 "$work"/*.log; return 1; }
        sleep 0.1
    done
}

start_servers() {
    redis_port=$(free_port)
    serve TERM "$work/redis.log" \
        redis-server --bind 127.0.0.1 --port "$redis_port" --dir "$work" --save '' --appendonly no

    bin=$(postgres_bin)
    postgres_port=$(free_port)
    mkdir -p "$work/data" "$work/socket"
    if [ "$(id -u)" -eq 0 ]; then chown postgres "$work/data" "$work/socket"; fi
    "${unprivileged[@]}" "$bin/initdb" -D "$work/data" -U postgres -A trust -E UTF8 --no-sync >"$work/initdb.log" 2>&1 ||
        { cat "$work/initdb.log"; exit 1; }
    # SIGINT is PostgreSQL's fast shutdown.
    serve INT "$work/postgres.log" "${unprivileged[@]}" "$bin/postgres" -D "$work/data" -p "$postgres_port" \
        -k "$work/socket" -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=50

    wait_for 20 redis ping
    wait_for 60 psql "host=127.0.0.1 port=$postgres_port user=postgres" -c 'SELECT 1'
}

# start_pooler NAME SETTING..: a PgBouncer with two backends; its port is in $pooler_port afterwards.
start_pooler() {
    local name=$1 log
    shift
    pooler_port=$(free_port)
    log=$work/pgbouncer-$name.log
    printf '"postgres" ""\n' >"$work/users.txt"
    {
        printf '[databases]\npostgres = host=127.0.0.1 port=%s dbname=postgres\n' "$postgres_port"
        printf '[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %s\nunix_socket_dir =\n' "$pooler_port"
        printf 'auth_type = trust\nauth_file = %s/users.txt\ndefault_pool_size = 2\n' "$work"
        printf '%s\n' "$@"
    } >"$work/pgbouncer-$name.ini"
    chmod 644 "$work/users.txt" "$work/pgbouncer-$name.ini"
    serve TERM "$log" "${unprivileged[@]}" "$(command -v pgbouncer || echo /usr/sbin/pgbouncer)" "$work/pgbouncer-$name.ini"
    wait_for 20 psql "host=127.0.0.1 port=$pooler_port user=postgres dbname=postgres" -c 'SELECT 1'
}

# stop "SIGNAL PID"
stop() {
    kill "-${1% *}" "${1#* }" 2>/dev/null || return 0
    for _ in $(seq 50); do
        kill -0 "${1#* }" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL "${1#* }" 2>/dev/null || true
    wait "${1#* }" 2>/dev/null || true
}

stop_pooler() {
    stop "${servers[0]}"
    servers=("${servers[@]:1}")
}

stop_servers() {
    local server
    for server in "${servers[@]}"; do stop "$server"; done
}

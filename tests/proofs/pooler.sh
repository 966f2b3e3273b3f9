# What the pages say about PgBouncer.

if proof session-lock-pooler; then
    start_pooler transaction 'pool_mode = transaction'
    open_sql a "$pooler_port"
    open_sql b "$pooler_port"
    open_sql direct
    ask a 'SELECT pg_advisory_lock(42);' >/dev/null
    expect "B gets A's lock: it was given the same backend" t "$(ask b 'SELECT pg_try_advisory_lock(42);')"
    expect "a session of its own is shut out" f "$(ask direct 'SELECT pg_try_advisory_lock(42);')"
    # B keeps that backend busy, so that A's next statement runs on the other one.
    ask b 'BEGIN; SELECT 1;' >/dev/null
    expect "A's unlock on another backend frees nothing" f "$(ask a 'SELECT pg_advisory_unlock(42);')"
    ask b 'COMMIT;' >/dev/null
    close a
    close b
    sleep_ms 300
    expect "both clients are gone and the lock is still held" f "$(ask direct 'SELECT pg_try_advisory_lock(42);')"
    close direct
    stop_pooler

    start_pooler reset 'pool_mode = transaction' 'server_reset_query = DISCARD ALL' 'server_reset_query_always = 1'
    open_sql a "$pooler_port"
    open_sql direct
    ask a 'SELECT pg_advisory_lock(43);' >/dev/null
    sleep_ms 300
    expect "with server_reset_query_always the lock is dropped under its holder" t "$(ask direct 'SELECT pg_try_advisory_lock(43);')"
    close a
    close direct
    stop_pooler

    start_pooler xact 'pool_mode = transaction'
    open_sql a "$pooler_port"
    open_sql b "$pooler_port"
    ask a 'BEGIN; SELECT pg_advisory_xact_lock(44);' >/dev/null
    expect "fix: the transaction lock shuts B out" f "$(ask b 'SELECT pg_try_advisory_xact_lock(44);')"
    ask a 'COMMIT;' >/dev/null
    expect "fix: and is free after the commit" t "$(ask b 'SELECT pg_try_advisory_xact_lock(44);')"
    close a
    close b
    stop_pooler

    start_pooler session 'pool_mode = session' 'server_reset_query = DISCARD ALL'
    open_sql a "$pooler_port"
    open_sql b "$pooler_port"
    ask a 'SELECT pg_advisory_lock(45);' >/dev/null
    expect "fix: in session mode B is shut out" f "$(ask b 'SELECT pg_try_advisory_lock(45);')"
    expect "fix: and A's unlock finds its lock" t "$(ask a 'SELECT pg_advisory_unlock(45);')"
    close a
    close b
    stop_pooler
fi

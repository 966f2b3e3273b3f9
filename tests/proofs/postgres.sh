# What the pages say about PostgreSQL.

once() {
    psql -qAtX "host=127.0.0.1 port=$postgres_port user=postgres dbname=postgres" -c "$1"
}

accounts() {
    once "SET client_min_messages = warning; DROP TABLE IF EXISTS accounts; CREATE TABLE accounts (id int PRIMARY KEY, balance int, version int, fence int);
          INSERT INTO accounts VALUES (7, 100, 0, 0)"
}

if proof unfenced-write; then
    accounts
    open_sql a
    open_sql b
    expect "A, holder by lease, reads" 100 "$(ask a 'SELECT balance FROM accounts WHERE id = 7;')"
    # A is paused, its lease ends, B takes it.
    expect "B reads the same" 100 "$(ask b 'SELECT balance FROM accounts WHERE id = 7;')"
    ask b 'UPDATE accounts SET balance = 70 WHERE id = 7;' >/dev/null
    ask a 'UPDATE accounts SET balance = 90 WHERE id = 7;' >/dev/null
    expect "late A has overwritten B's write" 90 "$(once 'SELECT balance FROM accounts')"

    accounts
    expect "fix, version: B writes" 1 \
        "$(ask b 'WITH w AS (UPDATE accounts SET balance = 70, version = version + 1 WHERE id = 7 AND version = 0 RETURNING 1) SELECT count(*) FROM w;')"
    expect "fix, version: late A changes no row" 0 \
        "$(ask a 'WITH w AS (UPDATE accounts SET balance = 90, version = version + 1 WHERE id = 7 AND version = 0 RETURNING 1) SELECT count(*) FROM w;')"

    accounts
    expect "fix, fence: B writes with token 2" 1 \
        "$(ask b 'WITH w AS (UPDATE accounts SET balance = 70, fence = 2 WHERE id = 7 AND fence <= 2 RETURNING 1) SELECT count(*) FROM w;')"
    expect "fix, fence: late A with token 1 changes no row" 0 \
        "$(ask a 'WITH w AS (UPDATE accounts SET balance = 90, fence = 1 WHERE id = 7 AND fence <= 1 RETURNING 1) SELECT count(*) FROM w;')"
    expect "fix, fence: B's value stands" 70 "$(once 'SELECT balance FROM accounts')"
    close a
    close b
fi

if proof session-lock-leak; then
    open_sql pooled
    open_sql b
    ask pooled 'BEGIN; SELECT pg_advisory_lock(1); ROLLBACK;' >/dev/null
    expect "ROLLBACK frees no session lock" f "$(ask b 'SELECT pg_try_advisory_lock(1);')"
    ask pooled 'SELECT pg_advisory_lock(1);' >/dev/null
    expect "one unlock of two" t "$(ask pooled 'SELECT pg_advisory_unlock(1);')"
    expect "leaves it held" f "$(ask b 'SELECT pg_try_advisory_lock(1);')"
    ask pooled 'BEGIN; SELECT 1/0;' >/dev/null
    expect "an unlock in a failed transaction is refused" yes \
        "$(ask pooled 'SELECT pg_advisory_unlock(1);' | grep -q 'current transaction is aborted' && echo yes)"
    ask pooled 'ROLLBACK;' >/dev/null
    expect "and the lock is still held" f "$(ask b 'SELECT pg_try_advisory_lock(1);')"
    close pooled
    for _ in $(seq 50); do
        freed=$(ask b 'SELECT pg_try_advisory_lock(1);')
        [ "$freed" = t ] && break
        sleep_ms 100
    done
    expect "only the end of the session frees it" t "$freed"
    close b
fi

if proof xact-lock-autocommit; then
    open_sql a
    open_sql b
    ask a 'SELECT pg_advisory_xact_lock(2);' >/dev/null
    expect "outside a transaction the lock is gone after the statement" t "$(ask b 'SELECT pg_try_advisory_xact_lock(2);')"
    ask a 'BEGIN; SELECT pg_advisory_xact_lock(2);' >/dev/null
    expect "fix: inside one it holds" f "$(ask b 'SELECT pg_try_advisory_xact_lock(2);')"
    ask a 'COMMIT;' >/dev/null
    close a
    close b
fi

if proof row-lock-autocommit; then
    accounts
    open_sql a
    open_sql b
    ask a 'SELECT balance FROM accounts WHERE id = 7 FOR UPDATE;' >/dev/null
    expect "outside a transaction the row is free after the statement" 100 \
        "$(ask b 'SELECT balance FROM accounts WHERE id = 7 FOR UPDATE NOWAIT;')"
    ask a 'BEGIN; SELECT balance FROM accounts WHERE id = 7 FOR UPDATE;' >/dev/null
    expect "fix: inside one it is locked" yes \
        "$(ask b 'SELECT balance FROM accounts WHERE id = 7 FOR UPDATE NOWAIT;' | grep -q 'could not obtain lock' && echo yes)"
    ask a 'COMMIT;' >/dev/null
    close a
    close b
fi

if proof release-before-commit; then
    accounts
    open_sql a
    open_sql b
    ask a 'SELECT pg_advisory_lock(3); BEGIN; UPDATE accounts SET balance = 70 WHERE id = 7; SELECT pg_advisory_unlock(3);' >/dev/null
    expect "B gets the lock" t "$(ask b 'SELECT pg_try_advisory_lock(3);')"
    expect "and reads what A has not committed yet: the old value" 100 "$(ask b 'SELECT balance FROM accounts WHERE id = 7;')"
    ask a 'COMMIT;' >/dev/null
    close a
    close b
fi

if proof off-transaction-write; then
    accounts
    open_sql a
    open_sql other
    ask a 'BEGIN; SELECT balance FROM accounts WHERE id = 7 FOR UPDATE;' >/dev/null
    ask other "SET lock_timeout = '300ms';" >/dev/null
    expect "a second connection waits for the first one's own row" yes \
        "$(ask other 'UPDATE accounts SET balance = 1 WHERE id = 7;' | grep -q 'lock timeout' && echo yes)"
    ask a 'ROLLBACK;' >/dev/null
    close a
    close other
fi

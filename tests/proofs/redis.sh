# What the pages say about Redis.

release='if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0'

if proof setnx-expire; then
    expect "A takes the lock by SETNX" 1 "$(redis setnx k a1)"
    # A dies here: EXPIRE is never sent.
    expect "the key has no expiry" -1 "$(redis ttl k)"
    sleep_ms 300
    expect "B never gets it" 0 "$(redis setnx k b1)"

    redis flushall >/dev/null
    redis set k a1 nx px 2000 >/dev/null
    printf 'MULTI\nSETNX k b1\nEXPIRE k 30\nEXEC\n' | redis >/dev/null
    expect "in MULTI the loser's EXPIRE refreshes the winner's lease" yes "$([ "$(redis pttl k)" -gt 20000 ] && echo yes)"
    expect "and the winner is still the owner" a1 "$(redis get k)"

    redis flushall >/dev/null
    redis set k a1 nx px 100 >/dev/null
    sleep_ms 200
    expect "fix: SET NX PX ends by itself" OK "$(redis set k b1 nx px 100)"
fi

if proof missing-ttl; then
    redis set k a1 nx ex 100 >/dev/null
    redis set k a1:half-way >/dev/null
    expect "a plain SET by the holder drops the expiry" -1 "$(redis ttl k)"
    redis set k2 a1 nx ex 100 >/dev/null
    redis persist k2 >/dev/null
    expect "so does PERSIST" -1 "$(redis ttl k2)"
    redis set k3 a1 nx keepttl >/dev/null
    expect "KEEPTTL with NX keeps nothing" -1 "$(redis ttl k3)"
    redis set k4 a1 nx ex 100 >/dev/null
    redis set k4 a1:half-way xx keepttl >/dev/null
    expect "fix: KEEPTTL with XX keeps the expiry" yes "$([ "$(redis ttl k4)" -gt 90 ] && echo yes)"
fi

if proof bare-del; then
    expect "A takes the lock" OK "$(redis set k a1 nx px 100)"
    sleep_ms 200
    expect "the lease ends and B takes it" OK "$(redis set k b1 nx px 60000)"
    expect "A deletes: it was B's lock" 1 "$(redis del k)"
    expect "C takes it while B works" OK "$(redis set k c1 nx px 60000)"

    redis set k b1 px 60000 >/dev/null
    expect "fix: A's compare-and-delete frees nothing" 0 "$(redis eval "$release" 1 k a1)"
    expect "fix: B still has it" b1 "$(redis get k)"
    expect "fix: B frees its own" 1 "$(redis eval "$release" 1 k b1)"
fi

if proof check-then-del; then
    redis set k a1 nx px 200 >/dev/null
    expect "A reads its own token" a1 "$(redis get k)"
    sleep_ms 300
    expect "the lease ends and B takes it" OK "$(redis set k b1 nx px 60000)"
    expect "A deletes on the strength of what it read" 1 "$(redis del k)"
    expect "C takes it while B works" OK "$(redis set k c1 nx px 60000)"

    redis set k a1 px 60000 >/dev/null
    open_redis a
    expect "fix: A watches" OK "$(ask_redis a 'WATCH k')"
    expect "fix: A reads" a1 "$(ask_redis a 'GET k')"
    redis set k b1 px 60000 >/dev/null
    ask_redis a MULTI >/dev/null
    ask_redis a 'DEL k' >/dev/null
    expect "fix: EXEC refuses" '' "$(ask_redis a EXEC)"
    expect "fix: B still has it" b1 "$(redis get k)"
    close a
fi

if proof watch-on-shared-connection; then
    redis set k a1 px 60000 >/dev/null
    open_redis shared
    ask_redis shared 'WATCH k' >/dev/null
    ask_redis shared 'GET k' >/dev/null
    # Another task of the process sends its own transaction over the same connection.
    ask_redis shared MULTI >/dev/null
    ask_redis shared 'INCR n' >/dev/null
    ask_redis shared EXEC >/dev/null
    redis set k b1 px 60000 >/dev/null
    ask_redis shared MULTI >/dev/null
    ask_redis shared 'DEL k' >/dev/null
    expect "the other task's EXEC has ended the WATCH" 1 "$(ask_redis shared EXEC)"
    expect "B's lock is gone" 0 "$(redis exists k)"
    close shared
fi

if proof bare-renew; then
    redis set k a1 nx px 100 >/dev/null
    sleep_ms 200
    redis set k b1 nx px 1000 >/dev/null
    expect "late A renews by EXPIRE: it extends B's lease" 1 "$(redis expire k 100)"
    expect "B may crash now: its lease lasts as A wished" yes "$([ "$(redis ttl k)" -gt 90 ] && echo yes)"
fi

if proof check-then-set; then
    expect "A sees no lock" 0 "$(redis exists k)"
    expect "B sees no lock" 0 "$(redis exists k)"
    expect "A sets it" OK "$(redis set k a1 ex 30)"
    expect "B sets it too" OK "$(redis set k b1 ex 30)"
fi

if proof reentrant-acquire; then
    redis set k a1 nx px 60000 >/dev/null
    expect "the holder's second acquire is refused like anybody's" '' "$(redis set k a2 nx px 60000)"
fi

if proof weak-fence; then
    # The counter is taken in a round trip of its own, after the lock.
    redis set k a1 nx px 100 >/dev/null
    sleep_ms 200
    redis set k b1 nx px 60000 >/dev/null
    b=$(redis incr fence)
    a=$(redis incr fence)
    expect "late A draws a higher number than its successor B" yes "$([ "$a" -gt "$b" ] && echo yes)"
fi

#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use crate::ir::{EffectKind, OwnerCheck, Safety, Ttl, Value};
use crate::source::{FileId, Span};

fn show(value: &Value) -> String {
    match value {
        Value::Const(lit) => format!("{lit:?}"),
        Value::Local(_, n) => format!("{}{}", if *n < 100 { 'K' } else { 'A' }, n % 100),
        Value::Template(pieces) => format!("{pieces:?}"),
        Value::Operation(name, list) => format!("({name} {})", list.iter().map(show).collect::<Vec<_>>().join(" ")),
        Value::Call(call) => call.name.clone(),
        other => format!("{other:?}"),
    }
}

fn check(check: &OwnerCheck) -> String {
    match check {
        OwnerCheck::Token(value) => format!("={}", show(value)),
        other => format!("{other:?}"),
    }
}

fn ttl(ttl: &Ttl) -> String {
    match ttl {
        Ttl::After(value, unit) => format!("{} {unit:?}", show(value)),
        other => format!("{other:?}"),
    }
}

/// `K1` and `A1` stand for the caller's keys and arguments.
fn run(text: &str, keys: usize, args: usize) -> String {
    let entry = Entry { keys: Some(keys), args: Some(args), function: None };
    run_entry(text, &entry)
}

fn run_entry(text: &str, entry: &Entry) -> String {
    let bindings = Bindings {
        keys: &|n| Value::Local(crate::ir::FunctionId(0), n as u32),
        args: &|n| Value::Local(crate::ir::FunctionId(0), 100 + n as u32),
        place: &|offset| Span::new(FileId(0), offset, offset),
    };
    let summary = match summary(text, entry, &bindings) {
        Ok(summary) => summary,
        Err(why) => return format!("opaque: {why}"),
    };
    let mut lines: Vec<String> = summary
        .effects
        .iter()
        .map(|effect| match &effect.kind {
            EffectKind::Acquire(a) => format!("acquire {} token {} ttl {}", show(&a.key), show(&a.token), ttl(&a.ttl)),
            EffectKind::Release(r) => format!("release {} {}", show(&r.key), check(&r.check)),
            EffectKind::Renew(r) => format!("renew {} {} ttl {}", show(&r.key), check(&r.check), ttl(&r.ttl)),
            EffectKind::Expire(e) => {
                format!("expire {} ttl {}{}", show(&e.key), ttl(&e.ttl), if e.only_if_none { " nx" } else { "" })
            }
            EffectKind::Write(w) => {
                let safety = match &w.safety {
                    Safety::Conditions(list) => list
                        .iter()
                        .map(|(name, operator, value)| format!("{name} {operator} {}", show(value)))
                        .collect::<Vec<_>>()
                        .join(", "),
                    other => format!("{other:?}"),
                };
                let crate::ir::Resource::Key(_, key) = &w.resource else { return "write ?".into() };
                format!("{} {} if {safety}", w.verb, show(key))
            }
            EffectKind::Read(crate::ir::Resource::Key(_, key)) => format!("read {}", show(key)),
            EffectKind::Issue(key) => format!("issue {}", show(key)),
            other => format!("{other:?}"),
        })
        .collect();
    if let Some((held, lost)) = &summary.replies {
        lines.push(format!("{held:?} / {lost:?}"));
    }
    lines.join("; ")
}

#[test]
fn compare_and_delete_in_all_its_forms() {
    let expected = "release K1 =A1; Int(1) / Int(0)";
    for text in [
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
        "if ARGV[1] == redis.call(\"GET\",KEYS[1]) then return redis.call(\"UNLINK\",KEYS[1]) end return 0",
        "local v = redis.call('GET', KEYS[1])\nif v ~= ARGV[1] then\n  return 0\nend\nredis.call('DEL', KEYS[1])\nreturn 1",
        "local key = KEYS[1] local token = ARGV[1]
         if not (redis.call('get', key) == token) then return 0 end
         return redis.call('del', key)",
        "local cur = redis.call('get', KEYS[1])
         if cur == false then return 0 end
         if cur ~= ARGV[1] then return 0 end
         redis.call('del', KEYS[1]) return 1",
        "local function owner() return redis.call('get', KEYS[1]) end
         if owner() == ARGV[1] then redis.call('del', KEYS[1]) return 1 end return 0",
        "return redis.call('get', KEYS[1]) == ARGV[1] and redis.call('del', KEYS[1]) or 0",
    ] {
        assert_eq!(run(text, 1, 1), expected, "{text}");
    }
}

#[test]
fn decoded_owner_is_an_owner_check() {
    let text = "local raw = redis.call('GET', KEYS[1])
        if not raw then return 0 end
        local lease = cjson.decode(raw)
        if lease.owner == ARGV[1] then return redis.call('DEL', KEYS[1]) end
        return 0";
    assert_eq!(run(text, 1, 1), "release K1 =A1; Int(1) / Int(0)");
    let text = "local ok, lease = pcall(cjson.decode, redis.call('GET', KEYS[1]))
        if ok and lease['owner'] == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 1 end return 0";
    assert_eq!(run(text, 1, 2), "renew K1 =A1 ttl A2 Milliseconds; Int(1) / Int(0)");
}

#[test]
fn bare_delete_is_seen_as_such() {
    assert_eq!(run("return redis.call('del', KEYS[1])", 1, 0), "release K1 None; Int(1) / Int(0)");
    let text = "if redis.call('exists', KEYS[1]) == 1 then redis.call('del', KEYS[1]) return 1 end return 0";
    assert_eq!(run(text, 1, 1), "release K1 None; Int(1) / Int(0)");
    // The other key's owner was compared.
    let text = "if redis.call('get', KEYS[2]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
    assert_eq!(run(text, 2, 1), "read K2; release K1 None; Int(1) / Int(0)");
}

#[test]
fn acquire_scripts() {
    assert_eq!(
        run("return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])", 1, 2),
        "acquire K1 token A1 ttl A2 Milliseconds; Status(\"OK\") / Nil"
    );
    let text = "if redis.call('setnx', KEYS[1], ARGV[1]) == 1 then
          redis.call('pexpire', KEYS[1], ARGV[2]) return 1 end return 0";
    assert_eq!(run(text, 1, 2), "acquire K1 token A1 ttl A2 Milliseconds; Int(1) / Int(0)");
    let text = "local ok = redis.call('set', KEYS[1], ARGV[1], 'NX', 'EX', 30)
          if ok then return redis.call('incr', KEYS[2]) else return false end";
    assert_eq!(
        run(text, 2, 1),
        "acquire K1 token A1 ttl Duration(30000000000) Seconds; issue K2; INCR K2 if None; Int(1) / Nil"
    );
    let text =
        "if redis.call('exists', KEYS[1]) == 0 then redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1 end
          return 0";
    assert_eq!(run(text, 1, 2), "acquire K1 token A1 ttl A2 Milliseconds; Int(1) / Int(0)");
    let text = "if redis.call('get', KEYS[1]) == false then redis.call('setex', KEYS[1], 10, ARGV[1]) return 'yes' end
          return 'no'";
    assert_eq!(run(text, 1, 1), "acquire K1 token A1 ttl Duration(10000000000) Seconds; Text(\"yes\") / Text(\"no\")");
}

#[test]
fn expiry_that_also_runs_for_losers() {
    let text = "local won = redis.call('setnx', KEYS[1], ARGV[1]) redis.call('expire', KEYS[1], 30) return won";
    assert_eq!(
        run(text, 1, 1),
        "acquire K1 token A1 ttl Never; expire K1 ttl Duration(30000000000) Seconds; Int(1) / Int(0)"
    );
    let text = "local won = redis.call('setnx', KEYS[1], ARGV[1])
        if redis.call('ttl', KEYS[1]) == -1 then redis.call('expire', KEYS[1], 30) end return won";
    let got = run(text, 1, 1);
    assert!(
        got.contains("acquire K1 token A1") && !got.contains("; expire K1 ttl Duration(30000000000) Seconds;"),
        "{got}"
    );
}

#[test]
fn renewals() {
    let text = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end";
    assert_eq!(run(text, 1, 2), "renew K1 =A1 ttl A2 Milliseconds; Int(1) / Int(0)");
    let text = "if redis.call('get', KEYS[1]) == ARGV[1] then
        return redis.call('set', KEYS[1], ARGV[1], 'XX', 'PX', ARGV[2]) end return nil";
    assert_eq!(run(text, 1, 2), "renew K1 =A1 ttl A2 Milliseconds; Status(\"OK\") / Nil");
    assert_eq!(run("return redis.call('expire', KEYS[1], ARGV[1])", 1, 1), "expire K1 ttl A1 Seconds; Int(1) / Int(0)");
}

#[test]
fn taking_again_by_the_holder() {
    let text = "local cur = redis.call('get', KEYS[1])
        if not cur or cur == ARGV[1] then
          redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
          return 1
        end
        return 0";
    assert_eq!(
        run(text, 1, 2),
        "acquire K1 token A1 ttl A2 Milliseconds; renew K1 =A1 ttl A2 Milliseconds; Int(1) / Int(0)"
    );
    let text = "if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
          redis.call('hincrby', KEYS[1], ARGV[2], 1)
          redis.call('pexpire', KEYS[1], ARGV[1])
          return nil
        end
        return redis.call('pttl', KEYS[1])";
    let got = run(text, 1, 2);
    assert!(got.starts_with("acquire K1 token A2 ttl A1 Milliseconds; renew K1 =A2"), "{got}");
    assert!(got.ends_with("Nil / Mixed"), "{got}");
}

#[test]
fn fenced_writes() {
    let text = "local cur = tonumber(redis.call('get', KEYS[1]) or '0')
        if cur < tonumber(ARGV[1]) then redis.call('set', KEYS[1], ARGV[1]) return 1 end return 0";
    assert_eq!(run(text, 1, 1), "read K1; SET K1 if value < A1; Int(1) / Int(0)");
    let text =
        "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('hset', KEYS[2], 'x', ARGV[2]) return 1 end return 0";
    assert_eq!(run(text, 2, 2), "read K1; HSET K2 if value = A1; Int(1) / Int(0)");
    let text = "redis.call('hset', KEYS[1], 'x', ARGV[1])";
    assert_eq!(run(text, 1, 1), "HSET K1 if None");
}

#[test]
fn deadlines_and_server_time() {
    let text = "local deadline = redis.call('get', KEYS[1])
        if deadline and tonumber(deadline) > tonumber(ARGV[1]) then return 0 end
        redis.call('set', KEYS[1], ARGV[2]) return 1";
    let got = run(text, 1, 2);
    assert!(got.starts_with("acquire K1 token A2 ttl Never"), "{got}");
    let text = "local now = redis.call('TIME')[1]
        local deadline = tonumber(redis.call('get', KEYS[1]))
        if deadline < now then redis.call('set', KEYS[1], now + 30) return 1 end return 0";
    assert_eq!(run(text, 1, 0), "read K1; SET K1 if value < redis:TIME; Int(1) / Int(0)");
}

#[test]
fn errors_loops_libraries() {
    let text = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return redis.error_reply('NOTMINE') end
        return redis.call('del', KEYS[1])";
    assert_eq!(run(text, 1, 1), "release K1 =A1; Int(1) / Error");
    let text = "for i, key in ipairs(KEYS) do redis.call('del', key) end return #KEYS";
    assert_eq!(run(text, 2, 0), "release K1 None; release K2 None; Int(2) / Mixed");
    let text =
        "for i = 1, #KEYS do if redis.call('get', KEYS[i]) == ARGV[1] then redis.call('del', KEYS[i]) end end return 1";
    assert!(run(text, 1, 1).starts_with("release K1 =A1"));
    let library = "#!lua name=locks
        local function unlock(keys, args)
          if redis.call('GET', keys[1]) == args[1] then return redis.call('DEL', keys[1]) end
          return 0
        end
        redis.register_function('unlock', unlock)
        redis.register_function{function_name='force', callback=function(keys, args) return redis.call('DEL', keys[1]) end}";
    let call = |name: &str| run_entry(library, &Entry { keys: Some(1), args: Some(1), function: Some(name.into()) });
    assert_eq!(call("unlock"), "release K1 =A1; Int(1) / Int(0)");
    assert_eq!(call("force"), "release K1 None; Int(1) / Int(0)");
    assert!(call("other").starts_with("opaque: no function"));
}

#[test]
fn what_cannot_be_read_is_opaque() {
    assert!(run("if redis.call( then", 1, 1).starts_with("opaque"));
    assert!(run("while true do end", 0, 0).is_empty());
    assert!(run("local function f() return f() end return f()", 0, 0).starts_with("opaque"));
    let many = "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('incr', 'a') end ".replace("KEYS[1]", "'k'");
    let text: String = (0..20).map(|i| many.replace("'k'", &format!("'k{i}'"))).collect();
    assert!(run(&text, 1, 1).starts_with("opaque: the script has more than"));
}

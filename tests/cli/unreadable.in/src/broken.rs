pub fn take(c: &mut redis::Connection) {
    redis::cmd("SETNX")
}}
"
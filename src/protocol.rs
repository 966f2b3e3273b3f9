//! Protocols: a command, a statement, a service call -> effects. The only place that knows what SET NX PX, EXPIRE, EVAL,
//! pg_advisory_lock, FOR UPDATE, a lease grant mean.

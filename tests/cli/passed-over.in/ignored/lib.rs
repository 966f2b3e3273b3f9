fn f() { redis::cmd("SETNX"); }

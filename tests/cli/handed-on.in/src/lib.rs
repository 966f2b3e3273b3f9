mod close;
mod store;

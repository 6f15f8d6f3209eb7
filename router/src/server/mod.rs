//! The server around the routes: connections, loading gate, routing table, shutdown.

mod byte_stream;
pub(crate) mod connections;
pub(crate) mod listening;
pub(crate) mod loading_gate;
mod protocol;
pub(crate) mod routing;
pub(crate) mod stop_watchdog;
pub(crate) mod stopping;
pub(crate) mod tls;

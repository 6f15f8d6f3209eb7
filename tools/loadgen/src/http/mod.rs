//! APIs of the servers under load, and the client that calls them.

pub(crate) mod address;
pub(crate) mod answer;
pub(crate) mod api;
pub(crate) mod client;
pub(crate) mod info;
#[cfg(test)]
pub(crate) mod test_server;

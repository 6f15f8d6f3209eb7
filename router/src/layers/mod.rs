//! Layers around the routes: requests pass them inwards, responses outwards.

pub(crate) mod auth;
pub(crate) mod catch_panic;
pub(crate) mod cors;
pub(crate) mod observe;
#[cfg(test)]
mod tests;

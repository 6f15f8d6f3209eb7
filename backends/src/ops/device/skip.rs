//! Names of weights that stay in bfloat16 although the type is int8.

use std::sync::atomic::{AtomicBool, Ordering};

/// A pattern of names of weights that stay in bfloat16.
#[derive(Debug)]
pub(in crate::ops) struct Skip {
    pattern: String,
    is_matched: AtomicBool,
}

impl Skip {
    pub(in crate::ops) fn new(pattern: String) -> Self {
        Self { pattern, is_matched: AtomicBool::new(false) }
    }

    /// The pattern.
    pub(in crate::ops) fn pattern(&self) -> &str {
        &self.pattern
    }

    /// True once a name has matched.
    pub(in crate::ops) fn is_matched(&self) -> bool {
        self.is_matched.load(Ordering::Relaxed)
    }

    /// True if the name matches; a match is remembered.
    pub(in crate::ops) fn matches(&self, name: &str) -> bool {
        let matches = contains(name, &self.pattern);
        self.is_matched.fetch_or(matches, Ordering::Relaxed);
        matches
    }
}

/// True if a name contains the parts of a pattern, separated by `*`, in their order.
fn contains(name: &str, pattern: &str) -> bool {
    let mut rest = Some(name);
    for part in pattern.split('*') {
        rest = rest.and_then(|rest| rest.split_once(part)).map(|(_, rest)| rest);
    }
    rest.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_parts_of_names() {
        let name = "model.layers.11.mlp.down_proj";
        for pattern in ["down_proj", "layers.11.", "layers.*.mlp", "*", "model*down_proj"] {
            assert!(contains(name, pattern), "{pattern}");
        }
        for pattern in ["up_proj", "layers.1.", "mlp*layers", "down_proj*x"] {
            assert!(!contains(name, pattern), "{pattern}");
        }
    }
}

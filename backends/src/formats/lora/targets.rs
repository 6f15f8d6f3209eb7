//! Modules that an adapter changes, as peft finds them (`check_target_module_exists`).

use super::patterns::Pattern;

/// Layers that an adapter changes.
#[derive(Debug)]
pub(super) struct Layers {
    pub(super) numbers: Vec<usize>,
    /// Patterns of the component before a layer's number; empty for any.
    pub(super) patterns: Vec<Pattern>,
}

impl Layers {
    fn contain(&self, name: &str) -> bool {
        let mut number = None;
        if self.patterns.is_empty() {
            // The first number behind two components.
            let parts: Vec<&str> = name.split('.').collect();
            let inner = parts.iter().enumerate().skip(2).take(parts.len().saturating_sub(3));
            number = inner.filter_map(|(_, part)| part.parse().ok()).next();
        }
        for pattern in &self.patterns {
            number = number.or_else(|| pattern.number(name));
        }
        number.is_some_and(|number| self.numbers.contains(&number))
    }
}

/// Selection of modules.
#[derive(Debug)]
pub(super) struct Targets {
    pub(super) modules: Option<Pattern>,
    pub(super) excluded: Option<Pattern>,
    /// Modules that are replaced as a whole, and so have no LoRA.
    pub(super) saved: Vec<Pattern>,
    pub(super) layers: Option<Layers>,
}

impl Targets {
    /// `true` if a module has LoRA, by its names with and without the prefix of the class that it was trained in: peft matches the names in
    /// the class that loads it.
    pub(super) fn contain(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.contains(name))
    }

    fn contains(&self, name: &str) -> bool {
        let Some(modules) = &self.modules else { return false };
        if self.excluded.iter().chain(&self.saved).any(|pattern| pattern.matches(name)) || !modules.matches(name) {
            return false;
        }
        match (&self.layers, modules) {
            // As in peft, layers are for lists of names; a complete name counts anyway.
            (Some(layers), Pattern::Ends(ends)) => ends.iter().any(|end| end == name) || layers.contain(name),
            _ => true,
        }
    }

    /// The patterns of all fields.
    pub(super) fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        let layers = self.layers.iter().flat_map(|layers| &layers.patterns);
        self.modules.iter().chain(&self.excluded).chain(&self.saved).chain(layers)
    }
}

//! Registry of the served models.

use super::model_names::{ModelNames, untagged};
use super::vector_ranges::VectorRanges;
use axum::body::Bytes;
use futures::future::{join_all, select_all};
use prefold_core::{Engine, Error, NonEmpty};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A model that requests can ask for.
pub(crate) struct ServedModel {
    pub(crate) engine: Engine,
    pub(crate) names: ModelNames,
    /// Ranges of its vectors, measured when a request first needs them.
    pub(crate) ranges: VectorRanges,
    /// The texts of `/info` before and after the ranges are measured; each is made at the first request for it and
    /// never changes.
    pub(crate) info: [OnceLock<Bytes>; 2],
}

impl ServedModel {
    pub(crate) fn new(engine: Engine, names: ModelNames) -> Self {
        Self { engine, names, ranges: VectorRanges::default(), info: Default::default() }
    }
}

/// The served models. The first is the default.
pub(crate) struct Registry(NonEmpty<Arc<ServedModel>>);

impl Registry {
    pub(crate) fn new(models: NonEmpty<Arc<ServedModel>>) -> Self {
        Self(models)
    }

    /// A single model.
    pub(crate) fn one(engine: Engine, names: ModelNames) -> Self {
        Self::new(NonEmpty::one(Arc::new(ServedModel::new(engine, names))))
    }

    /// Model of requests that cannot name one.
    pub(crate) fn default(&self) -> &Arc<ServedModel> {
        self.0.first()
    }

    /// Model with this name, with or without Ollama's default tag.
    pub(crate) fn named(&self, name: &str) -> Option<&Arc<ServedModel>> {
        let with = |is_equal: fn(&str, &str) -> bool| {
            self.iter().find(|model| model.names.all().any(|known| is_equal(known, name)))
        };
        with(|known, name| known == name).or_else(|| with(|known, name| untagged(known) == untagged(name)))
    }

    /// Model of a request with this name in its body: the default one for a name that no model has.
    pub(crate) fn asked(&self, name: Option<&str>) -> &Arc<ServedModel> {
        name.and_then(|name| self.named(name)).unwrap_or_else(|| self.default())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<ServedModel>> {
        self.0.iter()
    }

    /// Health of all engines, as [`Engine::health`].
    ///
    /// # Errors
    /// The error of the first that fails.
    pub(crate) async fn health(&self) -> Result<(), Error> {
        for model in self.iter() {
            model.engine.health().await?;
        }
        Ok(())
    }

    /// The longest [`Engine::silent_for`].
    pub(crate) fn silent_for(&self) -> Option<Duration> {
        self.iter().filter_map(|model| model.engine.silent_for()).max()
    }

    /// Waits until the device of an engine has failed permanently.
    pub(crate) async fn until_device_lost(&self) {
        select_all(self.iter().map(|model| Box::pin(model.engine.until_device_lost()))).await;
    }

    /// [`Engine::stop`] of all engines.
    pub(crate) fn stop(&self) {
        self.iter().for_each(|model| model.engine.stop());
    }

    /// [`Engine::shutdown`] of all engines.
    pub(crate) async fn shutdown(&self) {
        join_all(self.iter().map(|model| model.engine.shutdown())).await;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Setup, classifier, embedding, with_second};

    #[tokio::test]
    async fn a_model_is_found_by_each_of_its_names() {
        let app = with_second(Setup::new(embedding()), Setup::new(classifier(&["a", "b"])));
        let named = |name| app.models.named(name).map(|model| model.names.served.as_str());
        for (name, expected) in [
            ("fake", Some("fake")),
            ("org/fake", Some("fake")),
            ("second", Some("second")),
            ("org/second", Some("second")),
            ("second:latest", Some("second")),
            ("org/fake:latest", Some("fake")),
            ("fake:v1", None),
            (":latest", None),
            ("Second", None),
            ("", None),
        ] {
            assert_eq!(named(name), expected, "{name}");
            assert_eq!(app.models.asked(Some(name)).names.served, expected.unwrap_or("fake"), "{name}");
        }
        assert_eq!(app.models.asked(None).names.served, app.models.default().names.served);
    }
}

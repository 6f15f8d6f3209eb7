//! The family of a `config.json`.

use crate::LoadError;
use crate::formats::families::{ENCODERS, Family, Mark};
use crate::json::Fields;
use serde_json::Value;

/// What a file says about the family of its model.
pub(super) struct Identity<'a> {
    fields: &'a Fields<'a>,
    pub(super) model_type: String,
    /// The classes that read the tensors; the checkpoint was saved from the first.
    pub(super) architectures: Vec<String>,
    /// The class that `AutoConfig` is in `auto_map`: repository, module and name.
    config: Option<String>,
}

impl<'a> Identity<'a> {
    /// Reads the names of the model's type and classes.
    ///
    /// # Errors
    /// They are malformed, or the type is missing and does not follow from a class.
    pub(super) fn read(fields: &'a Fields<'a>) -> Result<Self, LoadError> {
        let config: Option<String> =
            fields.object("auto_map")?.map(|map| map.optional("AutoConfig")).transpose()?.flatten();
        let of_class = |family: &&Family| matches!((family.mark, &config), (Some(Mark::Config(class)), Some(config)) if class == class_name(config));
        let model_type = match fields.optional("model_type")? {
            Some(model_type) => model_type,
            None => match ENCODERS.iter().find(of_class) {
                Some(family) => family.model_type.to_owned(),
                None => return Err(fields.problem("model_type", "is missing")),
            },
        };
        Ok(Self { fields, model_type, architectures: fields.or("architectures", vec![])?, config })
    }

    /// The family, if it is known.
    pub(super) fn family(&self) -> Option<&'static Family> {
        let is_meant =
            |family: &&Family| family.model_type == self.model_type && family.mark.is_none_or(|mark| self.has(mark));
        ENCODERS.iter().find(is_meant)
    }

    fn has(&self, mark: Mark) -> bool {
        let text = |name: &str| self.fields.get(name).and_then(Value::as_str);
        let config = self.config.as_deref();
        match mark {
            Mark::Field(name, wanted) => text(name) == Some(wanted),
            Mark::Config(wanted) => config.map(class_name) == Some(wanted),
            Mark::Repository(wanted) => {
                let of_class = config.and_then(|class| class.split_once("--")).map(|(repository, _)| repository);
                [text("_name_or_path"), of_class].contains(&Some(wanted))
            }
        }
    }

    /// Checks the class that the checkpoint was saved from. Further ones read the same tensors in another way:
    /// gte-multilingual-base names `NewForTokenClassification` behind `NewModel`, for its weights of tokens.
    ///
    /// # Errors
    /// The family has no such class.
    pub(super) fn check_class(&self, family: &Family) -> Result<(), LoadError> {
        self.check(&family.suffixes.iter().map(|suffix| format!("{}{suffix}", family.prefix)).collect::<Vec<_>>())
    }

    pub(super) fn check(&self, known: &[String]) -> Result<(), LoadError> {
        match self.architectures.first().filter(|class| !known.contains(class)) {
            Some(other) => Err(LoadError::unsupported(super::FILE, format!("architecture {other}"), known.join(", "))),
            None => Ok(()),
        }
    }
}

/// A class without its module.
fn class_name(code: &str) -> &str {
    code.rsplit('.').next().unwrap_or(code)
}

//! The family of a `config.json`.

use crate::error::LoadError;
use crate::formats::families::{self, Family, Mark};
use crate::json::Fields;
use serde_json::Value;

/// Name of the config, for messages.
pub(super) const FILE: &str = "config.json";

/// Models that no row of data describes, and why.
const REASONS: [(&str, &str); 4] = [
    ("t5gemma2", "whose answers come from a decoder with cross-attention"),
    ("t5gemma", "whose answers come from a decoder with cross-attention"),
    ("lfm2_moe", "a mixture of experts with a router of its own"),
    ("longt5", "whose attention is local with global summaries"),
];

/// The settings of a file that identify its model's family.
pub(super) struct Identity<'a> {
    fields: &'a Fields<'a>,
    model_type: String,
    /// The classes that read the tensors; the checkpoint was saved from the first.
    architectures: Vec<String>,
    /// The classes that `AutoConfig` and `AutoModel` are in `auto_map`: repository, module and name.
    config: Option<String>,
    model: Option<String>,
}

impl<'a> Identity<'a> {
    /// Reads the names of the model's type and classes.
    ///
    /// # Errors
    /// They are malformed, or the type is missing and does not follow from a class.
    pub(super) fn read(fields: &'a Fields<'a>) -> Result<Self, LoadError> {
        let map = fields.object("auto_map")?;
        let class = |name: &str| map.as_ref().map(|map| map.optional::<String>(name)).transpose();
        let (config, model) = (class("AutoConfig")?.flatten(), class("AutoModel")?.flatten());
        let of_config =
            |family: &&Family| matches!(family.mark, Some(Mark::Config(wanted)) if is_class(config.as_deref(), wanted));
        let architectures: Vec<String> = fields.or("architectures", vec![])?;
        // Old files have no type. transformers then takes one that the folder's name contains.
        let of_class = |family: &&Family| {
            let is_of =
                |class: &String| family.suffixes.iter().any(|end| class.strip_suffix(end) == Some(family.prefix));
            family.mark.is_none() && architectures.first().is_some_and(is_of)
        };
        let model_type = match fields.optional("model_type")? {
            Some(model_type) => model_type,
            None => match families::all().find(of_config).or_else(|| families::all().find(of_class)) {
                Some(family) => family.model_type.to_owned(),
                None => return Err(fields.problem("model_type", "is missing, and follows from no class")),
            },
        };
        Ok(Self { fields, model_type, architectures, config, model })
    }

    /// The family.
    ///
    /// # Errors
    /// It is not known, or has no such class.
    pub(super) fn family(&self) -> Result<&'static Family, LoadError> {
        let of_type = |family: &&Family| family.model_type == self.model_type;
        let family = families::all().filter(of_type).find(|family| family.mark.is_none_or(|mark| self.has(mark)));
        let Some(family) = family else {
            let known = families::all().filter(|family| family.mark.is_none()).map(|family| family.model_type);
            let reason = REASONS.iter().find(|(model_type, _)| *model_type == self.model_type);
            let reason = reason.map(|(_, reason)| format!(", {reason},")).unwrap_or_default();
            let found = format!("{}{reason}", self.shown());
            return Err(LoadError::unsupported(FILE, found, known.collect::<Vec<_>>().join(", ")));
        };
        let classes = families::all().filter(of_type).filter_map(|family| match family.mark {
            Some(Mark::Class(class)) => Some(class.to_owned()),
            _ => None,
        });
        let suffixes = family.suffixes.iter().map(|suffix| format!("{}{suffix}", family.prefix));
        let known: Vec<String> = suffixes.chain(classes).collect();
        // Further classes read the same tensors in another way: gte-multilingual-base names `NewForTokenClassification` behind
        // `NewModel`, for its weights of tokens.
        match self.architectures.first().filter(|class| !known.contains(class)) {
            Some(other) => Err(LoadError::unsupported(FILE, format!("architecture {other}"), known.join(", "))),
            None => Ok(family),
        }
    }

    fn has(&self, mark: Mark) -> bool {
        let text = |name: &str| self.fields.get(name).and_then(Value::as_str);
        match mark {
            Mark::Field(name, wanted) => text(name) == Some(wanted),
            Mark::Config(wanted) => is_class(self.config.as_deref(), wanted),
            Mark::Model(wanted) => self.model.as_deref().and_then(|class| class.rsplit("--").next()) == Some(wanted),
            Mark::Off(name) => self.fields.get(name).and_then(Value::as_bool) == Some(false),
            Mark::Class(wanted) => self.architectures.iter().any(|class| class == wanted),
            Mark::Repository(wanted) => {
                let of_class = self.config.as_deref().and_then(|class| class.split_once("--"));
                [text("_name_or_path"), of_class.map(|(repository, _)| repository)].contains(&Some(wanted))
            }
        }
    }

    /// The model, for messages.
    fn shown(&self) -> String {
        let model_type = &self.model_type;
        match self.architectures.first() {
            Some(architecture) => format!("architecture {architecture} (`model_type` \"{model_type}\")"),
            None => format!("`model_type` \"{model_type}\""),
        }
    }
}

/// `true` for a class of this name, in whatever repository and module.
fn is_class(class: Option<&str>, wanted: &str) -> bool {
    class.and_then(|class| class.rsplit('.').next()) == Some(wanted)
}

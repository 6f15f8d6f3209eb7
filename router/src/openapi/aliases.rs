//! Other names of fields and values that the routes accept, which serde's attributes keep from the description.

use crate::state::field_names::ALIASES;
use utoipa::openapi::schema::Schema;
use utoipa::openapi::{Components, RefOr};

/// Values of an enumeration that mean the same as others.
const VALUES: [(&str, &[&str]); 2] =
    [("Direction", &["Right", "Left"]), ("InputType", &["search_query", "search_document", "passage"])];

/// Describes the other names next to the fields and values.
pub(super) fn describe(components: &mut Components) {
    for (body, field, names) in ALIASES {
        let Some(RefOr::T(Schema::Object(body))) = components.schemas.get_mut(body) else { continue };
        let Some(schema) = body.properties.get(field).cloned() else { continue };
        for name in names {
            body.properties.insert((*name).to_owned(), described_as(schema.clone(), format!("The same as `{field}`.")));
        }
    }
    for (name, values) in VALUES {
        let Some(RefOr::T(Schema::Object(schema))) = components.schemas.get_mut(name) else { continue };
        schema.enum_values.iter_mut().for_each(|known| known.extend(values.iter().map(|&value| value.into())));
    }
}

fn described_as(mut schema: RefOr<Schema>, text: String) -> RefOr<Schema> {
    match &mut schema {
        RefOr::Ref(reference) => reference.description = text,
        RefOr::T(Schema::Object(object)) => object.description = Some(text),
        RefOr::T(Schema::Array(array)) => array.description = Some(text),
        RefOr::T(Schema::OneOf(one_of)) => one_of.description = Some(text),
        RefOr::T(_) => {}
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::App;
    use crate::testing::{Setup, classifier, embedding, post, reranker};
    use serde_json::{Value, json};
    use std::fs;
    use std::path::Path;

    /// The names after `alias = ` in the sources under a folder.
    fn aliases_in(folder: &Path) -> Vec<String> {
        let mut names = Vec::new();
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                names.extend(aliases_in(&entry.path()));
                continue;
            }
            let source = fs::read_to_string(entry.path()).unwrap();
            let after = source.split("alias = \"").skip(1);
            names.extend(after.map(|rest| rest.split('"').next().unwrap().to_owned()));
        }
        names
    }

    #[test]
    fn every_alias_is_described() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let described = || ALIASES.iter().map(|(.., names)| names).chain(VALUES.iter().map(|(_, values)| values));
        for name in ["routes", "wire"].into_iter().flat_map(|folder| aliases_in(&sources.join(folder))) {
            assert!(described().any(|names| names.contains(&name.as_str())), "`{name}` is in no table");
        }
    }

    fn app_of(body: &str) -> App {
        let mut setup = Setup::new(match body {
            "EmbeddingsBody" | "PoolingBody" => embedding(),
            "ClassifyBody" => classifier(&["a", "b"]),
            _ => reranker(),
        });
        setup.http.strict_fields = true;
        setup.build()
    }

    #[tokio::test]
    async fn every_described_alias_is_accepted() {
        for (body, field, names) in ALIASES {
            let (path, valid) = match body {
                "EmbeddingsBody" => ("/v1/embeddings", json!({ "input": "a" })),
                "PoolingBody" => ("/pooling", json!({ "input": "a" })),
                "RerankBody" => ("/v1/rerank", json!({ "query": "a", "documents": ["b"] })),
                "ScoreBody" => ("/v1/score", json!({ "queries": "a", "documents": ["b"] })),
                _ => ("/v1/classify", json!({ "input": "a" })),
            };
            for name in names {
                let mut sent = valid.clone();
                let fields = sent.as_object_mut().unwrap();
                let value = fields.remove(field).unwrap_or_else(|| match field {
                    "dimensions" | "top_n" => json!(1),
                    "embedding_type" => json!("float"),
                    "instruction" => json!("i"),
                    "truncation_direction" => json!("left"),
                    _ => Value::Bool(true),
                });
                fields.insert((*name).to_owned(), value);
                let got = post(&app_of(body), path, &sent).await;
                assert_eq!(got.status, 200, "{path} {sent}: {}", got.body);
            }
        }
    }
}

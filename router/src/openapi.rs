//! The OpenAPI description: the parts of each route, and the parts that all routes share.

mod aliases;

use crate::error::{Dialect, OllamaError, OpenAiError, TeiError};
use crate::routes::table::{Kind, ROUTES, Route};
use crate::wire::answer::{DTYPE, SHAPE};
use prefold_core::Task;
use serde_json::{Value, json};
use utoipa::OpenApi as _;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::schema::{AnyOfBuilder, OneOf, Schema, SchemaType, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Components, Content, ContentBuilder, Header, HeaderBuilder, ObjectBuilder, OpenApi, Ref, RefOr, Response,
    ResponseBuilder,
};

/// Name of the security scheme.
const KEY: &str = "api_key";

const KEY_DESCRIPTION: &str = "`--api-key`, when it is set. The headers `api-key` and `x-api-key` take it too";

/// Schemas of an error's body.
const TEI_ERROR: &[&str] = &["TeiError"];
const OPENAI_ERROR: &[&str] = &["OpenAiError"];
const OLLAMA_ERROR: &[&str] = &["OllamaError"];
const EITHER_ERROR: &[&str] = &["TeiError", "OpenAiError"];

/// Media type of bodies.
const JSON: &str = "application/json";

/// Routes with the errors of either form: a field of the body decides.
const EITHER_DIALECT: [&str; 3] = ["/", "/rerank", "/tokenize"];

/// Types with forms that have values in common, such as an empty list.
const ANY_OF: [&str; 7] =
    ["AskedType", "TaskBody", "TaskAnswer", "InvocationBody", "InvocationAnswer", "Predictions", "TokenPredictions"];

/// Error statuses that any route may return, in addition to its own.
const ERRORS: [(&str, &str); 10] = [
    ("400", "The body is not JSON, damaged, or ended early; no inputs, or an empty one"),
    ("401", "The API key is missing or wrong"),
    ("408", "The body did not arrive within `--client-timeout`"),
    ("413", "Too many bytes (`--payload-limit`), values or inputs; an input that is too long, without truncation"),
    ("415", "`Content-Encoding` is neither gzip nor zstd"),
    ("422", "A wrong value or type, or a task that the model does not support"),
    ("424", "The forward pass failed"),
    ("429", "A limit of the server is reached; retry after `Retry-After` seconds"),
    ("500", "Internal error"),
    ("503", "The server is stopping"),
];

/// Descriptions for routes on which every fault of a request is 400.
const ONE_STATUS_ERRORS: [(&str, &str); 2] = [
    (
        "400",
        "The body is not JSON, damaged, or ended early; a wrong value or type; no inputs, an empty one, too many, or one that is too \
         long, without truncation; a task that the model does not support",
    ),
    ("413", "Too many bytes (`--payload-limit`) or values"),
];

/// Headers of responses for which the model ran.
const COST_HEADERS: [(&str, &str); 12] = [
    ("x-compute-type", "The device, for example `cpu`"),
    ("x-compute-time", "Milliseconds from the request's head to the response"),
    ("x-total-time", "Equal to `x-compute-time`"),
    ("x-tokenization-time", "Milliseconds of tokenization"),
    ("x-queue-time", "Milliseconds in the queue, mean over the inputs"),
    ("x-planning-time", "Milliseconds of forming the batch, mean over the inputs"),
    ("x-inference-time", "Milliseconds of the forward pass, mean over the inputs"),
    ("x-compute-characters", "Characters of the inputs"),
    ("x-compute-tokens", "Tokens of the inputs"),
    ("x-compute-compact-tokens", "Tokens of the inputs, with every shared prefix counted once"),
    ("x-truncated-inputs", "Inputs that were too long and were truncated"),
    ("x-compaction-ratio", "`x-compute-compact-tokens` divided by `x-compute-tokens`"),
];

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "prefold",
        description = "Embeddings, reranking and classification. Every prefix that the texts of a batch share is \
                       computed once."
    ),
    components(schemas(TeiError, OpenAiError, OllamaError)),
    tags(
        (name = "OpenAI", description = "For clients of OpenAI"),
        (name = "text-embeddings-inference", description = "For clients of text-embeddings-inference"),
        (name = "Rerank", description = "For clients of Cohere, Jina, Voyage, vLLM, Infinity and text-embeddings-inference"),
        (name = "Cohere", description = "Further routes for clients of Cohere"),
        (name = "vLLM", description = "Further routes for clients of vLLM"),
        (name = "Ollama", description = "For clients of Ollama"),
        (name = "Infinity", description = "For clients of Infinity"),
        (name = "Server", description = "Health, model and metrics")
    )
)]
struct Description;

/// The description of the routes: of each one what its handler says, its errors and headers, whether it needs an API key,
/// and its aliases. `own` is the model's first task, of which `POST /` has the example, and `name` the model's name.
pub(crate) fn description(own: Task, name: &str) -> OpenApi {
    let mut api = Description::openapi();
    let components = api.components.get_or_insert_default();
    let scheme = Http::builder().scheme(HttpAuthScheme::Bearer).description(Some(KEY_DESCRIPTION)).build();
    components.security_schemes.insert(KEY.to_owned(), RefOr::T(SecurityScheme::Http(scheme)));
    let mut add = |path: &str, item| api.paths.paths.entry(path.to_owned()).or_default().merge_operations(item);
    for route in ROUTES.iter() {
        let (schemas, paths, _) = (route.parts)();
        components.schemas.extend(schemas);
        for mut item in paths.paths.into_values() {
            operations(&mut item).for_each(|operation| complete(route, operation));
            route.aliases.iter().for_each(|alias| add(alias, as_alias(item.clone(), alias, &route.path)));
            add(&route.path, item);
        }
    }
    aliases::describe(components);
    make_any_of(components);
    let own_route = match own {
        Task::Embed => "/embed",
        Task::Rerank => "/rerank",
        Task::Classify => "/predict",
        Task::ClassifyTokens => "/predict_tokens",
    };
    let example = example_of(&mut api, own_route).and_then(|example| example.clone());
    for path in ["/", "/invocations"] {
        example_of(&mut api, path).into_iter().for_each(|place| place.clone_from(&example));
    }
    for path in ["/api/show", "/api/pull"] {
        example_of(&mut api, path).into_iter().for_each(|place| *place = Some(json!({ "model": name })));
    }
    api
}

/// The example of the body that is posted to a path.
fn example_of<'a>(api: &'a mut OpenApi, path: &str) -> Option<&'a mut Option<Value>> {
    let operation = api.paths.paths.get_mut(path)?.post.as_mut()?;
    let Some(RefOr::T(body)) = &mut operation.request_body else { return None };
    match body.content.get_mut(JSON)? {
        RefOr::T(content) => Some(&mut content.example),
        RefOr::Ref(_) => None,
    }
}

/// Lets a value have several of the forms of a type.
fn make_any_of(components: &mut Components) {
    for name in ANY_OF {
        let Some(RefOr::T(schema)) = components.schemas.get_mut(name) else { continue };
        if let Schema::OneOf(OneOf { items, description, .. }) = schema {
            let any_of = items.drain(..).fold(AnyOfBuilder::new(), AnyOfBuilder::item);
            *schema = any_of.description(description.take()).into();
        }
    }
}

/// The operations of `path` at another path.
fn as_alias(mut item: PathItem, alias: &str, path: &str) -> PathItem {
    for operation in operations(&mut item) {
        let id = operation.operation_id.as_deref().unwrap_or_default();
        operation.operation_id = Some(format!("{id}_at_{}", alias.trim_matches('/')));
        operation.summary = Some(format!("The same as `{path}`"));
        operation.description = None;
    }
    item
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.post].into_iter().flatten()
}

/// Adds the parts of an operation that follow from its route.
fn complete(route: &Route, operation: &mut Operation) {
    let is_open = route.kind.is_for_monitors();
    let takes_a_body = operation.request_body.is_some();
    let runs_the_model = route.kind == Kind::Model;
    let dialect = Dialect::of(&route.path);
    let schema = match dialect {
        _ if EITHER_DIALECT.contains(&route.path.as_str()) => EITHER_ERROR,
        Dialect::Tei => TEI_ERROR,
        Dialect::OpenAi | Dialect::Vllm => OPENAI_ERROR,
        Dialect::Ollama => OLLAMA_ERROR,
    };
    for (status, description) in ERRORS {
        let may_happen = match status {
            "401" => !is_open,
            "503" => takes_a_body || matches!(route.kind, Kind::Liveness | Kind::Readiness),
            "500" => true,
            "424" => runs_the_model,
            "422" => takes_a_body && !dialect.has_one_status(),
            _ => takes_a_body,
        };
        let one_status = ONE_STATUS_ERRORS.iter().find(|(code, _)| dialect.has_one_status() && *code == status);
        let description = match one_status {
            Some((_, description)) => description,
            None if is_open && status == "503" => "Unhealthy; the error says why",
            None => description,
        };
        if may_happen && !operation.responses.responses.contains_key(status) {
            operation.responses.responses.insert(status.to_owned(), RefOr::T(error(schema, description)));
        }
    }
    if let Some(RefOr::T(own)) = operation.responses.responses.get_mut("404") {
        own.content.entry(JSON.to_owned()).or_insert_with(|| RefOr::T(content(schema)));
    }
    if let Some(RefOr::T(ok)) = operation.responses.responses.get_mut("200").filter(|_| runs_the_model) {
        for (name, description) in COST_HEADERS {
            ok.headers.insert(name.to_owned(), header(description));
        }
        if ok.content.contains_key("application/octet-stream") {
            ok.headers
                .insert(SHAPE.to_string(), header("Rows and values per row of a binary response, for example `2,384`"));
            ok.headers.insert(DTYPE.to_string(), header("Element type of a binary response, for example `float32`"));
        }
    }
    operation.security = Some(if is_open {
        vec![]
    } else {
        // The key is needed only if the server was given one.
        vec![SecurityRequirement::default(), SecurityRequirement::new(KEY, [] as [&str; 0])]
    });
}

fn error(schemas: &[&str], description: &str) -> Response {
    ResponseBuilder::new().description(description).content(JSON, content(schemas)).build()
}

fn content(schemas: &[&str]) -> Content {
    let schema: RefOr<Schema> = match schemas {
        [schema] => Ref::from_schema_name(*schema).into(),
        several => {
            let refs = several.iter().map(|schema| Ref::from_schema_name(*schema));
            refs.fold(AnyOfBuilder::new(), AnyOfBuilder::item).into()
        }
    };
    ContentBuilder::new().schema(Some(schema)).build()
}

fn header(description: &str) -> RefOr<Header> {
    let string = ObjectBuilder::new().schema_type(SchemaType::Type(Type::String)).build();
    RefOr::T(HeaderBuilder::new().schema(Some(string)).description(Some(description)).build())
}

#[cfg(test)]
mod tests {
    use crate::testing::{Setup, embedding};
    use axum::body::Body;
    use axum::http::{Method, Request, StatusCode};
    use prefold_core::Task;
    use std::path::Path;
    use tower::ServiceExt;
    use utoipa::openapi::OpenApi;

    fn description() -> OpenApi {
        super::description(Task::Embed, "prefold-mini")
    }

    /// Run with `UPDATE_DOCS=1` after a change of the routes.
    #[test]
    fn the_description_that_is_checked_in_is_that_of_the_routes() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/openapi.json");
        let written = description().to_pretty_json().unwrap() + "\n";
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, &written).unwrap();
        }
        let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(checked_in == written, "docs/openapi.json is stale: UPDATE_DOCS=1 cargo test -p prefold openapi");
    }

    #[tokio::test]
    async fn what_is_described_is_routed() {
        let router = crate::server::routing::router(Setup::new(embedding()).build());
        let paths = description().paths.paths;
        assert!(paths.len() > 20, "{}", paths.len());
        for (path, item) in paths {
            for (method, operation) in [(Method::GET, item.get), (Method::POST, item.post)] {
                let Some(operation) = operation else { continue };
                let path = path.replace("{model}", "org/fake");
                let request = Request::builder().method(&method).uri(&path).body(Body::from("{}")).unwrap();
                let status = router.clone().oneshot(request).await.unwrap().status();
                assert!(
                    !matches!(status, StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED),
                    "{method} {path}: {status}"
                );
                assert!(operation.operation_id.is_some() && operation.summary.is_some(), "{method} {path}");
            }
        }
    }

    #[test]
    fn operations_have_names_of_their_own() {
        let mut ids: Vec<_> = description()
            .paths
            .paths
            .into_values()
            .flat_map(|item| [item.get, item.post])
            .flatten()
            .map(|operation| operation.operation_id.unwrap())
            .collect();
        ids.sort();
        assert!(ids.is_sorted_by(|a, b| a != b), "{ids:?}");
    }
}

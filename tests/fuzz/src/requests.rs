//! Request bodies: for any body, the response is well formed and has a documented status.

use crate::fake::{self, DIM};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Request, StatusCode, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use half::{bf16, f16};
use prefold_core::testing;
use prefold_core::{Capabilities, Classify, Embed, Prompts};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;
use tokio::runtime::Runtime;
use tower::ServiceExt;

/// Routes with a body, each with its number in the inputs of corpora. A number belongs to its route forever.
pub const ROUTES: [(u8, &str); 30] = [
    (0, "/embed"),
    (1, "/embed_all"),
    (2, "/similarity"),
    (3, "/predict"),
    (4, "/rerank"),
    (5, "/tokenize"),
    (6, "/decode"),
    (7, "/v1/embeddings"),
    (8, "/v1/rerank"),
    (9, "/v2/rerank"),
    (10, "/v1/score"),
    (11, "/v1/classify"),
    (12, "/embeddings"),
    (13, "/score"),
    (14, "/classify"),
    (15, "/"),
    (16, "/predict_tokens"),
    (17, "/v1/embed"),
    (18, "/v2/embed"),
    (19, "/v1/tokenize"),
    (20, "/v1/detokenize"),
    (30, "/pooling"),
    (31, "/invocations"),
    (32, "/detokenize"),
    (33, "/reranking"),
    (34, "/v1/reranking"),
    (35, "/api/embed"),
    (36, "/api/embeddings"),
    (37, "/api/show"),
    (38, "/api/pull"),
];

/// Kinds of served models: embedding, reranker, classifier with one label, classifier with three labels, token classifier. Corpora refer to
/// them by number, so new ones go to the end.
pub const KINDS: usize = 5;

/// Maximum tokens of an input.
const MAX_INPUT_LENGTH: usize = 256;

const BINARY: &str = "application/octet-stream";

/// The checked-in OpenAPI description.
pub const DESCRIPTION: &str = include_str!("../../../docs/openapi.json");

/// Bit of an input's second byte that requests binary vectors; the other bits are the kind of model.
const BINARY_BIT: u8 = 0x80;

/// First two bytes of an input: the route's number, then the kind of model and whether binary vectors are requested.
pub fn selector(route: &str, kind: usize, binary: bool) -> [u8; 2] {
    let (number, _) = ROUTES.iter().find(|(_, path)| *path == route).expect("a route of the list");
    let kind = u8::try_from(kind).expect("few kinds");
    [*number, if binary { kind | BINARY_BIT } else { kind }]
}

/// Target: responses match the OpenAPI description.
pub fn run(bytes: &[u8]) {
    drop(answer(bytes));
}

/// Status and body of the response, checked against the description; `None` for an input without a known route and model.
pub fn answer(bytes: &[u8]) -> Option<(StatusCode, Bytes)> {
    let (&[number, model], body) = bytes.split_first_chunk()?;
    let &(_, route) = ROUTES.iter().find(|(known, _)| *known == number)?;
    let (kind, binary) = (usize::from(model & !BINARY_BIT), model & BINARY_BIT != 0);
    let server = server();
    let router = server.routers.get(kind)?;
    let accept = if binary { BINARY } else { "*/*" };
    let request = Request::post(route).header(header::ACCEPT, accept).body(Body::from(body.to_vec())).unwrap();
    let (status, headers, answer) = server.runtime.block_on(async {
        let response = router.clone().oneshot(request).await.expect("routers cannot fail");
        let (parts, body) = response.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.expect("the body is whole");
        (parts.status, parts.headers, body)
    });
    let documented = &server.statuses[route];
    assert!(documented.contains(status.as_str()), "{route} answered {status}, not one of {documented:?}");
    match status {
        StatusCode::OK => check_answer(&headers, &answer, body),
        _ => check_error(status, &answer, route),
    }
    Some((status, answer))
}

/// Servers for each kind of model, and the description.
struct Server {
    runtime: Runtime,
    routers: Vec<Router>,
    /// Described responses by route.
    statuses: BTreeMap<&'static str, BTreeSet<String>>,
}

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let _entered = runtime.enter();
        let prompts = Prompts { by_name: [("query".to_owned(), "Query: ".to_owned())].into(), ..Prompts::default() };
        let classifier = |labels: usize| {
            let labels = (0..labels).map(|label| format!("label {label}")).collect();
            Capabilities::classifier(Classify::of_labels(labels, prompts.clone()), MAX_INPUT_LENGTH)
        };
        let embed = Embed { prompts: prompts.clone(), ..testing::embed(DIM) };
        let models: [Capabilities; KINDS] = [
            Capabilities::embedding(embed, MAX_INPUT_LENGTH),
            Capabilities::prompted_reranker(testing::qwen3_template(), MAX_INPUT_LENGTH),
            classifier(1),
            classifier(3),
            Capabilities::token_classifier(["O", "B-X", "I-X"].map(str::to_owned).to_vec(), MAX_INPUT_LENGTH),
        ];
        let router = |model| prefold::routes(fake::engine(model), "fake").expect("the defaults are sound");
        let routers = models.into_iter().map(router).collect();
        let description: Value = serde_json::from_str(DESCRIPTION).expect("JSON");
        let statuses = ROUTES.map(|(_, route)| (route, statuses(&description, route)));
        Server { routers, statuses: statuses.into(), runtime }
    })
}

/// Allowed statuses: the described ones, except for a failing or stopping server.
fn statuses(description: &Value, route: &str) -> BTreeSet<String> {
    let responses = description["paths"][route]["post"]["responses"].as_object();
    let responses = responses.unwrap_or_else(|| panic!("{route} is not described"));
    responses.keys().filter(|status| !matches!(status.as_str(), "401" | "500" | "503")).cloned().collect()
}

fn check_error(status: StatusCode, answer: &[u8], route: &str) {
    let text = String::from_utf8_lossy(answer);
    let error: Value = serde_json::from_slice(answer).unwrap_or_else(|error| panic!("{status}: {error}: {text}"));
    let message = error["error"].as_str().or(error["error"]["message"].as_str());
    let kind = error["error_type"].as_str().or(error["error"]["type"].as_str());
    let has_kind = kind.is_some() != route.starts_with("/api/");
    assert!(message.is_some_and(|text| !text.is_empty()) && has_kind, "{status}: {text}");
    // The backend returns finite values, but differences of the extremes overflow.
    let is_overflow = message.is_some_and(|message| message.contains("not finite"));
    assert!(status != StatusCode::FAILED_DEPENDENCY || is_overflow, "{text}");
}

fn check_answer(headers: &HeaderMap, answer: &Bytes, request: &[u8]) {
    let asked: Asked = serde_json::from_slice(request).unwrap_or_default();
    let is_big = asked.endianness.as_deref() == Some("big");
    if headers[header::CONTENT_TYPE] == BINARY {
        return check_binary(headers, answer, is_big);
    }
    assert_eq!(headers[header::CONTENT_TYPE], "application/json");
    let text = String::from_utf8_lossy(answer);
    let value: Value = serde_json::from_slice(answer).unwrap_or_else(|error| panic!("{error}: {text}"));
    check_value("", &value, &asked.element(), is_big);
}

/// Parsed as the routes parse it: ignored fields may be invalid text.
#[derive(Default, Deserialize)]
struct Asked {
    embed_dtype: Option<String>,
    output_dtype: Option<String>,
    endianness: Option<String>,
}

impl Asked {
    /// Element type of base64.
    fn element(self) -> String {
        let integers = self.output_dtype.filter(|name| name != "float" && name != "base64");
        integers.or(self.embed_dtype).unwrap_or_else(|| "float32".to_owned())
    }
}

/// Asserts that null occurs only as the offset of special tokens and as the strings of tokens not asked for, and that base64 decodes to finite values.
fn check_value(name: &str, value: &Value, element: &str, is_big: bool) {
    match value {
        Value::Null => assert!(matches!(name, "start" | "stop" | "token_strs"), "`{name}` is null"),
        Value::Array(items) => items.iter().for_each(|item| check_value(name, item, element, is_big)),
        Value::Object(fields) => fields.iter().for_each(|(name, value)| check_value(name, value, element, is_big)),
        Value::String(text) if matches!(name, "embedding" | "base64" | "data") => {
            check_vector(STANDARD.decode(text).expect("base64"), element, is_big);
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn check_binary(headers: &HeaderMap, answer: &[u8], is_big: bool) {
    let text = |name: &str| headers[name].to_str().expect("ASCII");
    let (rows, dim) = text("x-embedding-shape").split_once(',').expect("ROWS,VALUES");
    let values: usize = rows.parse::<usize>().unwrap() * dim.parse::<usize>().unwrap();
    let element = text("x-embedding-dtype");
    assert_eq!(answer.len(), values * size(element));
    check_vector(answer.to_vec(), element, is_big);
}

/// Bytes of an element.
fn size(element: &str) -> usize {
    match element {
        "float32" => 4,
        "float16" | "bfloat16" => 2,
        "fp8_e4m3" | "fp8_e5m2" | "int8" | "uint8" | "binary" | "ubinary" => 1,
        other => panic!("vectors of {other}"),
    }
}

fn check_vector(mut bytes: Vec<u8>, element: &str, is_big: bool) {
    if is_big {
        bytes.chunks_exact_mut(size(element)).for_each(<[u8]>::reverse);
    }
    let all_finite = match element {
        "float32" => bytes.as_chunks().0.iter().all(|value| f32::from_le_bytes(*value).is_finite()),
        "float16" => bytes.as_chunks().0.iter().all(|value| f16::from_le_bytes(*value).is_finite()),
        "bfloat16" => bytes.as_chunks().0.iter().all(|value| bf16::from_le_bytes(*value).is_finite()),
        "fp8_e4m3" => bytes.iter().all(|code| code & 0x7f < 0x7f),
        "fp8_e5m2" => bytes.iter().all(|code| code & 0x7f < 0x7c),
        _ => true,
    };
    assert!(all_finite && !bytes.is_empty(), "a vector of {element} that is not finite: {bytes:?}");
}

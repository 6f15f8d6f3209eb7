//! `GET /`: what is served, with commands to try. Monitors that request it learn whether the server is alive.

use super::health;
use crate::error::{ApiError, routes_of};
use crate::state::App;
use crate::state::curl::curl_by;
use crate::telemetry::version::version_and_commit;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{Html, IntoResponse, Response};
use prefold_core::Task;
use std::fmt::Write;

/// Home
///
/// The model, its routes and three commands, as text, or as a page for browsers; with API keys without the model. Fails as `/health` does.
#[utoipa::path(
    get, path = "/", tag = "Server",
    responses((status = 200, description = "What is served", body = String, content_type = "text/plain"))
)]
pub(crate) async fn home(State(app): State<App>, headers: HeaderMap) -> Result<Response, ApiError> {
    health::health(State(app.clone())).await?;
    let text = described(&app, &address(&headers));
    Ok(if wants_html(&headers) { Html(page(&text)).into_response() } else { text.into_response() })
}

/// The address that the client used, if it can be part of a command.
fn address(headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".:-[]".contains(c);
    let is_good = !host.is_empty() && host.len() <= 255 && host.chars().all(is_plain);
    if is_good { host.to_owned() } else { "127.0.0.1:3000".to_owned() }
}

fn wants_html(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accepted.is_some_and(|accept| accept.contains("text/html"))
}

/// The page's text.
fn described(app: &App, address: &str) -> String {
    let scheme = if app.http.is_tls { "https" } else { "http" };
    let (curl, address) = match &app.http.unix_socket {
        Some(socket) => (curl_by(socket), "localhost"),
        None => ("curl".to_owned(), address),
    };
    let url = format!("{scheme}://{address}");
    let mut text = format!("prefold {}\n\n", version_and_commit());
    let keys = if app.http.api_keys.are_required() { " -H 'Authorization: Bearer API_KEY'" } else { "" };
    // Writing to a string cannot fail.
    let _ = if keys.is_empty() {
        write_model(&mut text, app, &curl, &url)
    } else {
        write!(text, "Requests need an API key.\n\n")
    };
    let docs = if app.http.unix_socket.is_some() { format!("{curl} {url}/docs") } else { format!("{url}/docs") };
    let _ = write!(text, "  {curl}{keys} {url}/info\n\nAll routes: {docs}\n");
    text
}

/// The model and a command for each of its first two routes.
fn write_model(text: &mut String, app: &App, curl: &str, url: &str) -> std::fmt::Result {
    let model = app.models.default();
    let info = model.engine.info();
    let tasks: Vec<Task> = info.capabilities.tasks().collect();
    let names: Vec<&str> = tasks.iter().map(|task| task.as_str()).collect();
    write!(text, "Model {}: {}, {} on {}\n\n", model.names.served, names.join(", "), info.dtype, info.device)?;
    let routes = tasks.iter().filter_map(|&task| Some((task, *routes_of(task).first()?)));
    for (task, route) in routes.take(2) {
        writeln!(
            text,
            "  {curl} {url}{route} -H 'Content-Type: application/json' -d '{}'",
            body(task, &model.names.served)
        )?;
    }
    Ok(())
}

/// A small request for a task, of its first route.
fn body(task: Task, model: &str) -> String {
    let example = "How do I restart a service after a crash?";
    match task {
        Task::Embed => serde_json::json!({ "model": model, "input": example }),
        Task::Rerank => {
            serde_json::json!({ "query": example, "texts": ["Restart it with systemctl.", "Bread needs yeast."] })
        }
        Task::Classify | Task::ClassifyTokens => serde_json::json!({ "inputs": example }),
    }
    .to_string()
    .replace('\'', "\\u0027")
}

fn page(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>prefold</title></head>\
         <body><pre>{escaped}</pre><p><a href=\"docs\">Documentation</a></p></body></html>"
    )
}

#[cfg(test)]
mod tests {

    use crate::state::api_keys::Keys;
    use crate::testing::{Setup, embedding, send};
    use axum::body::Body;
    use axum::http::Request;

    async fn shown(setup: Setup, fields: &[(&str, &str)]) -> String {
        let request = fields.iter().fold(Request::get("/"), |request, (name, value)| request.header(*name, *value));
        let answer = send(&setup.build(), request.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status, 200);
        answer.body
    }

    #[tokio::test]
    async fn commands_name_the_address_that_the_client_used() {
        let text = shown(Setup::new(embedding()), &[("host", "embed.example:8080")]).await;
        assert!(text.contains("Model fake: embed, rerank, float32 on cpu"), "{text}");
        assert!(text.contains("curl http://embed.example:8080/v1/embeddings "), "{text}");
        assert!(text.contains("All routes: http://embed.example:8080/docs"), "{text}");
        assert_eq!(text.matches("  curl").count(), 3, "{text}");
        for host in ["a'; rm", "<b>", ""] {
            assert!(
                shown(Setup::new(embedding()), &[("host", host)]).await.contains("curl http://127.0.0.1:3000/"),
                "{host}"
            );
        }
    }

    #[tokio::test]
    async fn commands_go_to_the_unix_socket() {
        for (path, shown_path) in [("/run/prefold/socket", "/run/prefold/socket"), ("/tmp/a b'c", r"'/tmp/a b'\''c'")] {
            let mut setup = Setup::new(embedding());
            setup.http.unix_socket = Some(path.into());
            let text = shown(setup, &[("host", "embed.example:8080")]).await;
            let command = format!("curl --unix-socket {shown_path} http://localhost/");
            assert_eq!(text.matches(&command).count(), 4, "{text}");
            assert!(!text.contains("embed.example") && !text.contains("curl http"), "{text}");
        }
    }

    #[tokio::test]
    async fn a_browser_gets_a_page_and_a_stranger_no_model() {
        let page = shown(Setup::new(embedding()), &[("accept", "text/html,*/*;q=0.8")]).await;
        assert!(page.starts_with("<!doctype html>") && page.contains("href=\"docs\""), "{page}");
        let mut setup = Setup::new(embedding());
        setup.http.api_keys = Keys::new(vec!["key".parse().unwrap()], None).unwrap();
        let text = shown(setup, &[]).await;
        assert!(!text.contains("fake") && text.contains("curl -H 'Authorization: Bearer API_KEY' http"), "{text}");
    }
}

//! Downloads, from a small hub on this machine.

use super::vocab_txt::vocab_txt;
use super::{fixture, options};
use crate::checkpoint::Checkpoint;
use crate::config::names;
use crate::options::{HubModel, ModelSource};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;

pub(super) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const TOKEN: &str = "hf_secret_of_the_test";

/// Behaviour of the hub.
#[derive(Clone, Default)]
pub(super) struct Behaviour {
    /// Files by path.
    pub(super) files: BTreeMap<String, Vec<u8>>,
    /// Files of the repository `owner/base`.
    pub(super) base: BTreeMap<String, Vec<u8>>,
    /// Answers everything with this status.
    refuses: Option<&'static str>,
    /// Announces this file's size, then sends an error page.
    breaks: Option<&'static str>,
    /// Fault for requests whose line begins with the text.
    pub(super) fault: Option<(String, Fault)>,
    /// Commit in the answers, instead of the true one.
    pub(super) commit: Option<&'static str>,
}

/// A fault of an answer.
#[derive(Debug, Clone)]
pub(super) enum Fault {
    /// The answer never arrives.
    Hang,
    /// Nothing follows the first half.
    HangHalfway,
    /// The connection ends after the first half.
    CloseHalfway,
    /// This body, with status 200.
    Body(Vec<u8>),
    /// This body, with status 200 and without a length.
    UnannouncedBody(Vec<u8>),
    /// The body never ends.
    Endless,
}

/// One request.
#[derive(Debug, Clone)]
struct Request {
    line: String,
    authorization: Option<String>,
}

/// Serves the repositories `owner/tiny` and `owner/base` until it is dropped.
pub(super) struct Hub {
    pub(super) endpoint: String,
    requests: Arc<Mutex<Vec<Request>>>,
    pub(super) behaviour: Arc<Mutex<Behaviour>>,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Hub {
    pub(super) fn start(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (requests, stopped) = (Arc::new(Mutex::new(vec![])), Arc::new(AtomicBool::new(false)));
        let behaviour = Arc::new(Mutex::new(behaviour));
        let shared = (Arc::clone(&requests), Arc::clone(&behaviour), Arc::clone(&stopped));
        let thread = std::thread::spawn(move || {
            let (requests, behaviour, stopped) = shared;
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let behaviour = behaviour.lock().unwrap().clone();
                // A client may disconnect.
                let _ = answer(stream.unwrap(), &behaviour, &requests);
            }
        });
        Self { endpoint, requests, behaviour, stopped, thread: Some(thread) }
    }

    /// Sets or removes the fault of requests that begin with a text.
    pub(super) fn set_fault(&self, fault: Option<(&str, Fault)>) {
        self.behaviour.lock().unwrap().fault = fault.map(|(line, fault)| (line.to_owned(), fault));
    }

    /// Paths of the requests.
    pub(super) fn lines(&self) -> Vec<String> {
        self.requests.lock().unwrap().iter().map(|request| request.line.clone()).collect()
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.endpoint.trim_start_matches("http://"));
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Answers one request; the connection is closed after it.
fn answer(mut stream: TcpStream, behaviour: &Behaviour, requests: &Mutex<Vec<Request>>) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let line = lines.next().transpose()?.unwrap_or_default();
    let (mut authorization, mut range) = (None, None);
    for header in lines {
        let header = header?;
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.to_ascii_lowercase().strip_prefix("authorization: ") {
            authorization = Some(value.to_owned());
        }
        if let Some(value) = header.to_ascii_lowercase().strip_prefix("range: bytes=") {
            range =
                value.split_once('-').and_then(|(start, end)| Some((start.parse().ok()?, end.parse::<usize>().ok()?)));
        }
    }
    requests.lock().unwrap().push(Request { line: line.clone(), authorization });
    let (method, path) = line.split_once(' ').unwrap_or_default();
    let path = path.split(' ').next().unwrap_or_default();
    let (mut status, mut body) = response(method, path, behaviour);
    if let (Some((start, last)), "200 OK", "GET") = (range, status, method) {
        status = "206 Partial Content";
        body = body[start..body.len().min(last + 1)].to_vec();
    }
    if let Some((begin, fault)) = &behaviour.fault
        && line.starts_with(begin)
    {
        return answer_badly(stream, fault, &body);
    }
    let length = body.len();
    let announced = match requested(path, behaviour) {
        Some((_, Some(bytes))) if method == "HEAD" => bytes.len(),
        _ => length,
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {announced}\r\nETag: \"{:x}\"\r\nX-Repo-Commit: {COMMIT}\r\n\
         Connection: close\r\n\r\n",
        path.bytes().fold(length as u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()))
    )?;
    if method != "HEAD" {
        stream.write_all(&body)?;
    }
    stream.flush()
}

/// Answers with a fault. A hanging answer ends when the client disconnects.
fn answer_badly(mut stream: TcpStream, fault: &Fault, body: &[u8]) -> std::io::Result<()> {
    let head = |length: Option<usize>| {
        let length = length.map_or_else(String::new, |length| format!("Content-Length: {length}\r\n"));
        let headers = format!("ETag: \"0\"\r\nX-Repo-Commit: {COMMIT}\r\nConnection: close\r\n\r\n");
        format!("HTTP/1.1 200 OK\r\n{length}{headers}").into_bytes()
    };
    match fault {
        Fault::Hang => {}
        Fault::HangHalfway | Fault::CloseHalfway => {
            stream.write_all(&[&head(Some(body.len()))[..], &body[..body.len() / 2]].concat())?;
        }
        Fault::Body(body) => stream.write_all(&[&head(Some(body.len()))[..], body].concat())?,
        Fault::UnannouncedBody(body) => stream.write_all(&[&head(None)[..], body].concat())?,
        Fault::Endless => {
            stream.write_all(&head(None))?;
            while stream.write_all(&[b' '; 4096]).is_ok() {}
        }
    }
    stream.flush()?;
    if matches!(fault, Fault::Hang | Fault::HangHalfway) {
        stream.read_to_end(&mut vec![])?;
    }
    Ok(())
}

fn response(method: &str, path: &str, behaviour: &Behaviour) -> (&'static str, Vec<u8>) {
    if let Some(status) = behaviour.refuses {
        return (status, b"{\"error\": \"no\"}".to_vec());
    }
    let listed = match path {
        "/api/models/owner/tiny" | "/api/models/owner/tiny/revision/v1" => Some(&behaviour.files),
        "/api/models/owner/base" => Some(&behaviour.base),
        _ => None,
    };
    if let Some(files) = listed {
        let siblings: Vec<_> = files.keys().map(|file| json!({"rfilename": file})).collect();
        let commit = behaviour.commit.unwrap_or(COMMIT);
        let card = json!({"license": "apache-2.0"});
        let info = json!({"id": "owner/tiny", "sha": commit, "siblings": siblings, "cardData": card});
        return ("200 OK", info.to_string().into_bytes());
    }
    match requested(path, behaviour).and_then(|(file, bytes)| Some((file, bytes?))) {
        Some((file, _)) if method == "GET" && behaviour.breaks == Some(file) => {
            ("403 Forbidden", b"<Error>expired</Error>".to_vec())
        }
        Some((_, bytes)) => ("200 OK", bytes.clone()),
        None => ("404 Not Found", vec![]),
    }
}

/// The name of the file that a path requests, and its content.
fn requested<'a>(path: &'a str, behaviour: &'a Behaviour) -> Option<(&'a str, Option<&'a Vec<u8>>)> {
    let in_repository = |name: &str, files: &'a BTreeMap<String, Vec<u8>>| {
        let file = path.strip_prefix(&format!("/owner/{name}/resolve/{COMMIT}/"))?;
        Some((file, files.get(file)))
    };
    in_repository("tiny", &behaviour.files).or_else(|| in_repository("base", &behaviour.base))
}

/// The files of a reference checkpoint, and other usual files of a repository.
pub(super) fn repository(name: &str) -> Behaviour {
    fn add(files: &mut BTreeMap<String, Vec<u8>>, dir: &Path, prefix: &str) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = format!("{prefix}{}", path.file_name().unwrap().display());
            if path.is_dir() {
                add(files, &path, &format!("{name}/"));
            } else {
                files.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    let mut files = BTreeMap::new();
    add(&mut files, &fixture(name), "");
    for other in ["README.md", "pytorch_model.bin", "onnx/model.onnx", "1_Pooling/notes.txt"] {
        files.insert(other.to_owned(), b"not needed".to_vec());
    }
    Behaviour { files, ..Behaviour::default() }
}

pub(super) fn model(endpoint: &str, cache: &Path) -> HubModel {
    HubModel {
        id: "owner/tiny".to_owned(),
        revision: None,
        token: Some(TOKEN.to_owned()),
        cache_dir: Some(cache.to_owned()),
        endpoint: Some(endpoint.to_owned()),
        offline: false,
        timeout: Duration::from_secs(60),
        user_agent: "prefold-test".to_owned(),
        show_progress: false,
    }
}

pub(super) fn open(model: HubModel) -> Result<Checkpoint, String> {
    Checkpoint::open(&options(ModelSource::Hub(model))).map_err(|error| error.to_string())
}

#[test]
fn a_model_is_downloaded_once_and_then_served_without_the_hub() {
    let (hub, cache) = (Hub::start(repository("qwen3-tiny")), TempDir::new().unwrap());
    let expected = super::open(fixture("qwen3-tiny")).unwrap();
    for revision in [None, Some("v1".to_owned())] {
        let checkpoint = open(HubModel { revision, ..model(&hub.endpoint, cache.path()) }).unwrap();
        assert_eq!(checkpoint.config, expected.config);
        assert_eq!(checkpoint.capabilities, expected.capabilities);
    }
    let lines = hub.lines();
    for file in ["README.md", "pytorch_model.bin", "onnx", "notes.txt", "expected.json"] {
        assert!(!lines.iter().any(|line| line.contains(file)), "{file} is not needed: {lines:?}");
    }
    for file in ["config.json", "1_Pooling/config.json", "model.safetensors"] {
        let get = format!("GET /owner/tiny/resolve/{COMMIT}/{file} ");
        assert_eq!(lines.iter().filter(|line| line.starts_with(&get)).count(), 1, "{file}: {lines:?}");
    }
    let token = Some(format!("bearer {TOKEN}"));
    assert!(hub.requests.lock().unwrap().iter().all(|request| request.authorization == token));

    let endpoint = hub.endpoint.clone();
    drop(hub);
    for revision in [None, Some("v1".to_owned()), Some(COMMIT.to_owned())] {
        let checkpoint = open(HubModel { revision, ..model(&endpoint, cache.path()) }).unwrap();
        assert_eq!(checkpoint.capabilities, expected.capabilities);
    }
    let message = open(HubModel { revision: Some("v2".to_owned()), ..model(&endpoint, cache.path()) }).unwrap_err();
    assert!(message.contains("v2") && message.contains("cannot be reached"), "{message}");
    assert!(!message.contains(TOKEN), "{message}");
}

#[test]
fn offline_the_hub_is_not_asked() {
    let (hub, cache) = (Hub::start(repository("qwen3-tiny")), TempDir::new().unwrap());
    let offline = || open(HubModel { offline: true, ..model(&hub.endpoint, cache.path()) });
    let message = offline().unwrap_err();
    assert!(message.contains("`owner/tiny`") && message.contains("--offline"), "{message}");
    assert_eq!(hub.lines(), [""; 0]);
    let expected = open(model(&hub.endpoint, cache.path())).unwrap();
    let asked = hub.lines().len();
    assert_eq!(offline().unwrap().config, expected.config);
    assert_eq!(hub.lines().len(), asked);
}

#[test]
fn a_summary_needs_no_weights_from_the_hub_and_is_not_taken_for_the_model() {
    let (hub, cache) = (Hub::start(repository("qwen3-tiny")), TempDir::new().unwrap());
    let read = |hub: &Hub| crate::model_summary(&ModelSource::Hub(model(&hub.endpoint, cache.path())), None);
    assert_eq!(read(&hub).unwrap().shape.hidden_size, super::open(fixture("qwen3-tiny")).unwrap().config.hidden_size);
    assert!(!hub.lines().iter().any(|line| line.contains("safetensors")), "{:?}", hub.lines());
    hub.behaviour.lock().unwrap().files.remove("tokenizer.json");
    assert!(read(&hub).unwrap_err().to_string().contains("cannot get tokenizer.json"));
    let endpoint = hub.endpoint.clone();
    drop(hub);
    assert!(open(model(&endpoint, cache.path())).unwrap_err().contains("cannot be reached"));
}

#[test]
fn weights_under_a_name_that_only_the_config_has_are_named() {
    let mut other = repository("bert-mean-tiny");
    let weights = other.files.remove("model.safetensors").unwrap();
    other.files.remove("pytorch_model.bin");
    other.files.insert("tide.safetensors".to_owned(), weights);
    let mut config: serde_json::Value = serde_json::from_slice(&other.files["config.json"]).unwrap();
    config["transformers_weights"] = json!("tide.safetensors");
    other.files.insert("config.json".to_owned(), config.to_string().into_bytes());
    let (hub, cache) = (Hub::start(other), TempDir::new().unwrap());
    let words = "nor pytorch_model.bin; `transformers_weights` of config.json names \"tide.safetensors\", which is not read: \
                 download the repository, rename the file to model.safetensors and give the folder's path";
    let refused = open(model(&hub.endpoint, cache.path())).unwrap_err();
    assert!(refused.contains(words), "{refused}");
    let checked = crate::check_model(&options(ModelSource::Hub(model(&hub.endpoint, cache.path())))).verdict;
    assert!(matches!(&checked, crate::Verdict::DoesNotRun(problem) if problem.contains(words)), "{checked:?}");
}

#[test]
fn a_download_can_be_started_from_async_code() {
    let (hub, cache) = (Hub::start(repository("llama-tiny")), TempDir::new().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let checkpoint = runtime.block_on(async { open(model(&hub.endpoint, cache.path())) });
    assert_eq!(checkpoint.unwrap().config.model_type, "llama");
}

#[test]
fn refusals_name_model_file_and_cause() {
    let refused = |refuses, token: Option<&str>| {
        let (hub, cache) = (Hub::start(Behaviour { refuses, ..repository("qwen3-tiny") }), TempDir::new().unwrap());
        let token = token.map(str::to_owned);
        let message = open(HubModel { token, ..model(&hub.endpoint, cache.path()) }).unwrap_err();
        assert!(message.contains("`owner/tiny`") && message.contains(&hub.endpoint), "{message}");
        assert!(message.contains("revision main") && !message.contains(TOKEN), "{message}");
        message
    };
    assert!(refused(Some("401 Unauthorized"), None).contains("give a token (HF_TOKEN)"));
    assert!(refused(Some("403 Forbidden"), Some(TOKEN)).contains("the token's account has no access"));
    assert!(refused(Some("404 Not Found"), Some(TOKEN)).contains("no such repository"));
}

#[test]
fn repositories_without_a_needed_file_are_refused() {
    for (removed, words) in [
        ("config.json", "cannot get config.json"),
        ("tokenizer.json", "cannot get tokenizer.json"),
        ("model.safetensors", "no such file, nor pytorch_model.bin"),
    ] {
        let mut behaviour = repository("qwen3-tiny");
        [removed, "pytorch_model.bin"].iter().for_each(|&name| drop(behaviour.files.remove(name)));
        let (hub, cache) = (Hub::start(behaviour), TempDir::new().unwrap());
        let message = open(model(&hub.endpoint, cache.path())).unwrap_err();
        assert!(message.contains(words) && message.contains("no such file"), "{message}");
        // Only the list of modules is downloaded needlessly, since it may name a static embedding that needs no config.
        let is_vain = |line: &String| line.contains("resolve") && !line.contains("modules.json");
        assert!(!hub.lines().iter().any(is_vain), "{:?}", hub.lines());
    }
}

#[test]
fn a_vocabulary_is_downloaded_where_there_is_no_tokenizer_json() {
    let mut behaviour = repository("bert-mean-tiny");
    behaviour.files.remove("tokenizer.json");
    behaviour.files.insert("spiece.model".to_owned(), vec![]);
    let (hub, cache) = (Hub::start(behaviour), TempDir::new().unwrap());
    let message = open(model(&hub.endpoint, cache.path())).unwrap_err();
    assert!(message.contains("none is made from spiece.model"), "{message}");
    let vocabulary = vocab_txt(&fixture("bert-mean-tiny")).into_bytes();
    hub.behaviour.lock().unwrap().files.insert("vocab.txt".to_owned(), vocabulary);
    let tokenizer = open(model(&hub.endpoint, cache.path())).unwrap().tokenizer;
    assert_eq!(tokenizer.token_to_id("[CLS]"), Some(6));
}

#[test]
fn an_error_page_is_not_taken_for_the_file() {
    let mut behaviour = repository("qwen3-tiny");
    behaviour.breaks = Some("model.safetensors");
    let (hub, cache) = (Hub::start(behaviour), TempDir::new().unwrap());
    let message = open(model(&hub.endpoint, cache.path())).unwrap_err();
    assert!(message.contains("model.safetensors") && message.contains("access denied"), "{message}");
    // The page does not stay in the cache.
    hub.behaviour.lock().unwrap().breaks = None;
    assert!(open(model(&hub.endpoint, cache.path())).is_ok());
}

#[test]
fn shards_and_lone_gguf_files_are_downloaded() {
    let mut behaviour = repository("llama-tiny");
    let weights = behaviour.files.remove("model.safetensors").unwrap();
    let shard = "model-00001-of-00001.safetensors";
    let names = super::read_tensors(&fixture("llama-tiny").join("model.safetensors")).into_keys();
    let weight_map: BTreeMap<String, &str> = names.map(|name| (name, shard)).collect();
    let index = json!({"weight_map": weight_map}).to_string().into_bytes();
    behaviour.files.insert(shard.to_owned(), weights.clone());
    behaviour.files.insert("model.safetensors.index.json".to_owned(), index);
    let (hub, cache) = (Hub::start(behaviour), TempDir::new().unwrap());
    assert_eq!(
        open(model(&hub.endpoint, cache.path())).unwrap().weights.stored_dtype(&names::DECODER.first_projection()),
        "float32"
    );

    let not_gguf = Behaviour { files: [("a.gguf".to_owned(), weights)].into(), ..Behaviour::default() };
    *hub.behaviour.lock().unwrap() = not_gguf.clone();
    let cache = TempDir::new().unwrap();
    let message = open(model(&hub.endpoint, cache.path())).unwrap_err();
    assert!(message.contains("a.gguf: not a readable GGUF file"), "{message}");
    let files: BTreeMap<_, _> = ["a.gguf", "b.gguf"].map(|name| (name.to_owned(), vec![])).into();
    *hub.behaviour.lock().unwrap() = Behaviour { files, ..not_gguf };
    let message = open(model(&hub.endpoint, cache.path())).unwrap_err();
    assert!(message.contains("a.gguf, b.gguf"), "{message}");
}

#[test]
fn revisions_cannot_leave_the_cache() {
    let model = HubModel { revision: Some("../../x".to_owned()), ..model("http://127.0.0.1:1", Path::new("/tmp")) };
    assert!(open(model).unwrap_err().contains("leaves"));
}

#[test]
fn a_model_is_checked_by_the_headers_of_its_tensors() {
    let check = |hub: &Hub, cache: &Path| crate::check_model(&options(ModelSource::Hub(model(&hub.endpoint, cache))));
    let (hub, cache) = (Hub::start(repository("modernbert-tiny")), TempDir::new().unwrap());
    let found = check(&hub, cache.path());
    assert_eq!((&found.verdict, found.licence.name()), (&crate::Verdict::Runs, Some("apache-2.0")));
    let local = crate::check_model(&options(ModelSource::Path(fixture("modernbert-tiny")))).model.unwrap();
    let model = found.model.unwrap();
    assert_eq!((model.parameters, &model.memory), (local.parameters, &local.memory));
    assert_eq!(model.stored_dtype.as_deref(), Some("float32"));
    // The bytes of the weights stay where they are.
    let snapshot = cache.path().join("models--owner--tiny/snapshots").join(COMMIT);
    assert!(snapshot.join("config.json").exists() && !snapshot.join("model.safetensors").exists());

    // A tensor that is not there: another name of the same length.
    let mut behaviour = repository("modernbert-tiny");
    let file = behaviour.files.get_mut("model.safetensors").unwrap();
    let at = file.windows(17).position(|name| name == b"final_norm.weight").unwrap();
    file[at..at + 17].copy_from_slice(b"final_nxrm.weight");
    let (hub, cache) = (Hub::start(behaviour), TempDir::new().unwrap());
    let found = check(&hub, cache.path()).verdict;
    let words = "`model.final_norm.weight` is missing";
    assert!(matches!(&found, crate::Verdict::DoesNotRun(problem) if problem.contains(words)), "{found:?}");
    // Files whose headers cannot be read alone are said to be unknown.
    let mut behaviour = repository("modernbert-tiny");
    behaviour.files.remove("model.safetensors");
    let (hub, cache) = (Hub::start(behaviour), TempDir::new().unwrap());
    let found = check(&hub, cache.path());
    assert!(matches!(&found.verdict, crate::Verdict::RunsBut(notes) if notes[0].contains("safetensors")), "{found:?}");
    assert_eq!(found.model.unwrap().parameters, None);
}

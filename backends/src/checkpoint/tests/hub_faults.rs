//! A hub that hangs, disconnects or sends wrong data, and a cache that is damaged or in use. Errors name the fault, and no
//! bad file stays in the cache.

use super::hub::{COMMIT, Fault, Hub, model, open, repository};
use super::{fixture, options};
use crate::check::Verdict;
use crate::options::{HubModel, ModelSource};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

const WEIGHTS: &str = "model.safetensors";
const LISTING: &str = "GET /api/models/owner/tiny";

fn get(file: &str) -> String {
    format!("GET /owner/tiny/resolve/{COMMIT}/{file}")
}

fn head(file: &str) -> String {
    format!("HEAD /owner/tiny/resolve/{COMMIT}/{file}")
}

fn hub() -> (Hub, TempDir) {
    (Hub::start(repository("qwen3-tiny")), TempDir::new().unwrap())
}

/// Long enough for a small file on a busy machine.
fn impatient(hub: &Hub, cache: &TempDir) -> HubModel {
    HubModel { timeout: Duration::from_secs(2), ..model(&hub.endpoint, cache.path()) }
}

fn snapshot(cache: &Path) -> PathBuf {
    cache.join("models--owner--tiny/snapshots").join(COMMIT)
}

#[test]
fn silence_has_an_end_that_names_file_and_flag() {
    for (line, fault, file) in [
        (LISTING.to_owned(), Fault::Hang, "the list of files"),
        (head("config.json"), Fault::Hang, "config.json"),
        (get("tokenizer.json"), Fault::Hang, "tokenizer.json"),
        (get("tokenizer.json"), Fault::HangHalfway, "tokenizer.json"),
        (get(WEIGHTS), Fault::HangHalfway, WEIGHTS),
    ] {
        let (hub, cache) = hub();
        hub.set_fault(Some((&line, fault.clone())));
        let message = open(impatient(&hub, &cache)).unwrap_err();
        let words = [&format!("cannot get {file} of `owner/tiny`"), "no data was received for", "--download-timeout"];
        assert!(words.iter().all(|word| message.contains(*word)), "{line} {fault:?}: {message}");
        assert!(!snapshot(cache.path()).join(file).exists(), "{line} {fault:?}: half a file");
        hub.set_fault(None);
        assert!(open(impatient(&hub, &cache)).is_ok(), "{line} {fault:?}: again");
    }
}

#[test]
fn when_the_hub_is_silent_the_cache_will_do() {
    let (hub, cache) = hub();
    let expected = open(model(&hub.endpoint, cache.path())).unwrap();
    hub.set_fault(Some((LISTING, Fault::Hang)));
    assert_eq!(open(impatient(&hub, &cache)).unwrap().config, expected.config);
}

#[test]
fn what_came_and_is_not_the_file_is_not_kept() {
    let page = |length: usize| format!("<html>{}</html>", " ".repeat(length.saturating_sub(13))).into_bytes();
    for file in ["config.json", "tokenizer.json", "1_Pooling/config.json", WEIGHTS] {
        let length = fs::metadata(fixture("qwen3-tiny").join(file)).unwrap().len() as usize;
        let announced = format!("but {length} were announced");
        let other = "the downloaded file is not valid";
        for (fault, words) in [
            (Fault::CloseHalfway, vec!["body"]),
            (Fault::Body(page(length)), vec![other, "<html>"]),
            (Fault::Body(page(length / 2)), vec![&announced, "<html>"]),
            (Fault::Body(page(2 * length)), vec!["than"]),
            (Fault::UnannouncedBody(page(length - 1)), vec![&announced, "<html>"]),
            (Fault::Body(vec![]), vec![&announced]),
            (Fault::Endless, vec!["exceeds the limit"]),
        ] {
            let (hub, cache) = hub();
            hub.set_fault(Some((&get(file), fault.clone())));
            let message = open(model(&hub.endpoint, cache.path())).unwrap_err();
            // Longer than announced, which is detected during or after the download.
            let words = if words == ["than"] { vec![] } else { words };
            assert!(message.contains(&format!("cannot get {file} of `owner/tiny`")), "{file}: {message}");
            let shown = format!("{fault:.60?}");
            assert!(words.iter().all(|word| message.contains(word)), "{file} {shown}: {message}");
            assert!(!snapshot(cache.path()).join(file).exists(), "{file} {shown}: it was kept");
            hub.set_fault(None);
            assert!(open(model(&hub.endpoint, cache.path())).is_ok(), "{file} {shown}: again");
        }
    }
}

#[test]
fn a_file_whose_size_the_hub_does_not_say_is_still_looked_at() {
    let (hub, cache) = hub();
    // The answer to HEAD has no length, that to GET is a page.
    let page = b"<html></html>".to_vec();
    hub.set_fault(Some((&head(WEIGHTS), Fault::UnannouncedBody(vec![]))));
    assert!(open(model(&hub.endpoint, cache.path())).is_ok(), "a size is not needed");
    let cache = TempDir::new().unwrap();
    hub.behaviour.lock().unwrap().files.insert(WEIGHTS.to_owned(), page);
    let message = open(model(&hub.endpoint, cache.path())).unwrap_err();
    assert!(message.contains("the downloaded file is not valid") && message.contains("<html>"), "{message}");
}

#[test]
fn what_the_cache_has_of_a_broken_file_is_downloaded_anew() {
    let (hub, cache) = hub();
    let expected = open(model(&hub.endpoint, cache.path())).unwrap();
    for file in ["config.json", "tokenizer.json", WEIGHTS] {
        let path = snapshot(cache.path()).join(file);
        let whole = fs::read(&path).unwrap();
        for broken in [&whole[..whole.len() / 2], &[]] {
            fs::write(&path, broken).unwrap();
            assert_eq!(open(model(&hub.endpoint, cache.path())).unwrap().config, expected.config, "{file}");
            assert_eq!(fs::read(&path).unwrap(), whole, "{file}");
        }
    }
}

#[test]
fn what_a_link_in_the_cache_leads_to_elsewhere_is_not_removed() {
    let (hub, cache) = hub();
    open(model(&hub.endpoint, cache.path())).unwrap();
    let elsewhere = TempDir::new().unwrap();
    let (path, mine) = (snapshot(cache.path()).join(WEIGHTS), elsewhere.path().join("mine"));
    fs::write(&mine, "not weights").unwrap();
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&mine, &path).unwrap();
    assert!(open(model(&hub.endpoint, cache.path())).is_ok(), "it is downloaded anew");
    assert_eq!(fs::read(&mine).unwrap(), b"not weights");
}

#[test]
fn commits_that_are_paths_are_refused() {
    for commit in ["../../../../tmp/x", "", "main", "0123456789abcdef0123456789abcdef0123456g"] {
        let (hub, cache) = hub();
        hub.behaviour.lock().unwrap().commit = Some(commit);
        let message = open(model(&hub.endpoint, cache.path())).unwrap_err();
        assert!(message.contains("the list of files") && message.contains(&format!("{commit:?}")), "{message}");
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 0, "{commit}");
    }
}

#[test]
fn a_cache_that_cannot_be_written_to_is_named() {
    let (hub, cache) = hub();
    let file = cache.path().join("file");
    fs::write(&file, "").unwrap();
    let message = open(HubModel { cache_dir: Some(file.clone()), ..impatient(&hub, &cache) }).unwrap_err();
    assert!(message.contains("cannot get") && message.contains("--huggingface-hub-cache"), "{message}");
    assert!(message.contains(&file.display().to_string()), "{message}");
}

#[test]
fn the_commit_of_a_branch_is_noted_in_one_step() {
    let (hub, cache) = hub();
    let refs = cache.path().join("models--owner--tiny/refs");
    open(model(&hub.endpoint, cache.path())).unwrap();
    let names: Vec<_> = fs::read_dir(&refs).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["main"], "and nothing else");
    // If the commit cannot be stored, the old one stays and the model is served.
    fs::remove_file(refs.join("main")).unwrap();
    fs::create_dir(refs.join("main")).unwrap();
    assert!(open(model(&hub.endpoint, cache.path())).is_ok());
    assert_eq!(fs::read_dir(&refs).unwrap().count(), 1);
}

/// The lock of a file, as another process would take it.
fn lock(hub: &Hub, cache: &Path, file: &str) -> File {
    let elsewhere = TempDir::new().unwrap();
    open(model(&hub.endpoint, elsewhere.path())).unwrap();
    let blob = fs::read_link(snapshot(elsewhere.path()).join(file)).unwrap();
    let locks = cache.join(".locks/models--owner--tiny");
    fs::create_dir_all(&locks).unwrap();
    let lock = File::create(locks.join(format!("{}.lock", blob.file_name().unwrap().display()))).unwrap();
    lock.lock().unwrap();
    lock
}

#[test]
fn a_file_that_another_process_downloads_is_waited_for_while_that_gets_on() {
    let (hub, cache) = hub();
    // Kept locked: the wait ends with an error.
    let held = lock(&hub, cache.path(), WEIGHTS);
    let message = open(impatient(&hub, &cache)).unwrap_err();
    assert!(message.contains(&format!("cannot get {WEIGHTS}")) && message.contains("another process"), "{message}");
    assert!(message.contains(".lock") && message.contains("--download-timeout"), "{message}");
    // Released after the client's own timeout of 10 s.
    std::thread::scope(|scope| {
        let opened = scope.spawn(|| open(model(&hub.endpoint, cache.path())));
        std::thread::sleep(Duration::from_secs(12));
        assert!(!opened.is_finished(), "the lock is not looked at");
        drop(held);
        assert!(opened.join().unwrap().is_ok());
    });
}

/// A check says nothing of a model that it could not look at, and refuses one whose repository lacks a file.
#[test]
fn what_could_not_be_looked_at_is_unknown() {
    let verdict = |model: HubModel| crate::check_model(&options(ModelSource::Hub(model))).verdict;
    let unknown = |model: HubModel, words: &str| match verdict(model) {
        Verdict::Unknown(problem) => assert!(problem.contains(words), "{problem}"),
        other => panic!("{words}: {other:?}"),
    };
    let cache = TempDir::new().unwrap();
    unknown(model("http://127.0.0.1:1", cache.path()), "the hub cannot be reached");
    unknown(HubModel { offline: true, ..model("http://127.0.0.1:1", cache.path()) }, "the hub is not asked");
    unknown(model("no address", cache.path()), "is not a URL");
    unknown(model("ftp://127.0.0.1:1", cache.path()), "is not a URL with http://");
    let hub = Hub::start(repository("bert-mean-tiny"));
    unknown(HubModel { id: "owner/none".to_owned(), ..model(&hub.endpoint, cache.path()) }, "no such repository");
    hub.set_fault(Some((&get("tokenizer.json"), Fault::CloseHalfway)));
    unknown(model(&hub.endpoint, cache.path()), "cannot get tokenizer.json");
    hub.set_fault(Some((&get(WEIGHTS), Fault::Body(b"abc".to_vec()))));
    unknown(model(&hub.endpoint, cache.path()), "8 bytes were requested and 3 were received");
    hub.set_fault(None);
    assert_eq!(verdict(model(&hub.endpoint, cache.path())), Verdict::Runs);
    for (file, words) in [("tokenizer.json", "no such file"), ("model.safetensors", "no such file, nor")] {
        let mut lacking = repository("bert-mean-tiny");
        lacking.files.remove(file);
        lacking.files.remove("pytorch_model.bin");
        let hub = Hub::start(lacking);
        match verdict(model(&hub.endpoint, TempDir::new().unwrap().path())) {
            Verdict::DoesNotRun(problem) => assert!(problem.contains(file) && problem.contains(words), "{problem}"),
            other => panic!("{file}: {other:?}"),
        }
    }
    let mut gguf = repository("bert-mean-tiny");
    gguf.files = [("a.gguf".to_owned(), vec![])].into();
    let gguf = Hub::start(gguf);
    unknown(model(&gguf.endpoint, TempDir::new().unwrap().path()), "give its path");
}

//! Paths that are not regular files, files above the limit or elsewhere, and files rewritten while they are read.

use super::refusals::Change::Set;
use super::refusals::check;
use super::{copy_of, open};
use serde_json::json;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// Replacement of a file.
#[derive(Debug, Clone, Copy)]
enum Strange {
    Directory,
    Pipe,
    Zeros,
    Nothing,
    Loop,
    Dangling,
    Sparse(u64),
}

impl Strange {
    fn make(self, path: &Path) {
        fs::remove_file(path).unwrap();
        match self {
            Self::Directory => fs::create_dir(path).unwrap(),
            Self::Pipe => assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
            Self::Zeros => symlink("/dev/zero", path).unwrap(),
            Self::Nothing => symlink("/dev/null", path).unwrap(),
            Self::Loop => symlink(path, path).unwrap(),
            Self::Dangling => symlink("/no/such/file", path).unwrap(),
            Self::Sparse(length) => File::create(path).unwrap().set_len(length).unwrap(),
        }
    }
}

#[test]
fn what_is_no_file_is_refused_and_not_waited_for() {
    use Strange::{Dangling, Directory, Loop, Nothing, Pipe, Sparse, Zeros};
    for name in ["config.json", "tokenizer.json", "tokenizer_config.json", "modules.json", "model.safetensors"] {
        let dangling = if name.starts_with("model.") || name == "config.json" { "has no" } else { "" };
        for (strange, words) in [
            (Directory, "is a directory"),
            (Pipe, "is a pipe or device"),
            (Zeros, "is a pipe or device"),
            (Nothing, "is a pipe or device"),
            (Loop, "symbolic links"),
            (Dangling, dangling),
            // A sparse file of a hundred gigabytes.
            (
                Sparse(100 << 30),
                if name.ends_with(".json") { "the limit for such a file" } else { "not a whole safetensors file" },
            ),
        ] {
            let dir = copy_of("llama-tiny");
            strange.make(&dir.path().join(name));
            // An optional file counts as missing.
            let Err(error) = open(dir.path()) else {
                assert!(
                    matches!((name, strange), ("tokenizer_config.json" | "modules.json", Dangling)),
                    "{name} {strange:?}"
                );
                continue;
            };
            let message = error.to_string();
            assert!(message.contains(name) && message.contains(words), "{name} {strange:?}: {message}");
        }
    }
}

#[test]
fn a_gguf_file_that_is_none_is_refused_and_not_waited_for() {
    for (strange, words) in [
        (Strange::Pipe, "is a pipe or device"),
        (Strange::Zeros, "is a pipe or device"),
        (Strange::Loop, "symbolic links"),
        (Strange::Sparse(100 << 30), "does not begin with"),
        (Strange::Sparse(0), "does not begin with"),
    ] {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("model.gguf");
        fs::write(&path, "").unwrap();
        strange.make(&path);
        for place in [dir.path(), &path] {
            let message = open(place).unwrap_err().to_string();
            assert!(message.contains("model.gguf") && message.contains(words), "{strange:?}: {message}");
        }
    }
}

#[test]
fn a_megabyte_too_many_is_refused_and_a_large_tokenizer_is_not() {
    for (name, spaces, refused) in [("config.json", 9 << 20, true), ("config.json", 1 << 20, false)]
        .into_iter()
        .chain([("tokenizer.json", 9 << 20, false), ("tokenizer.json", 65 << 20, true)])
    {
        let dir = copy_of("llama-tiny");
        let path = dir.path().join(name);
        let padded = [fs::read(&path).unwrap(), vec![b' '; spaces]].concat();
        fs::write(&path, padded).unwrap();
        match open(dir.path()) {
            Ok(_) => assert!(!refused, "{name} with {spaces} spaces"),
            Err(error) => {
                let message = error.to_string();
                assert!(refused && message.contains(name) && message.contains("limit for such a file"), "{message}");
            }
        }
    }
}

#[test]
fn modules_stay_in_the_models_folder() {
    let path = |to: &str| Set("modules.json", "/1/path", json!(to));
    check(vec![
        (
            "qwen3-tiny",
            path("/etc"),
            &["modules.json: module 1 has the path \"/etc\", which leaves the model's folder"],
        ),
        ("qwen3-tiny", path("1_Pooling/../../x"), &["leaves the model's folder"]),
        ("qwen3-tiny", path("..\\x"), &["leaves the model's folder"]),
        ("qwen3-tiny", path("./1_Pooling/./y"), &["has no 1_Pooling/y/config.json"]),
        ("qwen3-tiny", path("1_Pooling\0"), &["1_Pooling\\0"]),
        ("qwen3-tiny", path(&"x".repeat(5000)), &["a path of 5000 bytes, the limit is 256"]),
        ("qwen3-tiny", Set("modules.json", "/1/path", json!(["1_Pooling"])), &["`path` must be a string"]),
        ("qwen3-tiny", Set("modules.json", "/1", json!("Pooling")), &["modules.json: must be a JSON object"]),
    ]);
}

#[test]
fn links_lead_out_of_the_models_folder_only_where_the_operator_made_them() {
    let elsewhere = copy_of("qwen3-tiny");
    let other = |name: &str| elsewhere.path().join(name);
    let replaced = |name: &str, target: &Path| {
        let dir = copy_of("qwen3-tiny");
        let path = dir.path().join(name);
        if path.is_dir() {
            fs::remove_dir_all(&path).unwrap()
        } else {
            fs::remove_file(&path).unwrap()
        }
        symlink(target, path).unwrap();
        dir
    };
    for name in ["1_Pooling", "1_Pooling/config.json"] {
        let message = open(replaced(name, &other(name)).path()).unwrap_err().to_string();
        assert!(message.contains("1_Pooling/config.json") && message.contains("through a link"), "{name}: {message}");
    }
    open(replaced("config.json", &other("config.json")).path()).unwrap();

    let inside = copy_of("qwen3-tiny");
    fs::rename(inside.path().join("1_Pooling"), inside.path().join("pooling")).unwrap();
    symlink("pooling", inside.path().join("1_Pooling")).unwrap();
    open(inside.path()).unwrap();

    let sharded = replaced("model.safetensors", &other("model.safetensors"));
    fs::rename(sharded.path().join("model.safetensors"), sharded.path().join("shard.safetensors")).unwrap();
    let index = json!({"weight_map": {"model.norm.weight": "shard.safetensors"}});
    fs::write(sharded.path().join("model.safetensors.index.json"), index.to_string()).unwrap();
    let message = open(sharded.path()).unwrap_err().to_string();
    assert!(message.contains("shard.safetensors") && message.contains("through a link"), "{message}");
}

#[test]
fn the_hubs_cache_keeps_files_elsewhere_and_links_to_them() {
    let files = copy_of("qwen3-tiny");
    let cache = tempfile::TempDir::new().unwrap();
    let (snapshot, blobs) = (cache.path().join("snapshots/abc"), cache.path().join("blobs"));
    fs::create_dir_all(snapshot.join("1_Pooling")).unwrap();
    fs::rename(files.path(), &blobs).unwrap();
    for file in fs::read_dir(&blobs).unwrap().map(|entry| entry.unwrap()).filter(|entry| entry.path().is_file()) {
        symlink(Path::new("../../blobs").join(file.file_name()), snapshot.join(file.file_name())).unwrap();
    }
    fs::rename(blobs.join("1_Pooling/config.json"), blobs.join("0123")).unwrap();
    symlink("../../../blobs/0123", snapshot.join("1_Pooling/config.json")).unwrap();
    open(&snapshot).unwrap();
    // The same links in another place are not trusted.
    fs::rename(cache.path().join("snapshots"), cache.path().join("models")).unwrap();
    let message = open(cache.path().join("models/abc")).unwrap_err().to_string();
    assert!(message.contains("through a link"), "{message}");
}

#[test]
fn pointers_of_git_lfs_and_web_pages_are_named_as_such() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 1234\n";
    let pages = ["<!DOCTYPE html><html><body>404</body></html>", "\u{feff}\n <HTML lang=en>"];
    let cases = [(pointer, "is a Git LFS pointer"), (pages[0], "is a web page"), (pages[1], "is a web page")];
    for file in ["model.safetensors", "tokenizer.json", "config.json", "modules.json", "1_Pooling/config.json"] {
        for (content, words) in cases {
            let dir = copy_of("bert-mean-tiny");
            fs::write(dir.path().join(file), content).unwrap();
            let message = open(dir.path()).unwrap_err().to_string();
            assert!(message.contains(&format!("{file}: {words}")), "{file}: {message}");
        }
    }
    for file in ["pytorch_model.bin", "model.safetensors.index.json"] {
        let dir = copy_of("bert-mean-tiny");
        fs::remove_file(dir.path().join("model.safetensors")).unwrap();
        fs::write(dir.path().join(file), pointer).unwrap();
        let message = open(dir.path()).unwrap_err().to_string();
        assert!(message.contains(&format!("{file}: is a Git LFS pointer")), "{message}");
    }
    let gguf = tempfile::TempDir::new().unwrap();
    fs::write(gguf.path().join("model.gguf"), pointer).unwrap();
    let message = open(gguf.path()).unwrap_err().to_string();
    assert!(message.contains("model.gguf: is a Git LFS pointer") && message.contains("git lfs pull"), "{message}");
}

#[test]
fn a_file_that_is_written_to_while_it_is_read_is_refused() {
    const NORM: &str = "model.norm.weight";
    let changes: [fn(&Path); 3] = [
        |path| File::options().write(true).open(path).unwrap().set_len(100).unwrap(),
        |path| drop(File::create(path).unwrap()),
        |path| {
            let file = File::options().write(true).open(path).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        },
    ];
    for change in changes {
        let dir = copy_of("llama-tiny");
        let weights = open(dir.path()).unwrap().weights;
        assert!(weights.read::<f32>(NORM, &[64]).is_ok());
        change(&dir.path().join("model.safetensors"));
        let message = weights.read::<f32>(NORM, &[64]).unwrap_err().to_string();
        assert!(message.starts_with("model.safetensors: changed while it was being read"), "{message}");
    }
    // A new file at the same path does not change the open one.
    let dir = copy_of("llama-tiny");
    let weights = open(dir.path()).unwrap().weights;
    let path = dir.path().join("model.safetensors");
    fs::rename(&path, dir.path().join("old")).unwrap();
    fs::write(&path, "new").unwrap();
    assert!(weights.read::<f32>(NORM, &[64]).is_ok());
}

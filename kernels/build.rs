//! Compiles `cuda/*.cu` for all supported GPUs; does nothing without the feature `cuda`.
//!
//! One fat binary for each file holds the code of every architecture in [`TARGETS`] and the PTX of those in [`PTX`], which the
//! driver compiles for GPUs between and after them. `PREFOLD_CUDA_TARGETS=90`, a list with commas, restricts it to some architectures and
//! no PTX, for a small binary for one machine. Results are cached next to the build directories under the hash of all their
//! inputs, so that check, clippy, test and release builds compile a kernel once.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Compute capabilities: A100; A10 and RTX 30; L4, L40S and RTX 40; H100 and H200; B200; RTX 50 and RTX PRO. Code also runs on later
/// devices of the same generation, such as a B300 (10.3).
const TARGETS: [&str; 6] = ["80", "86", "89", "90", "100", "120"];
const PTX: [&str; 2] = ["100", "120"];

/// Environment variable that restricts the architectures to compile for.
const ONLY_TARGETS: &str = "PREFOLD_CUDA_TARGETS";

/// Files without the extension; what they include is hashed with each of them.
const SOURCES: [&str; 7] = ["activation", "attention", "attention_plain", "experts", "norm", "rope", "rows"];
const HEADERS: [&str; 3] = ["common.cuh", "attention.cuh", "attention_positions.cuh"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=cuda");
    for variable in ["CUDA_HOME", "CUDA_PATH", "NVCC", ONLY_TARGETS] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    if env::var_os("CARGO_FEATURE_CUDA").is_none() {
        return;
    }
    if let Err(problem) = compile_all() {
        println!("cargo:warning={problem}");
        std::process::exit(1);
    }
}

fn compile_all() -> Result<(), String> {
    let out = PathBuf::from(env::var("OUT_DIR").map_err(|error| error.to_string())?);
    let nvcc = Nvcc::find()?;
    // target/<profile>/build/<package>/out -> target
    let cache = out.ancestors().nth(4).unwrap_or(&out).join("cuda-kernels");
    fs::create_dir_all(&cache).map_err(|error| format!("cannot create {}: {error}", cache.display()))?;
    for name in SOURCES {
        let compiled = cache.join(format!("{name}-{:016x}.fatbin", nvcc.hash(name)?));
        if !compiled.exists() {
            nvcc.compile(name, &compiled)?;
        }
        let fatbin = out.join(format!("{name}.fatbin"));
        fs::copy(&compiled, &fatbin).map_err(|error| format!("cannot write {}: {error}", fatbin.display()))?;
    }
    Ok(())
}

struct Nvcc {
    path: PathBuf,
    version: String,
    /// `-gencode` arguments.
    targets: Vec<String>,
}

/// `-gencode` arguments for all of [`TARGETS`] and [`PTX`], or for the targets that [`ONLY_TARGETS`] names.
fn targets() -> Result<Vec<String>, String> {
    let code = |target: &str| format!("-gencode=arch=compute_{target},code=sm_{target}");
    let Ok(only) = env::var(ONLY_TARGETS) else {
        let ptx = PTX.map(|target| format!("-gencode=arch=compute_{target},code=compute_{target}"));
        return Ok(TARGETS.iter().copied().map(code).chain(ptx).collect());
    };
    match only.split(',').find(|target| !TARGETS.contains(target)) {
        Some(unknown) => {
            Err(format!("{ONLY_TARGETS}: there is no target `{unknown}`; there are {}", TARGETS.join(", ")))
        }
        None => Ok(only.split(',').map(code).collect()),
    }
}

impl Nvcc {
    /// The compiler: `NVCC` of the environment, a toolkit's `nvcc`, or `nvcc` on the path.
    fn find() -> Result<Self, String> {
        let toolkit = |variable| env::var_os(variable).map(|home| Path::new(&home).join("bin/nvcc"));
        let candidates = [
            env::var_os("NVCC").map(PathBuf::from),
            toolkit("CUDA_HOME"),
            toolkit("CUDA_PATH"),
            Some(PathBuf::from("/usr/local/cuda/bin/nvcc")),
        ];
        let path = candidates.into_iter().flatten().find(|path| path.exists()).unwrap_or_else(|| PathBuf::from("nvcc"));
        let version = Command::new(&path).arg("--version").output().map_err(|error| {
            format!(
                "the feature `cuda` needs nvcc: {} does not run ({error}). Set CUDA_HOME to a CUDA toolkit, or run \
                 eval \"$(scripts/cuda-toolchain.sh)\"",
                path.display()
            )
        })?;
        Ok(Self { path, version: String::from_utf8_lossy(&version.stdout).into_owned(), targets: targets()? })
    }

    fn arguments(&self) -> Vec<&str> {
        let mut arguments = vec!["-std=c++17", "-O3", "-lineinfo", "-Werror", "all-warnings", "-fatbin"];
        arguments.extend(self.targets.iter().map(String::as_str));
        arguments
    }

    fn hash(&self, name: &str) -> Result<u64, String> {
        let mut hasher = DefaultHasher::new();
        (&self.version, self.arguments()).hash(&mut hasher);
        for file in HEADERS.into_iter().map(str::to_owned).chain([format!("{name}.cu")]) {
            let content =
                fs::read(Path::new("cuda").join(&file)).map_err(|error| format!("cannot read {file}: {error}"))?;
            content.hash(&mut hasher);
        }
        Ok(hasher.finish())
    }

    fn compile(&self, name: &str, to: &Path) -> Result<(), String> {
        // The rename is atomic: the result is complete or absent. Concurrent builds write different files.
        let unfinished = to.with_extension(std::process::id().to_string());
        let mut command = Command::new(&self.path);
        // Flags for a quick build of candle's kernels must not apply here: later builds reuse the cached results.
        command.env_remove("NVCC_APPEND_FLAGS").env_remove("NVCC_PREPEND_FLAGS");
        command.args(self.arguments()).arg("-o").arg(&unfinished).arg(format!("cuda/{name}.cu"));
        let output = command.output().map_err(|error| format!("{}: {error}", self.path.display()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).replace('\n', "\ncargo:warning=");
            return Err(format!("nvcc cannot compile {name}.cu:\ncargo:warning={said}"));
        }
        fs::rename(&unfinished, to).map_err(|error| format!("cannot write {}: {error}", to.display()))
    }
}

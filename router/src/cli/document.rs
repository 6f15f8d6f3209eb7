//! Generates docs/cli.md from the flags.

use super::parsing::{Cli, environment};
use clap::{Arg, CommandFactory};
use std::fmt::Write;
use std::path::Path;

const INTRODUCTION: &str = r#"# Command line

`prefold [FLAGS]` serves. `prefold bench` measures a server: [bench.md](bench.md). `prefold analyze` estimates what compaction
would save: [analyze.md](analyze.md). `prefold accuracy` compares a model's answers in another `--dtype` with float32:
[accuracy.md](accuracy.md). `prefold check-model MODEL` says before the download whether a model runs:
[models.md](models.md#before-the-download).

`prefold MODEL` and `prefold serve MODEL` are the same as `prefold --model-id MODEL`.

Every flag of the server is also an environment variable: its name in upper case with underscores and `PREFOLD_` before it
(`--max-batch-tokens`, `PREFOLD_MAX_BATCH_TOKENS`). Variables of text-embeddings-inference and of Hugging Face's tools are also
read without the prefix; the variable with the prefix has priority. Empty variables count as absent. For flags of a subcommand
the prefix contains its name: `PREFOLD_BENCH_`, `PREFOLD_ANALYZE_`, `PREFOLD_ACCURACY_`, `PREFOLD_CHECK_MODEL_`. A flag of the
server is also a key of the file that `--config` names:

```toml
# prefold.toml
model-id = "Qwen/Qwen3-Embedding-0.6B"
max-batch-tokens = 16384
auto-truncate = false
cors-allow-origin = ["https://a.example", "https://b.example"]
```

A flag overrides its variable, the variable overrides the file, the file overrides the default. With an unknown key or an
invalid value the start fails; an unknown variable that begins with `PREFOLD_` is logged as a warning, since other programs may
set it. So is a variable of a port whose value is an address (`PORT=tcp://10.0.0.1:3000`), as Kubernetes sets for a service; it
is ignored. In the file a switch is `true` or `false`, without quotes, and a name may have underscores, which the command line
refuses. Flags with the same meaning as in text-embeddings-inference have the same names. `prefold --help` lists the same flags
with the prefixed variables. This page is generated from the flags (`UPDATE_DOCS=1 cargo test -p prefold cli::document`).
"#;

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    let command = Cli::command();
    // A heading that no flag has.
    let mut heading = Some("");
    for flag in command.get_arguments().filter(|flag| !flag.is_hide_set()) {
        let Some(long) = flag.get_long().filter(|long| !matches!(*long, "help" | "version")) else { continue };
        if flag.get_help_heading() != heading {
            heading = flag.get_help_heading();
            let title = heading.unwrap_or("General");
            write!(page, "\n## {title}\n\n| flag | variable | default | |\n|---|---|---|---|\n").unwrap();
        }
        let names = flag.get_short().map_or_else(|| format!("`--{long}`"), |short| format!("`-{short}`, `--{long}`"));
        let variables: Vec<String> = environment::names(flag).iter().map(|name| format!("`{name}`")).collect();
        let variables = variables.join(", ");
        writeln!(page, "| {names} | {variables} | {} | {} |", default(flag), help(flag)).unwrap();
    }
    page
}

fn default(flag: &Arg) -> String {
    let values: Vec<_> = flag.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let is_secret_or_empty = flag.is_hide_env_values_set() || values.is_empty();
    if is_secret_or_empty { String::new() } else { values.join(",") }
}

fn help(flag: &Arg) -> String {
    let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
    help.replace('\n', " ").replace('|', "\\|").replace("<API_KEY>", "API_KEY")
}

#[test]
fn the_page_that_is_checked_in_is_that_of_the_flags() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cli.md");
    let written = page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &written).unwrap();
    }
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(checked_in == written, "docs/cli.md is stale: UPDATE_DOCS=1 cargo test -p prefold cli::document");
}

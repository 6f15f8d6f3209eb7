//! Generates the list of settings in docs/models.md.

use super::list::groups;
use super::row::{File, Group, Mark};
use std::fmt::Write;
use std::fs;
use std::path::Path;

const BEGIN: &str = "<!-- settings: UPDATE_DOCS=1 cargo test -p prefold-backends settings::document -->\n";
const END: &str = "<!-- end of settings -->\n";

/// The list as Markdown.
fn document() -> String {
    let mut text = String::new();
    let mut files: Vec<File> = groups().map(|group| group.file).collect();
    files.sort_unstable();
    files.dedup();
    let total: usize = groups().map(|group| group.fields.len()).sum();
    let of = |mark: Mark| groups().filter(|it| it.mark == mark).map(|it| it.fields.len()).sum::<usize>();
    let (followed, refused, named, inert) = (of(Mark::Followed), of(Mark::Refused), of(Mark::Named), of(Mark::Inert));
    let in_some = of(Mark::NamedInSome);
    writeln!(
        text,
        "{total} fields: {followed} are followed, {refused} refused unless they have their default, {named} named, {in_some} named in some models, and \
         {inert} have no effect.\n"
    )
    .unwrap();
    text.push_str("| file | | fields | read in |\n|---|---|---|---|\n");
    for file in files {
        let mut of_file: Vec<&Group> = groups().filter(|group| group.file == file).collect();
        of_file.sort_by_key(|group| group.mark);
        for group in of_file {
            let mark = match group.mark {
                Mark::Followed => "followed",
                Mark::Refused => "refused",
                Mark::Named => "named",
                Mark::NamedInSome => "named in some",
                Mark::Inert => "no effect",
            };
            let field = |(name, default): &(&str, &str)| match (group.mark, *default) {
                (Mark::Refused | Mark::Named, default) if !default.is_empty() => format!("`{name}` (unless {default})"),
                _ => format!("`{name}`"),
            };
            let fields: Vec<String> = group.fields.iter().map(field).collect();
            writeln!(text, "| {} | {mark} | {} | {} |", file.name(), fields.join(", "), group.read_in).unwrap();
        }
    }
    text
}

#[test]
fn the_list_in_the_documentation_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/models.md");
    let checked_in = fs::read_to_string(&path).unwrap();
    let (before, rest) = checked_in.split_once(BEGIN).expect("docs/models.md has the beginning of the list");
    let (_, after) = rest.split_once(END).expect("docs/models.md has the end of the list");
    let written = [before, BEGIN, "\n", &document(), "\n", END, after].concat();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &written).unwrap();
        return;
    }
    assert!(
        checked_in == written,
        "docs/models.md is stale: UPDATE_DOCS=1 cargo test -p prefold-backends settings::document"
    );
}

#[test]
fn a_field_has_one_row() {
    let mut rows: Vec<(File, &str)> =
        groups().flat_map(|group| group.fields.iter().map(|(name, _)| (group.file, *name))).collect();
    let count = rows.len();
    rows.sort_unstable();
    rows.dedup();
    assert_eq!(rows.len(), count);
    for (name, default) in groups().flat_map(|group| group.fields) {
        let is_json = |it: &str| serde_json::from_str::<serde_json::Value>(it).is_ok();
        assert!(default.is_empty() || default.split(" or ").all(is_json), "{name}");
    }
}

//! Memory that the process may still allocate, by the limits on its address space and its control groups. A size that a file states is
//! compared with it before allocation, because the system grants more than there is and kills the process once it uses the memory.

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes below which a size is not checked: reading the limits takes some file accesses.
const SMALL: u64 = 16 << 20;

/// Mount point of the control groups.
const GROUPS: &str = "/sys/fs/cgroup";

/// Checks that this many bytes of memory are left.
///
/// # Errors
/// They are not; the error is the rest of a sentence whose subject needs them.
pub(crate) fn check(bytes: u64) -> Result<(), String> {
    if bytes < SMALL { Ok(()) } else { check_against(left(), bytes) }
}

/// Bytes that the process may still allocate, as many as are never checked at least; `None` without a limit.
pub(crate) fn available() -> Option<u64> {
    left().map(|left| left.max(SMALL))
}

fn check_against(left: Option<u64>, bytes: u64) -> Result<(), String> {
    match left {
        Some(left) if left < bytes => {
            Err(format!("would take {bytes} bytes of memory, this process may have {left} more"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
thread_local! {
    /// Bytes left, set by tests.
    pub(crate) static LEFT: std::cell::Cell<Option<u64>> = const { std::cell::Cell::new(None) };
}

/// Bytes that the tightest limit leaves; `None` without a limit.
fn left() -> Option<u64> {
    #[cfg(test)]
    if let Some(left) = LEFT.get() {
        return Some(left);
    }
    let read = |name: &str| fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
    least(Path::new(GROUPS), &read("cgroup"), (&read("limits"), &read("status")))
}

/// Bytes left by the groups below a folder and by the contents of `cgroup`, `limits` and `status` in `/proc/self`.
fn least(root: &Path, cgroup: &str, (limits, status): (&str, &str)) -> Option<u64> {
    let groups = groups(root, cgroup);
    let of_groups = groups.iter().filter_map(|folder| left_in_group(folder));
    of_groups.chain(left_in_address_space(limits, status)).min()
}

/// Bytes left of the address space, by the contents of `/proc/self/limits` and `/proc/self/status`.
fn left_in_address_space(limits: &str, status: &str) -> Option<u64> {
    let limit = first_number(limits.lines().find_map(|line| line.strip_prefix("Max address space"))?)?;
    let kilobytes = first_number(status.lines().find_map(|line| line.strip_prefix("VmSize:"))?)?;
    Some(limit.saturating_sub(kilobytes << 10))
}

/// Folders of the groups in the content of `/proc/self/cgroup`, and of their parents.
fn groups(root: &Path, text: &str) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let root = match controllers {
            "" => root.to_owned(),
            controllers if controllers.split(',').any(|it| it == "memory") => root.join("memory"),
            _ => continue,
        };
        let path = Path::new(path.trim_start_matches('/'));
        folders.extend(path.ancestors().map(|path| root.join(path)));
    }
    folders
}

/// Bytes between a group's limit and its use, without the pages of files, which are given back on demand.
fn left_in_group(folder: &Path) -> Option<u64> {
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
    let number = |name: &str| first_number(&read(name)?);
    // The file of version 2 first, then of version 1.
    let limit = number("memory.max").or_else(|| number("memory.limit_in_bytes"))?;
    let held = number("memory.current").or_else(|| number("memory.usage_in_bytes"))?;
    let stat = read("memory.stat").unwrap_or_default();
    let of =
        |field: &str| stat.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(' ')).and_then(first_number);
    let files = |kind: &str| of(&format!("total_{kind}")).or_else(|| of(kind)).unwrap_or(0);
    let pages = files("active_file").saturating_add(files("inactive_file"));
    Some(limit.saturating_sub(held.saturating_sub(pages)))
}

/// The number at the beginning of a text; `None` for another word, such as `max` and `unlimited`.
fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn what_is_left_is_the_limit_less_what_is_held() {
        let limits =
            "Limit   Soft Limit Hard Limit Units\nMax address space         4000000              unlimited  bytes\n";
        let status = "Name:\tprefold\nVmPeak:\t 9000 kB\nVmSize:\t 1000 kB\n";
        assert_eq!(left_in_address_space(limits, status), Some(4_000_000 - 1_024_000));
        assert_eq!(left_in_address_space(&limits.replace("4000000", "1000"), status), Some(0));
        assert_eq!(left_in_address_space(&limits.replace("4000000", "unlimited"), status), None);
        assert_eq!(left_in_address_space("", ""), None);
    }

    #[test]
    fn groups_of_both_versions_are_read() {
        let dir = TempDir::new().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("a/memory.max", "max\n");
        write("a/b/memory.max", "1000\n");
        write("a/b/memory.current", "900\n");
        write("a/b/memory.stat", "anon 500\nactive_file 100\ninactive_file 200\nfile 400\n");
        write("memory/c/memory.limit_in_bytes", "5000");
        write("memory/c/memory.usage_in_bytes", "3000");
        write("memory/c/memory.stat", "inactive_file 1\ntotal_inactive_file 500\ntotal_active_file 0\n");
        let left = |text: &str| {
            let groups = groups(dir.path(), text);
            groups.iter().filter_map(|folder| left_in_group(folder)).collect::<Vec<_>>()
        };
        assert_eq!(left("0::/a/b\n"), [400]);
        assert_eq!(left("5:cpu,memory:/c\n3:cpu:/c\n"), [2500]);
        let status = |kilobytes: u64| format!("VmSize:\t{kilobytes} kB\n");
        let tightest =
            |kilobytes| least(dir.path(), "0::/a/b\n", ("Max address space 1024000 1 bytes\n", &status(kilobytes)));
        assert_eq!((tightest(0), tightest(1000)), (Some(400), Some(0)), "the tighter of both");
        // The path is that outside of a container.
        write("memory/memory.limit_in_bytes", "9000");
        write("memory/memory.usage_in_bytes", "0");
        assert_eq!(left("4:memory:/docker/1234\n0::/a\nnonsense"), [9000]);
    }

    #[test]
    fn a_size_above_what_is_left_is_refused() {
        check_against(None, u64::MAX).unwrap();
        check_against(Some(100), 100).unwrap();
        let refused = check_against(Some(100), 101).unwrap_err();
        assert_eq!(refused, "would take 101 bytes of memory, this process may have 100 more");
        LEFT.set(Some(0));
        check(SMALL - 1).unwrap();
        check(SMALL).unwrap_err();
        LEFT.set(Some(SMALL));
        check(SMALL).unwrap();
        LEFT.set(None);
    }
}

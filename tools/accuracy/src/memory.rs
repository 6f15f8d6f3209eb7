//! Resident memory of the process, from `/proc/self/status`.

use std::fs;

/// Resident memory in bytes; `None` where the system does not report it.
pub(crate) fn resident() -> Option<u64> {
    status("VmRSS")
}

/// Peak resident memory of the process in bytes.
pub(crate) fn peak() -> Option<u64> {
    status("VmHWM")
}

/// A field of `/proc/self/status` in bytes.
fn status(field: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    let kibibytes: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    const SIZE: usize = 64 << 20;

    #[test]
    fn what_is_held_is_resident_and_what_was_held_is_in_the_peak() {
        let before = resident().unwrap();
        let held = vec![1_u8; SIZE];
        let during = resident().unwrap();
        drop(std::hint::black_box(held));
        assert!(during >= before + SIZE as u64 / 2, "{before} {during}");
        // The system counts in steps of several pages.
        assert!(peak().unwrap() + SIZE as u64 / 8 >= during);
        assert_eq!(status("VmNothing"), None);
    }
}

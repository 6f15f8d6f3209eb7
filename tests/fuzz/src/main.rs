//! Runs the target named by `PREFOLD_FUZZ_TARGET` under libFuzzer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use prefold_fuzz::Target;
use std::sync::OnceLock;

static TARGET: OnceLock<Target> = OnceLock::new();

fn chosen() -> Target {
    *TARGET.get_or_init(|| {
        let name = std::env::var("PREFOLD_FUZZ_TARGET").unwrap_or_default();
        prefold_fuzz::target(&name).unwrap_or_else(|| {
            let known: Vec<_> = prefold_fuzz::TARGETS.iter().map(|(name, _)| *name).collect();
            eprintln!("PREFOLD_FUZZ_TARGET must be one of {}, not `{name}`", known.join(", "));
            std::process::exit(2)
        })
    })
}

fuzz_target!(
    init: {
        // libFuzzer's own hook ends the process at any panic, even one that is caught on purpose. Without it, a panic
        // that reaches libFuzzer still ends the process.
        drop(std::panic::take_hook());
        chosen();
    },
    |bytes: &[u8]| chosen()(bytes)
);

//! Modules: the output of build.rs for each file of `kernels/cuda`, and the kernels in it.
//!
//! [`REPLACEMENTS`] names a directory whose files replace built-in modules, so that a variant of a kernel, compiled by nvcc on a
//! machine with a GPU, can be tested and timed without building the program.

use super::error::CudaError;
use super::flash::Flash;
use super::names::{Names, RMS_NORM_ADD, SCALE_ROWS, SCATTER_ADD_ROWS, names};
use half::{bf16, f16};
use std::borrow::Cow;
use std::path::Path;

/// Environment variable: directory with `attention.cubin`, `rows.fatbin` and so on, which replace the built-in modules of the same name.
pub(super) const REPLACEMENTS: &str = "PREFOLD_CUDA_MODULES";

/// The code of one file of `kernels/cuda`.
#[derive(Debug)]
pub(super) struct Module {
    /// The file's name, without the extension.
    pub(super) name: &'static str,
    /// Fat binary with code for every supported architecture.
    image: &'static [u8],
    /// Names of its kernels.
    pub(super) kernels: Vec<&'static str>,
}

macro_rules! module {
    ($name:literal, $($kernels:expr),+) => {
        Module {
            name: $name,
            image: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".fatbin")),
            kernels: [$(Vec::from($kernels)),+].concat(),
        }
    };
}

/// All modules.
pub(super) fn modules() -> [Module; 7] {
    let types = [names::<f32>(), names::<bf16>(), names::<f16>()];
    let of_types = |kernels: fn(&Names) -> Vec<&'static str>| types.iter().flat_map(kernels).collect::<Vec<_>>();
    let rows: fn(&Names) -> Vec<&'static str> =
        |names| [&names.embed[..], &names.convert, &[names.bias_rows, names.own_columns]].concat();
    let flash = [Flash::all::<bf16>(), Flash::all::<f16>()].concat();
    [
        module!("activation", of_types(|names| [names.activate_mul, names.activate].concat())),
        module!("attention", flash.iter().map(|kernel| kernel.name).collect::<Vec<_>>()),
        module!("attention_plain", of_types(|names| vec![names.plain_attention])),
        module!("experts", SCATTER_ADD_ROWS, ["route_rows"]),
        module!(
            "norm",
            RMS_NORM_ADD,
            of_types(|names| [names.add_rms_norm, names.layer_norm, names.layer_norm_columns].concat())
        ),
        module!("rope", of_types(|names| names.qk_norm_rope.to_vec())),
        module!("rows", ["gather_rows_16", "gather_rows_4", "gather_rows_2", "pool_rows"], SCALE_ROWS, of_types(rows)),
    ]
}

impl Module {
    /// The code of a module: a file in `directory` with the module's name and the extension `cubin` or `fatbin`, else the built-in
    /// code. The second value is true for a file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn image(&self, directory: Option<&Path>) -> Result<(Cow<'static, [u8]>, bool), CudaError> {
        let files = directory.into_iter().flat_map(|directory| {
            ["cubin", "fatbin"].map(|extension| directory.join(self.name).with_extension(extension))
        });
        for file in files {
            match std::fs::read(&file) {
                Ok(image) => return Ok((image.into(), true)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(CudaError::Replacement { file, error }),
            }
        }
        Ok((self.image.into(), false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The driver finds a kernel only in its own module.
    #[test]
    fn kernels_are_in_the_file_of_their_module() {
        let of_type = ["_f32", "_bf16", "_f16", "_1", "_2", "_4", "_16"];
        for module in modules() {
            let source = std::fs::read_to_string(format!("cuda/{}.cu", module.name)).unwrap();
            for kernel in &module.kernels {
                let stem =
                    of_type.iter().filter_map(|part| Some(&kernel[..kernel.find(part)?])).min_by_key(|stem| stem.len());
                let stem = stem.unwrap_or(kernel);
                let defined = [format!(" {stem}_##"), format!(" {kernel}(")];
                assert!(defined.iter().any(|text| source.contains(text)), "{kernel} is not in {}.cu", module.name);
            }
        }
    }

    #[test]
    fn files_replace_the_modules_of_their_names() {
        let directory = std::env::temp_dir().join(format!("prefold-modules-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("rope.cubin"), b"a variant").unwrap();
        let found: Vec<_> = modules().iter().map(|module| module.image(Some(&directory)).unwrap()).collect();
        std::fs::remove_dir_all(&directory).unwrap();
        for (module, (image, replaced)) in modules().iter().zip(found) {
            assert_eq!(replaced, module.name == "rope");
            assert_eq!(&*image, if replaced { b"a variant" } else { module.image });
        }
    }
}

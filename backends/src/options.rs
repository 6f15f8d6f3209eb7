//! Which model to load and how.

use prefold_core::{Pooling, RerankRecipe};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Everything that [`load`](crate::load) is told.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Where the model's files are.
    pub source: ModelSource,
    /// The device to run on; the first GPU where there is one, or else the CPU, when absent.
    pub device: Option<DeviceChoice>,
    /// The type of the weights in memory; the device's usual one when absent: float32 on a CPU, bfloat16 on a GPU.
    pub dtype: Option<Dtype>,
    /// How token states become one vector; as the checkpoint says when absent.
    pub pooling: Option<Pooling>,
    /// What the model is for; as the checkpoint says when absent.
    pub task: Option<Task>,
    /// How a language model is made a reranker, which is then its task; recognised from the files when absent.
    pub rerank_recipe: Option<RerankRecipe>,
    /// How attention runs over a compacted batch.
    pub attention: AttentionMode,
    /// The folder of the dense layer to use instead of the one in `modules.json`.
    pub dense_path: Option<String>,
}

impl LoadOptions {
    /// A model as its files say, with attention in compact space.
    pub fn new(source: ModelSource) -> Self {
        Self {
            source,
            device: None,
            dtype: None,
            pooling: None,
            task: None,
            rerank_recipe: None,
            attention: AttentionMode::Compact,
            dense_path: None,
        }
    }
}

/// Where a model's files are.
#[derive(Debug, Clone)]
pub enum ModelSource {
    /// A repository on the Hugging Face hub.
    Hub(HubModel),
    /// A directory, or a `.gguf` file.
    Path(PathBuf),
    /// Files compiled into the program.
    Embedded(&'static [EmbeddedFile]),
}

/// A repository on the Hugging Face hub and how to reach it.
#[derive(Clone)]
pub struct HubModel {
    /// `owner/name`.
    pub id: String,
    /// Branch, tag or commit; `main` when absent.
    pub revision: Option<String>,
    /// Sent to the hub; never printed.
    pub token: Option<String>,
    /// Where downloads are kept; the hub client's default when absent.
    pub cache_dir: Option<PathBuf>,
    /// The hub's address; the hub client's default when absent.
    pub endpoint: Option<String>,
    /// Take the model from the cache as it is there, and ask nobody.
    pub offline: bool,
    /// How long nothing may come from the hub before it is given up.
    pub timeout: Duration,
    /// How to introduce ourselves.
    pub user_agent: String,
    /// Draw progress bars on standard error.
    pub show_progress: bool,
}

impl fmt::Debug for HubModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HubModel")
            .field("id", &self.id)
            .field("revision", &self.revision)
            .field("token", &self.token.as_ref().map(|_| "<hidden>"))
            .field("cache_dir", &self.cache_dir)
            .field("endpoint", &self.endpoint)
            .field("offline", &self.offline)
            .field("timeout", &self.timeout)
            .field("user_agent", &self.user_agent)
            .field("show_progress", &self.show_progress)
            .finish()
    }
}

/// One of the files of a model that is compiled into the program.
#[derive(Clone, Copy)]
pub struct EmbeddedFile {
    /// Its path in the model's directory, for example `1_Pooling/config.json`.
    pub name: &'static str,
    /// Its content.
    pub bytes: &'static [u8],
}

impl fmt::Debug for EmbeddedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.name, self.bytes.len())
    }
}

/// Defines an enum of names that a flag can have, with `FromStr` and `Display`.
macro_rules! named {
    ($(#[$doc:meta])* $what:literal $type:ident { $($(#[$variant_doc:meta])* $variant:ident = $name:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $type { $($(#[$variant_doc])* $variant,)+ }

        impl $type {
            /// The name that the flag has.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }

        impl FromStr for $type {
            type Err = String;

            fn from_str(s: &str) -> Result<Self, String> {
                match s {
                    $($name => Ok(Self::$variant),)+
                    other => Err(format!("{} `{other}` is not known ({})", $what, [$($name),+].join(", "))),
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

named! {
    /// The type of the weights in memory.
    "dtype" Dtype {
        /// The exact path.
        Float32 = "float32",
        /// bfloat16 weights, float32 sums.
        Bfloat16 = "bfloat16",
        /// float16 weights, float32 sums; on a GPU only.
        Float16 = "float16",
    }
}

named! {
    /// What a model is for.
    "task" Task {
        /// Text embeddings.
        Embed = "embed",
        /// Scores of query and document.
        Rerank = "rerank",
        /// Labels of a text.
        Classify = "classify",
    }
}

named! {
    /// How attention runs over a compacted batch.
    "attention mode" AttentionMode {
        /// Queries, keys and values are scattered to one row per token, the output is gathered back.
        Ragged = "ragged",
        /// Everything stays in compact rows.
        Compact = "compact",
    }
}

/// Where to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceChoice {
    /// The CPU.
    Cpu,
    /// An NVIDIA GPU, by the number that CUDA gives it.
    Cuda(usize),
}

impl FromStr for DeviceChoice {
    type Err = String;

    /// `cpu`, `cuda` (the first) or `cuda:1`.
    fn from_str(s: &str) -> Result<Self, String> {
        let unknown = || format!("device `{s}` is not known (cpu, cuda, cuda:0, cuda:1, ...)");
        match s {
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            _ => {
                let ordinal = s.strip_prefix("cuda:").ok_or_else(unknown)?;
                ordinal.parse().map(Self::Cuda).map_err(|_| unknown())
            }
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_names() {
        for device in [DeviceChoice::Cpu, DeviceChoice::Cuda(0), DeviceChoice::Cuda(7)] {
            assert_eq!(device.to_string().parse(), Ok(device));
        }
        assert_eq!("cuda".parse(), Ok(DeviceChoice::Cuda(0)));
        for unknown in ["gpu", "cuda:", "cuda:x", "cuda:-1", "cuda0"] {
            assert!(unknown.parse::<DeviceChoice>().is_err_and(|error| error.contains(unknown)));
        }
    }

    #[test]
    fn names_go_both_ways_and_unknown_ones_list_the_known() {
        for task in [Task::Embed, Task::Rerank, Task::Classify] {
            assert_eq!(task.to_string().parse(), Ok(task));
        }
        for dtype in [Dtype::Float32, Dtype::Bfloat16, Dtype::Float16] {
            assert_eq!(dtype.to_string().parse(), Ok(dtype));
        }
        for mode in [AttentionMode::Ragged, AttentionMode::Compact] {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        let unknown = "dtype `int8` is not known (float32, bfloat16, float16)";
        assert_eq!("int8".parse::<Dtype>(), Err(unknown.to_owned()));
    }

    #[test]
    fn debug_output_hides_the_token() {
        let model = HubModel {
            id: "owner/name".to_owned(),
            revision: None,
            token: Some("hf_secret".to_owned()),
            cache_dir: None,
            endpoint: None,
            offline: false,
            timeout: Duration::from_secs(1),
            user_agent: "test".to_owned(),
            show_progress: false,
        };
        let text = format!("{:?}", ModelSource::Hub(model));
        assert!(!text.contains("hf_secret") && text.contains("<hidden>"), "{text}");
    }
}

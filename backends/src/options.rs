//! Options of loading: source, device, types and purpose of a model.

use prefold_core::{Pooling, RerankRecipe, Task, without_credentials};
use prefold_kernels::Dtype;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Options of [`load`](crate::load).
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Location of the model's files.
    pub source: ModelSource,
    /// Access to the hub for the base of a LoRA adapter in a folder; its id and revision are not used. If absent, the base must be a folder.
    pub base: Option<HubModel>,
    /// Device; if absent, the first GPU, or the CPU on a machine without a driver or a GPU.
    pub device: Option<DeviceChoice>,
    /// Type of the weights in linear layers; if absent, bfloat16 on a GPU and for weights stored in 16 bits on a CPU, else
    /// float32.
    pub dtype: Option<Dtype>,
    /// Instruction set of the CPU kernels by name; if absent, the fastest.
    pub cpu_kernels: Option<String>,
    /// Replicas on a CPU, at least one: backends over the same weights, each with its share of the cores.
    pub cpu_replicas: usize,
    /// Weights that stay in bfloat16 in a model in int8: substrings of their names, with `*` for any characters.
    pub int8_skip: Vec<String>,
    /// Pooling of token states; if absent, the checkpoint's.
    pub pooling: Option<Pooling>,
    /// Purpose of the model; if absent, the checkpoint's.
    pub task: Option<Task>,
    /// Prompt and tokens that make a language model a reranker; if absent, they are detected from the files.
    pub rerank_recipe: Option<RerankRecipe>,
    /// Attention over a compacted batch.
    pub attention: AttentionMode,
    /// Prompt put before every text when a request names none; if absent, the checkpoint's.
    pub default_prompt: Option<DefaultPrompt>,
    /// Instruction of a reranker's prompt when a request gives none; if absent, the recipe's.
    pub rerank_instruction: Option<String>,
    /// Folder of a dense layer that replaces the one in `modules.json`.
    pub dense_path: Option<String>,
}

/// Prompt put before every text when a request names none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DefaultPrompt {
    /// A prompt of the model, by name.
    Named(String),
    /// The prompt's text.
    Text(String),
}

impl Default for LoadOptions {
    /// The model in the current directory, with the settings of its files and attention in compact space.
    fn default() -> Self {
        Self {
            source: ModelSource::Path(PathBuf::from(".")),
            base: None,
            device: None,
            dtype: None,
            cpu_kernels: None,
            cpu_replicas: 1,
            int8_skip: Vec::new(),
            pooling: None,
            task: None,
            rerank_recipe: None,
            attention: AttentionMode::Compact,
            default_prompt: None,
            rerank_instruction: None,
            dense_path: None,
        }
    }
}

/// Location of a model's files.
#[derive(Debug, Clone)]
pub enum ModelSource {
    /// A repository on the Hugging Face hub.
    Hub(HubModel),
    /// A directory, or a `.gguf` file.
    Path(PathBuf),
    /// Files compiled into the program.
    Embedded(&'static [EmbeddedFile]),
}

/// A repository on the Hugging Face hub, and access to it.
#[derive(Clone)]
pub struct HubModel {
    /// `owner/name`.
    pub id: String,
    /// Branch, tag or commit; if absent, `main`.
    pub revision: Option<String>,
    /// Token sent to the hub; never printed.
    pub token: Option<String>,
    /// Directory of downloads, in which `~` and `$NAME` are expanded; if absent, the cache of Hugging Face's tools.
    pub cache_dir: Option<PathBuf>,
    /// URL of the hub; if absent, `HF_ENDPOINT` or Hugging Face's own.
    pub endpoint: Option<String>,
    /// Use the cache as it is, without requests to the hub.
    pub offline: bool,
    /// Longest time without progress before a download fails.
    pub timeout: Duration,
    /// User agent of requests.
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
            .field("endpoint", &self.endpoint.as_deref().map(without_credentials))
            .field("offline", &self.offline)
            .field("timeout", &self.timeout)
            .field("user_agent", &self.user_agent)
            .field("show_progress", &self.show_progress)
            .finish()
    }
}

/// A file of a model that is compiled into the program.
#[derive(Clone, Copy)]
pub struct EmbeddedFile {
    /// Path in the model's directory, for example `1_Pooling/config.json`.
    pub name: &'static str,
    /// Content.
    pub bytes: &'static [u8],
}

impl fmt::Debug for EmbeddedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.name, self.bytes.len())
    }
}

/// Defines an enum whose variants have names, with `FromStr` and `Display`.
macro_rules! named {
    ($(#[$doc:meta])* $kind:literal $type:ident { $($(#[$variant_doc:meta])* $variant:ident = $name:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $type { $($(#[$variant_doc])* $variant,)+ }

        impl $type {
            /// The variant's name in flags and answers.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }

        impl FromStr for $type {
            type Err = String;

            fn from_str(s: &str) -> Result<Self, String> {
                match s {
                    $($name => Ok(Self::$variant),)+
                    other => Err(format!("{} `{other}` is not known ({})", $kind, [$($name),+].join(", "))),
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
    /// Attention over a compacted batch.
    "attention mode" AttentionMode {
        /// Queries, keys and values are scattered to one row per token; the output is gathered back.
        Ragged = "ragged",
        /// All rows stay compact.
        Compact = "compact",
    }
}

/// Device of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceChoice {
    /// The CPU.
    Cpu,
    /// An NVIDIA GPU, by its CUDA number.
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
        for task in Task::ALL {
            assert_eq!(task.to_string().parse(), Ok(task));
        }
        for mode in [AttentionMode::Ragged, AttentionMode::Compact] {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        let unknown = "task `rank` is not known (embed, rerank, classify, classify-tokens)";
        assert_eq!("rank".parse::<Task>(), Err(unknown.to_owned()));
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

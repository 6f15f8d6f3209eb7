//! Flags of the model.

use super::values::{DtypeChoice, attention, dtype, positive, seconds, task};
use crate::state::secret::Secret;
use clap::builder::FalseyValueParser;
use prefold_backends::{AttentionMode, DeviceChoice};
use prefold_core::{Pooling, Task};
use std::path::PathBuf;
use std::str::FromStr;

/// Flags of the model.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,

    /// Type of weights and matrix products: float32, bfloat16, int8 (CPU only) or float16 (GPU only). auto is bfloat16
    /// on a GPU, and on a CPU if the weights are stored in 16 bits; otherwise float32
    #[arg(long, env, default_value = "auto", value_parser = dtype)]
    pub(crate) dtype: DtypeChoice,

    /// Model name that clients see, followed by aliases that requests may use, separated by commas. Default: the model
    /// id
    #[arg(long, env, value_delimiter = ',')]
    pub(crate) served_model_name: Vec<String>,

    #[command(flatten)]
    pub(crate) load: LoadArgs,
}

/// Flags of loading the model, except its dtype.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct LoadArgs {
    /// Device to run on: cpu, cuda (the first GPU) or cuda:N. Default: the first GPU, or the CPU without a GPU, a
    /// driver or GPU support in this binary
    #[arg(long, env, value_parser = DeviceChoice::from_str)]
    pub(crate) device: Option<DeviceChoice>,

    /// Instruction set of the CPU kernels, for example avx2, avx512-vnni, avx512-bf16 or amx; auto is the fastest on
    /// this CPU. Instruction sets may round differently
    #[arg(long, env, default_value = "auto")]
    pub(crate) cpu_kernels: String,

    /// Replicas of the model on a CPU: teams of threads that share the weights and the queue; each runs its own batches
    /// on its own cores. Use more than one on machines with many cores; answers do not depend on it
    #[arg(long, env, default_value_t = 1, value_parser = positive)]
    pub(crate) cpu_replicas: usize,

    /// Weights that stay in bfloat16 with --dtype int8: substrings of their names, separated by commas, with * for any
    /// characters, for example down_proj or layers.0.*
    #[arg(long, env, value_delimiter = ',')]
    pub(crate) int8_skip: Vec<String>,

    /// Space of attention on a compacted batch: compact (over distinct prefixes) or ragged (over whole sequences)
    #[arg(long, env, default_value = "compact", value_parser = attention)]
    pub(crate) attention: AttentionMode,

    #[command(flatten)]
    pub(crate) files: FilesArgs,
}

/// Flags that override the model's files; they do not depend on the machine.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct FilesArgs {
    /// Pooling of token states into one vector: last-token, mean, cls, max, mean-sqrt-len or weighted-mean. Default:
    /// from the model's files
    #[arg(long, env, value_parser = Pooling::from_str)]
    pub(crate) pooling: Option<Pooling>,

    /// Task of the model: embed, rerank, classify or classify-tokens. Default: detected from the model's files
    #[arg(long, env, value_parser = task)]
    pub(crate) task: Option<Task>,

    /// Recipe for reranking with a language model: qwen3-reranker, mxbai-rerank-v2, or a JSON file with prompt and
    /// tokens. Implies --task rerank. Default: detected from the model's files
    #[arg(long, env)]
    pub(crate) rerank_recipe: Option<String>,

    /// Definition of relevance for an instruction-following reranker, for requests without `instruction`. Default: the
    /// recipe's
    #[arg(long, env)]
    pub(crate) rerank_instruction: Option<String>,

    /// Directory of the dense layers inside the model, instead of the ones in modules.json
    #[arg(long, env)]
    pub(crate) dense_path: Option<String>,

    /// Name of the model's prompt to put before texts whose request selects none
    #[arg(long, env, conflicts_with = "default_prompt")]
    pub(crate) default_prompt_name: Option<String>,

    /// Prompt to put before texts whose request selects none
    #[arg(long, env)]
    pub(crate) default_prompt: Option<String>,
}

/// The model of a subcommand, as an argument or by flags.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct NamedSourceArgs {
    /// Model to read; the same as --model-id
    #[arg(value_name = "MODEL")]
    positional: Option<String>,

    #[command(flatten)]
    source: SourceArgs,
}

impl NamedSourceArgs {
    /// The flags, with the positional argument, if given, as the model.
    pub(crate) fn source(self) -> SourceArgs {
        let Self { positional, source } = self;
        SourceArgs { model_id: positional.or(source.model_id), ..source }
    }
}

/// Flags of the model's source.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct SourceArgs {
    /// Model to serve: a hub id (`Qwen/Qwen3-Embedding-0.6B`), a local directory or a .gguf file. Default: the built-in
    /// model
    #[arg(long, env)]
    pub(crate) model_id: Option<String>,

    /// Hub revision: a branch, tag or commit
    #[arg(long, env)]
    pub(crate) revision: Option<String>,

    /// Hub token for private and gated models
    #[arg(long, env, alias = "hf-api-token", hide_env_values = true)]
    pub(crate) hf_token: Option<Secret>,

    /// Hub to use instead of https://huggingface.co
    #[arg(long, env)]
    pub(crate) hf_endpoint: Option<String>,

    /// Do not contact the hub; the model must be cached or local
    #[arg(long, env = "HF_HUB_OFFLINE", value_parser = FalseyValueParser::new())]
    pub(crate) offline: bool,

    /// Abort a download after this many seconds without data. Raise it for slow or unstable connections
    #[arg(long, env = "HF_HUB_DOWNLOAD_TIMEOUT", default_value_t = 30,
          value_parser = seconds)]
    pub(crate) download_timeout: u64,

    /// Directory of downloaded models; `~` and `$NAME` are expanded. Default: the Hugging Face cache (HF_HOME)
    #[arg(long, env = "HF_HUB_CACHE")]
    pub(crate) huggingface_hub_cache: Option<PathBuf>,
}

impl SourceArgs {
    /// Command-line arguments that select the same model, without the token, which is a secret.
    pub(crate) fn given(&self) -> Vec<String> {
        let values = [
            ("--model-id", self.model_id.clone()),
            ("--revision", self.revision.clone()),
            ("--hf-endpoint", self.hf_endpoint.clone()),
            ("--huggingface-hub-cache", self.huggingface_hub_cache.as_ref().map(|path| path.display().to_string())),
        ];
        let values = values.into_iter().filter_map(|(flag, value)| Some([flag.to_owned(), value?])).flatten();
        values.chain(self.offline.then(|| "--offline".to_owned())).collect()
    }
}

//! The field `usage` of an answer.

use prefold_core::Usage;
use serde::Serialize;
use utoipa::ToSchema;

/// What a request cost in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct UsageBody {
    /// Tokens of all inputs after truncation, prompts included.
    prompt_tokens: usize,
    /// The same: nothing is generated.
    total_tokens: usize,
    prompt_tokens_details: TokenDetails,
}

/// Which tokens were not computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
struct TokenDetails {
    /// Those that begin like an input before them in the same batch: computed once, and saved here.
    cached_tokens: usize,
}

impl From<Usage> for UsageBody {
    fn from(usage: Usage) -> Self {
        let details = TokenDetails { cached_tokens: usage.saved_tokens() };
        Self { prompt_tokens: usage.tokens, total_tokens: usage.tokens, prompt_tokens_details: details }
    }
}

//! The field `usage` of a response.

use prefold_core::Usage;
use serde::Serialize;
use utoipa::ToSchema;

/// Tokens of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct UsageBody {
    /// Tokens of all inputs after truncation, prompts included.
    prompt_tokens: usize,
    /// Equal to `prompt_tokens`: nothing is generated.
    total_tokens: usize,
    prompt_tokens_details: TokenDetails,
}

/// Tokens that need not be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
struct TokenDetails {
    /// Tokens of prefixes shared with an earlier input of the request, which are computed once.
    cached_tokens: usize,
}

impl From<Usage> for UsageBody {
    fn from(usage: Usage) -> Self {
        let details = TokenDetails { cached_tokens: usage.saved_tokens() };
        Self { prompt_tokens: usage.tokens, total_tokens: usage.tokens, prompt_tokens_details: details }
    }
}

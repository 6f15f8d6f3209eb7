//! Fields that several requests have, each declared once.

/// Declares a request's body: its own fields, the groups of shared fields after its name, and `priority`. The method
/// `encode_fields` takes the shared fields out. Not by serde's `flatten`, which would copy the whole body first.
macro_rules! request_body {
    ($(#[$meta:meta])* $vis:vis struct $name:ident: $($group:ident),+ { $($own:tt)* }) => {
        request_body! { @[$($group)+] $name body {$(#[$meta])* $vis struct $name} {$($own)*} {} }
    };
    // Truncation, as named by TEI.
    (@[truncation $($more:ident)*] $name:ident $body:ident $head:tt {$($fields:tt)*} {$($encode:tt)*}) => {
        request_body! { @[$($more)*] $name $body $head { $($fields)*
            /// Truncate inputs that are too long instead of rejecting them. Default: `--auto-truncate`.
            truncate: Option<bool>,
            /// Side to truncate. Default: the tokenizer config's side, usually `right`.
            truncation_direction: Option<$crate::wire::encode_fields::Direction>,
        } { $($encode)* truncate: $body.truncate, truncation_direction: $body.truncation_direction, } }
    };
    // Truncation, as named by vLLM.
    (@[truncation_side $($more:ident)*] $name:ident $body:ident $head:tt {$($fields:tt)*} {$($encode:tt)*}) => {
        request_body! { @[$($more)*] $name $body $head { $($fields)*
            /// Truncate inputs that are too long instead of rejecting them. Default: `--auto-truncate`.
            #[serde(alias = "truncation")]
            truncate: Option<bool>,
            /// Side to truncate. Default: the tokenizer config's side, usually `right`.
            truncation_side: Option<$crate::wire::encode_fields::Direction>,
        } { $($encode)* truncate: $body.truncate, truncation_direction: $body.truncation_side, } }
    };
    (@[input_tokens $($more:ident)*] $name:ident $body:ident $head:tt {$($fields:tt)*} {$($encode:tt)*}) => {
        request_body! { @[$($more)*] $name $body $head { $($fields)*
            /// Truncate each input to this many tokens; -1 is the model's limit.
            truncate_prompt_tokens: Option<i64>,
            /// Add the tokenizer's special tokens to texts. Default: true.
            add_special_tokens: Option<bool>,
        } { $($encode)*
            truncate_prompt_tokens: $body.truncate_prompt_tokens,
            add_special_tokens: $body.add_special_tokens,
        } }
    };
    (@[prompt $($more:ident)*] $name:ident $body:ident $head:tt {$($fields:tt)*} {$($encode:tt)*}) => {
        request_body! { @[$($more)*] $name $body $head { $($fields)*
            /// Name of the model's prompt to put before each text. Default: the model's default prompt, if it has one.
            prompt_name: Option<String>,
            /// Prompt to put before each text, instead of one of the model's prompts.
            prompt: Option<String>,
            /// Type of the inputs: selects the model's adapter or prompt of that name. Also `search_query`, `search_document`, `passage`, and
            /// the name of any of the model's adapters or prompts.
            input_type: Option<$crate::wire::prompt::AskedType>,
            /// Task of the inputs, as in Jina's API: selects the model's adapter (`tasks` of `/info`) and its prompt, unless
            /// the request sets one. Without adapters: the prompt of that name. Default: no adapter.
            task: Option<String>,
        } { $($encode)* prompt: $crate::wire::prompt::PromptFields {
            prompt_name: $body.prompt_name.take(),
            prompt: $body.prompt.take(),
            input_type: $body.input_type.take(),
            task: $body.task.take(),
        }, } }
    };
    (@[vector_form $($more:ident)*] $name:ident $body:ident $head:tt {$($fields:tt)*} $encode:tt) => {
        request_body! { @[$($more)*] $name $body $head { $($fields)*
            /// Default: `float`.
            encoding_format: Option<$crate::wire::vectors::EncodingFormat>,
            /// Element type in base64 and binary responses. Default: `float32`.
            embed_dtype: Option<$crate::wire::element::ElementType>,
            /// Byte order in base64 and binary responses. Default: `native`.
            endianness: Option<$crate::wire::element::Endianness>,
            /// Not supported.
            #[schema(ignore)]
            #[allow(dead_code, reason = "deserializing it refuses it")]
            late_chunking_params: Option<$crate::wire::refused::ChunkSize>,
        } $encode }
    };
    // Fields of vLLM's requests that are not supported.
    (@[vllm $($more:ident)*] $name:ident $body:ident $head:tt {$($fields:tt)*} $encode:tt) => {
        request_body! { @[$($more)*] $name $body $head { $($fields)*
            /// Texts are never padded.
            #[allow(dead_code, reason = "deserializing it checks it")]
            padding: Option<$crate::wire::refused::Padding>,
            /// Not supported.
            #[schema(ignore)]
            #[allow(dead_code, reason = "deserializing it refuses it")]
            messages: Option<$crate::wire::refused::Messages>,
            /// Id of the request, in the response and in the log. The header `x-request-id` overrides it. Default: random.
            request_id: Option<String>,
        } $encode }
    };
    // Scores of a query and documents.
    (@[scoring $($more:ident)*] $name:ident $body:ident $head:tt {$($fields:tt)*} {$($encode:tt)*}) => {
        request_body! { @[$($more)*] $name $body $head { $($fields)*
            /// Truncate each prompt or pair to this many tokens, by shortening the document only; -1 is the model's limit.
            truncate_prompt_tokens: Option<i64>,
            /// Truncate each document to this many tokens before it is scored; 0 means no limit but the model's. Default: 0.
            max_tokens_per_doc: Option<usize>,
            /// Only 0 is supported: queries are not truncated.
            #[schema(value_type = Option<usize>)]
            #[allow(dead_code, reason = "deserializing it checks it")]
            max_tokens_per_query: Option<$crate::wire::refused::QueryTokens>,
            /// False: logits instead of probabilities.
            #[serde(alias = "activation")]
            use_activation: Option<bool>,
            /// Definition of relevance for instruction-following models. Others ignore it, and the response header `x-ignored-fields` names it.
            #[serde(alias = "instruct")]
            instruction: Option<String>,
            /// Values for vLLM's chat template, of which `instruction` is read.
            chat_template_kwargs: Option<$crate::wire::prompt::TemplateValues>,
        } { $($encode)*
            truncate_prompt_tokens: $body.truncate_prompt_tokens,
            max_tokens_per_doc: $body.max_tokens_per_doc,
        } }
    };
    (@[model $($more:ident)*] $name:ident $body:ident $head:tt {$($fields:tt)*} $encode:tt) => {
        request_body! { @[$($more)*] $name $body $head { $($fields)*
            /// Any name is accepted, because there is one model; the response repeats it.
            model: Option<String>,
            /// Id of the end user. It has no effect, and `--strict-fields` does not refuse it.
            #[schema(value_type = Option<String>)]
            #[allow(dead_code, reason = "it has no effect")]
            user: Option<serde::de::IgnoredAny>,
        } $encode }
    };
    (@[] $name:ident $body:ident {$($head:tt)*} {$($fields:tt)*} {$($encode:tt)*}) => {
        #[derive(Debug, Deserialize, ToSchema)]
        $($head)* { $($fields)*
            /// Priority among the requests of the same API key; lower goes first. The header `x-vllm-priority` overrides it.
            /// Default: 0.
            priority: Option<i64>,
        }

        impl $name {
            /// The shared fields, for encoding.
            #[allow(clippy::needless_update, reason = "some requests have all of them")]
            fn encode_fields(&mut self) -> $crate::wire::encode_fields::EncodeFields {
                let $body = self;
                $crate::wire::encode_fields::EncodeFields { $($encode)* priority: $body.priority, ..Default::default() }
            }
        }
    };
}

pub(crate) use request_body;

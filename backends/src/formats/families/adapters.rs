//! Adapters in `config.json`, as jina-embeddings-v3 and v5 have them.

use super::family::Adapters;
use crate::config::{AdapterTask, AdaptersConfig, Instruction};
use crate::error::LoadError;
use crate::json::{Fields, shown};

/// Maximum adapters of a model, and maximum rows of a `lora_A`.
const MAX_ADAPTERS: usize = 64;
const MAX_RANK: usize = 1024;
/// Limit of an adapter's scale times its rank, far above any model.
const MAX_ALPHA: f64 = 65536.0;
/// Maximum bytes of a task's name, and of its instruction.
const MAX_TASK: usize = 128;
const MAX_INSTRUCTION: usize = 16 << 10;

/// The adapters that the config names.
///
/// # Errors
/// A field is malformed or out of range.
pub(super) fn read(fields: &Fields<'_>, adapters: Adapters) -> Result<Option<AdaptersConfig>, LoadError> {
    match adapters {
        Adapters::None => Ok(None),
        Adapters::Stacked => stacked(fields),
        Adapters::Folders => in_folders(fields).map(Some),
    }
}

/// The adapters of jina-embeddings-v3, each with the instruction of its task.
fn stacked(fields: &Fields<'_>) -> Result<Option<AdaptersConfig>, LoadError> {
    const NAMES: &str = "lora_adaptations";
    let names = names(fields, NAMES)?;
    if names.is_empty() {
        return Ok(None);
    }
    let instructions = fields.object("task_instructions")?;
    let task = |(adapter, name): (usize, &String)| {
        let instruction = instructions.as_ref().map(|it| it.or(name, String::new())).transpose()?.unwrap_or_default();
        if instruction.len() > MAX_INSTRUCTION {
            let found = instruction.len();
            let problem = format!("has a task whose instruction has {found} bytes, the limit is {MAX_INSTRUCTION}");
            return Err(fields.problem(NAMES, &problem));
        }
        Ok(AdapterTask { name: name.clone(), adapter, instruction: Instruction::Text(instruction) })
    };
    let tasks = names.iter().enumerate().map(task).collect::<Result<_, _>>()?;
    let rank: usize = fields.required("lora_rank")?;
    if rank == 0 || rank > MAX_RANK {
        return Err(fields.problem("lora_rank", &format!("must be from 1 to {MAX_RANK}, it is {rank}")));
    }
    let alpha = fields.or("lora_alpha", 1.0)?;
    if !(0.0..=MAX_ALPHA).contains(&alpha) {
        return Err(fields.problem("lora_alpha", &format!("must be from 0 to {MAX_ALPHA}, it is {alpha}")));
    }
    let scale = (alpha / rank as f64) as f32;
    Ok(Some(AdaptersConfig { names, tasks, default: None, of_tables: true, rank, scale }))
}

/// The adapters of jina-embeddings-v5, whose rank and scale are in their own configs. Besides its own name, the adapter `retrieval` has the
/// names of Jina's API for queries and for passages, with the model's prompts for them. The published code refuses texts without a task; here
/// they have that adapter too.
fn in_folders(fields: &Fields<'_>) -> Result<AdaptersConfig, LoadError> {
    const NAMES: &str = "task_names";
    const RETRIEVAL: &str = "retrieval";
    let names = names(fields, NAMES)?;
    if let Some(name) = names.iter().find(|name| !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)))
    {
        let problem = format!("has {}, which is no name of a folder", shown(&name.as_str().into()));
        return Err(fields.problem(NAMES, &problem));
    }
    let default = names.iter().position(|name| name == RETRIEVAL);
    let Some(retrieval) = default else {
        return Err(fields.problem(NAMES, &format!("must have the task \"{RETRIEVAL}\"")));
    };
    let of_retrieval = [("retrieval.query", "query"), ("retrieval.passage", "document")].map(|(name, prompt)| {
        AdapterTask { name: name.to_owned(), adapter: retrieval, instruction: Instruction::Prompt(prompt) }
    });
    let own = names.iter().enumerate().map(|(adapter, name)| AdapterTask {
        name: name.clone(),
        adapter,
        instruction: Instruction::Default,
    });
    let tasks = of_retrieval.into_iter().chain(own).collect();
    Ok(AdaptersConfig { names, tasks, default, of_tables: false, rank: 1, scale: 1.0 })
}

/// Names of adapters.
fn names(fields: &Fields<'_>, field: &str) -> Result<Vec<String>, LoadError> {
    let names: Vec<String> = fields.or(field, vec![])?;
    if names.len() > MAX_ADAPTERS {
        return Err(fields.problem(field, &format!("has {} tasks, the limit is {MAX_ADAPTERS}", names.len())));
    }
    if let Some((index, name)) =
        (0..).zip(&names).find(|(index, name)| name.is_empty() || names[..*index].contains(name))
    {
        return Err(fields.problem(field, &format!("has `{name}` as task {index}; a task needs a name of its own")));
    }
    if let Some(found) = names.iter().map(String::len).find(|&length| length > MAX_TASK) {
        return Err(fields.problem(field, &format!("has a task whose name has {found} bytes, the limit is {MAX_TASK}")));
    }
    Ok(names)
}

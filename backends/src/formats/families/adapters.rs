//! Adapters in `config.json`, as jina-embeddings-v3 has them.

use crate::config::{AdapterTask, AdaptersConfig};
use crate::error::LoadError;
use crate::json::Fields;

/// Maximum adapters of a model, and maximum rows of a `lora_A`.
const MAX_ADAPTERS: usize = 64;
const MAX_RANK: usize = 1024;
/// Limit of an adapter's scale times its rank, far above any model.
const MAX_ALPHA: f64 = 65536.0;
/// Maximum bytes of a task's name, and of its instruction.
const MAX_TASK: usize = 128;
const MAX_INSTRUCTION: usize = 16 << 10;

/// The adapters that the config names, each with the instruction of its task.
///
/// # Errors
/// A field is malformed or out of range.
pub(super) fn read(fields: &Fields<'_>) -> Result<Option<AdaptersConfig>, LoadError> {
    const NAMES: &str = "lora_adaptations";
    let names: Vec<String> = fields.or(NAMES, vec![])?;
    if names.is_empty() {
        return Ok(None);
    }
    if names.len() > MAX_ADAPTERS {
        return Err(fields.problem(NAMES, &format!("has {} tasks, the limit is {MAX_ADAPTERS}", names.len())));
    }
    if let Some((index, name)) =
        (0..).zip(&names).find(|(index, name)| name.is_empty() || names[..*index].contains(name))
    {
        return Err(fields.problem(NAMES, &format!("has `{name}` as task {index}; a task needs a name of its own")));
    }
    let instructions = fields.object("task_instructions")?;
    let task = |name: String| {
        let instruction = instructions.as_ref().map(|it| it.or(&name, String::new())).transpose()?.unwrap_or_default();
        for (what, found, limit) in
            [("name", name.len(), MAX_TASK), ("instruction", instruction.len(), MAX_INSTRUCTION)]
        {
            if found > limit {
                return Err(
                    fields.problem(NAMES, &format!("has a task whose {what} has {found} bytes, the limit is {limit}"))
                );
            }
        }
        Ok(AdapterTask { name, instruction })
    };
    let tasks = names.into_iter().map(task).collect::<Result<_, _>>()?;
    let rank: usize = fields.required("lora_rank")?;
    if rank == 0 || rank > MAX_RANK {
        return Err(fields.problem("lora_rank", &format!("must be from 1 to {MAX_RANK}, it is {rank}")));
    }
    let alpha = fields.or("lora_alpha", 1.0)?;
    if !(0.0..=MAX_ALPHA).contains(&alpha) {
        return Err(fields.problem("lora_alpha", &format!("must be from 0 to {MAX_ALPHA}, it is {alpha}")));
    }
    Ok(Some(AdaptersConfig { tasks, rank, scale: (alpha / rank as f64) as f32 }))
}

//! Batches of random tokens: the paper's (arXiv 2601.15013), batches that share nothing, and one of mixed lengths.

use anyhow::Result;
use prefold_core::RaggedBatch;
use prefold_loadgen::workload::ms_marco::{Lengths, PROMPT_TOKENS};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Batches to compute.
#[derive(Debug, clap::Args)]
#[group(id = "batches")]
pub(crate) struct Args {
    /// Batch shaped like MS MARCO reranking, queries times passages per query, cut to the paper's limit of 16,384 tokens.
    #[arg(long, default_value = "16x10", value_parser = parse_product)]
    msmarco: (usize, usize),
    /// Omit the batch that is shaped like MS MARCO.
    #[arg(long)]
    no_msmarco: bool,
    /// Lengths of the shared prefix, one batch each.
    #[arg(long, value_delimiter = ',', default_value = "1,32,128,512,1024,2048")]
    prefix: Vec<usize>,
    /// Omit the batches with a shared prefix.
    #[arg(long, conflicts_with = "prefix")]
    no_prefix: bool,
    /// Sequences in a batch with a shared prefix.
    #[arg(long, default_value_t = 32)]
    pub(super) batch: usize,
    /// Tokens of a sequence after the shared prefix.
    #[arg(long, default_value_t = 256)]
    pub(super) suffix: usize,
    /// Additional batches without sharing, as sequences times tokens: `1x32,32x512`.
    #[arg(long, value_delimiter = ',', value_parser = parse_product)]
    unshared: Vec<(usize, usize)>,
    /// Additional batch of 32 sequences of 16 to 512 tokens.
    #[arg(long)]
    mixed: bool,
}

impl Args {
    /// Lengths of the shared prefixes.
    pub(super) fn prefixes(&self) -> &[usize] {
        if self.no_prefix { &[] } else { &self.prefix }
    }
}

/// Maximum tokens of the batch that is shaped like MS MARCO.
const MAX_TOKENS: usize = 16_384;

/// The batches by name, determined by the arguments and the vocabulary size.
pub(super) fn batches(args: &Args, vocab: usize) -> Result<Vec<(String, RaggedBatch)>> {
    let mut batches = Vec::new();
    if !args.no_msmarco {
        batches.push(ms_marco(args.msmarco, vocab)?);
    }
    for &prefix in args.prefixes() {
        batches.push((format!("prefix {prefix}"), shared_prefix(args.batch, prefix, args.suffix, vocab)?));
    }
    for &(sequences, len) in &args.unshared {
        batches.push((format!("unshared {sequences} x {len}"), shared_prefix(sequences, 0, len, vocab)?));
    }
    if args.mixed {
        batches.push(("mixed, 32 x 16..512".to_owned(), mixed(vocab)?));
    }
    Ok(batches)
}

/// `32x512` as (32, 512).
fn parse_product(text: &str) -> Result<(usize, usize), String> {
    let wrong = || format!("`{text}` is not of the form 32x512");
    let (sequences, len) = text.split_once('x').ok_or_else(wrong)?;
    match (sequences.parse(), len.parse()) {
        (Ok(sequences @ 1..), Ok(len @ 1..)) => Ok((sequences, len)),
        _ => Err(wrong()),
    }
}

fn random(rng: &mut SmallRng, len: usize, vocab: usize) -> Vec<u32> {
    (0..len).map(|_| rng.random_range(0..vocab as u32)).collect()
}

fn shared_prefix(sequences: usize, prefix: usize, suffix: usize, vocab: usize) -> Result<RaggedBatch> {
    let mut rng = SmallRng::seed_from_u64(3);
    let shared = random(&mut rng, prefix, vocab);
    let sequences: Vec<Vec<u32>> =
        (0..sequences).map(|_| [&shared[..], &random(&mut rng, suffix, vocab)].concat()).collect();
    Ok(RaggedBatch::from_sequences(&sequences)?)
}

fn mixed(vocab: usize) -> Result<RaggedBatch> {
    let mut rng = SmallRng::seed_from_u64(5);
    let mut sequence = |_| {
        let len = rng.random_range(16..=512);
        random(&mut rng, len, vocab)
    };
    let sequences: Vec<Vec<u32>> = (0..32).map(&mut sequence).collect();
    Ok(RaggedBatch::from_sequences(&sequences)?)
}

/// A reranker's prompts with the lengths of MS MARCO's queries and passages, query by query, up to [`MAX_TOKENS`].
fn ms_marco((queries, passages): (usize, usize), vocab: usize) -> Result<(String, RaggedBatch)> {
    let (mut rng, mut lengths) = (SmallRng::seed_from_u64(4), Lengths::new(4));
    let [before, between, after] = PROMPT_TOKENS.map(|len| random(&mut rng, len, vocab));
    let mut batch = RaggedBatch::default();
    'full: for _ in 0..queries {
        let query = random(&mut rng, Lengths::tokens(lengths.query_words()), vocab);
        for _ in 0..passages {
            let passage = random(&mut rng, Lengths::tokens(lengths.passage_words()), vocab);
            let sequence = [&before[..], &query, &between, &passage, &after].concat();
            if batch.total_tokens() + sequence.len() > MAX_TOKENS {
                break 'full;
            }
            batch.push(&sequence)?;
        }
    }
    let name = match batch.num_sequences() {
        all if all == queries * passages => format!("ms-marco, {queries} x {passages}"),
        some => format!("ms-marco, {some} of {queries} x {passages}"),
    };
    Ok((name, batch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn named(arguments: &str) -> Vec<(String, RaggedBatch)> {
        let command = Command::try_parse_from(std::iter::once("test").chain(arguments.split_whitespace()));
        batches(&command.unwrap().args, 1000).unwrap()
    }

    fn lengths(batch: &RaggedBatch) -> Vec<u32> {
        batch.cu_seqlens().windows(2).map(|ends| ends[1] - ends[0]).collect()
    }

    fn ids(batch: &RaggedBatch, sequence: usize) -> &[u32] {
        let starts = batch.cu_seqlens();
        &batch.input_ids()[starts[sequence] as usize..starts[sequence + 1] as usize]
    }

    #[test]
    fn all_batches_in_one_call_and_none_that_were_not_asked_for() {
        let names = |arguments| named(arguments).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        let all = names("--msmarco 2x3 --prefix 1,8 --unshared 1x32,4x16 --mixed");
        assert_eq!(
            all,
            ["ms-marco, 2 x 3", "prefix 1", "prefix 8", "unshared 1 x 32", "unshared 4 x 16", "mixed, 32 x 16..512"]
        );
        assert_eq!(names("--no-msmarco --no-prefix --unshared 4x16"), ["unshared 4 x 16"]);
    }

    #[test]
    fn the_batch_of_ms_marco_ends_before_the_papers_limit() {
        let (name, batch) = named("--no-prefix").remove(0);
        let some = batch.num_sequences();
        assert_eq!(name, format!("ms-marco, {some} of 16 x 10"));
        assert!(batch.total_tokens() <= MAX_TOKENS, "{}", batch.total_tokens());
        // The batch is full up to one sequence of maximum length.
        assert!(batch.total_tokens() > MAX_TOKENS - 1000 && some > 50, "{} {some}", batch.total_tokens());
    }

    #[test]
    fn prompts_of_ms_marco_share_the_instruction_and_each_querys_with_its_passages() {
        let (_, batch) = named("--no-prefix --msmarco 3x2").remove(0);
        let sequences: Vec<_> = (0..6).map(|i| ids(&batch, i)).collect();
        let shared = |one: &[u32], other: &[u32]| one.iter().zip(other).take_while(|(one, other)| one == other).count();
        let [before, between, after] = PROMPT_TOKENS;
        assert!(shared(sequences[0], sequences[2]) < before + 3);
        assert!(shared(sequences[0], sequences[2]) >= before);
        assert!(shared(sequences[2], sequences[3]) > before + between);
        assert!(lengths(&batch).iter().all(|&len| len as usize > before + between + after));
    }

    #[test]
    fn mixed_lengths_are_of_16_to_512_tokens_and_shared_prefixes_are_shared() {
        let mixed = lengths(&named("--no-msmarco --no-prefix --mixed")[0].1);
        assert!(mixed.len() == 32 && mixed.iter().all(|len| (16..=512).contains(len)));
        assert!(mixed.iter().max() > Some(&256) && mixed.iter().min() < Some(&256));
        let (_, batch) = named("--no-msmarco --prefix 8 --batch 3 --suffix 2").remove(0);
        assert_eq!(lengths(&batch), [10; 3]);
        assert_eq!(ids(&batch, 0)[..8], ids(&batch, 2)[..8]);
        assert_ne!(ids(&batch, 0)[8..], ids(&batch, 2)[8..]);
    }

    #[test]
    fn products_have_two_numbers_from_one_on() {
        assert_eq!(parse_product("32x512"), Ok((32, 512)));
        for wrong in ["32", "x", "0x5", "5x0", "-1x2", "1x2x3", ""] {
            assert!(parse_product(wrong).is_err_and(|error| error.contains(wrong)), "{wrong}");
        }
    }
}

//! Prefixes: how near the queue's batches come to the best ones.

use super::budget::Budget;
use super::simulation::{Request, Sequence, Simulation, unique_tokens};
use crate::config::Scheduling;
use crate::flow::Flow;

/// Fewest compact tokens of all ways to split `sequences` into batches within the budget, by dynamic programming over
/// subsets: the batch of the first sequence that is left may be any set of the others.
fn best_unique_tokens(sequences: &[Sequence], budget: Budget) -> usize {
    let all = (1usize << sequences.len()) - 1;
    let members = |set: usize| -> Vec<Sequence> {
        (0..sequences.len()).filter(|i| set >> i & 1 == 1).map(|i| sequences[i].clone()).collect()
    };
    let costs: Vec<usize> = (0..=all).map(|set| unique_tokens(&members(set))).collect();
    let lens: Vec<usize> = (0..=all).map(|set| members(set).iter().map(Vec::len).sum()).collect();
    let fits = |set: usize| {
        costs[set] <= budget.max_tokens
            && lens[set] <= budget.max_ragged_tokens
            && set.count_ones() as usize <= budget.max_sequences
    };
    let mut best = vec![usize::MAX; all + 1];
    best[0] = 0;
    for set in 1..=all {
        let first = set & set.wrapping_neg();
        let others = set ^ first;
        let mut part = others;
        loop {
            let batch = part | first;
            if fits(batch) {
                best[set] = best[set].min(best[set ^ batch] + costs[batch]);
            }
            if part == 0 {
                break;
            }
            part = (part - 1) & others;
        }
    }
    best[all]
}

/// Up to eight clients, each with its prompt, whose texts arrive in turn: the tokens that the queue's batches compute,
/// as multiples of the fewest possible.
fn against_the_best(scheduling: Scheduling, clients: u32, texts: u32, lens: (usize, u32), max_tokens: usize) -> f64 {
    let (prompt_len, own_len) = lens;
    let budget = Budget { max_tokens, max_ragged_tokens: 8 * max_tokens, max_sequences: 100 };
    let own = |text: u32| (0..own_len).map(move |i| 1000 + 100 * text + i);
    let sequences: Vec<Sequence> =
        (0..texts).map(|text| std::iter::repeat_n(text % clients, prompt_len).chain(own(text)).collect()).collect();
    let requests = sequences.iter().map(|ids| Request::new(Flow::default(), vec![ids.clone()])).collect();
    let simulation = Simulation::new(scheduling, budget, 512).run(vec![[requests, vec![]]]);
    simulation.check_budget(budget);
    let computed = simulation.service(0..simulation.batches.len());
    computed as f64 / best_unique_tokens(&sequences, budget) as f64
}

#[test]
fn interleaved_clients_are_batched_nearly_as_well_as_can_be() {
    let mut cases = Vec::new();
    for clients in [2, 3, 4, 6, 8] {
        for texts in 9..=11 {
            for (lens, max_tokens) in
                [((50, 10), 150), ((50, 10), 200), ((50, 10), 300), ((100, 20), 400), ((30, 30), 200)]
            {
                let ratio = |scheduling| against_the_best(scheduling, clients, texts, lens, max_tokens);
                let (prefix, fifo) = (ratio(Scheduling::Prefix), ratio(Scheduling::Fifo));
                // A batch that holds two clients' texts, or all there are.
                let group = lens.0 + lens.1 as usize * texts.div_ceil(clients) as usize;
                let is_large = max_tokens >= 2 * group;
                assert!(
                    !is_large || prefix <= 1.05,
                    "{clients} clients, {texts} texts of {lens:?}: {prefix}, fifo {fifo}"
                );
                assert!(prefix <= fifo);
                cases.push((prefix, fifo));
            }
        }
    }
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let (prefix, fifo): (Vec<f64>, Vec<f64>) = cases.into_iter().unzip();
    let worst = prefix.iter().copied().fold(0.0, f64::max);
    let (prefix, fifo) = (mean(prefix), mean(fifo));
    println!("times the fewest tokens: prefix {prefix:.3}, at worst {worst:.3}; fifo {fifo:.3}");
    assert!(prefix < 1.05 && worst < 1.2 && fifo > 1.3);
}

//! Against lists that are searched from end to end.

use super::*;
use crate::plan::tokens::{Scope, TaskId, common_prefix_len};
use crate::schedule::size_lanes::Rank;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// The turn of an entry where all have the same rank.
fn at(ticket: Ticket) -> Turn {
    Turn { rank: Rank::default(), ticket }
}

struct Model {
    folding: Folding,
    waiting: BTreeMap<Ticket, (Vec<u32>, NodeId)>,
    hidden: BTreeSet<Ticket>,
    covered: Vec<Vec<u32>>,
}

/// Leading tokens that are computed once for both.
fn shared(folding: Folding, a: &[u32], b: &[u32]) -> usize {
    match folding {
        Folding::Prefix => common_prefix_len(a, b),
        Folding::Whole => {
            if a == b {
                a.len()
            } else {
                0
            }
        }
    }
}

impl Model {
    fn new(folding: Folding) -> Self {
        Self { folding, waiting: BTreeMap::new(), hidden: BTreeSet::new(), covered: vec![] }
    }

    fn shared(&self, a: &[u32], b: &[u32]) -> usize {
        shared(self.folding, a, b)
    }

    fn new_tokens(&self, ids: &[u32], paths: &[Vec<u32>]) -> usize {
        ids.len() - paths.iter().map(|path| self.shared(ids, path)).max().unwrap_or(0)
    }

    fn nearest(&self) -> Option<Ticket> {
        let shown = self.waiting.iter().filter(|(ticket, _)| !self.hidden.contains(ticket));
        let rank = |(&ticket, (ids, _)): (&Ticket, &(Vec<u32>, NodeId))| {
            let new = self.new_tokens(ids, &self.covered);
            (new > 0, if new > 0 { Reverse(ids.len() - new) } else { Reverse(0) }, ticket)
        };
        shown.map(rank).min().map(|(_, _, ticket)| ticket)
    }

    /// `depth`, `head`, `tokens`, `entries` and `ragged_tokens` of an entry's group.
    fn group(&self, ticket: Ticket) -> Option<[usize; 5]> {
        let ids = &self.waiting[&ticket].0;
        let depth = ids.len() - self.new_tokens(ids, &self.covered);
        let group = self.waiting.values().map(|(ids, _)| ids).filter(|other| self.shared(ids, other) > depth);
        let mut paths: Vec<Vec<u32>> = Vec::new();
        let mut tokens = 0;
        for other in group {
            tokens += self.new_tokens(other, &paths);
            paths.push(other.clone());
        }
        let head = paths.iter().map(|other| self.shared(ids, other)).min()?;
        let ragged_tokens = paths.iter().map(Vec::len).sum();
        (depth < ids.len()).then_some([depth, head - depth, tokens - depth, paths.len(), ragged_tokens])
    }

    fn check(&self, index: &PrefixIndex) {
        let nearest = index.nearest(|_| true);
        assert_eq!(nearest.map(|nearest| nearest.ticket), self.nearest());
        if let Some(Nearest { ticket, group }) = nearest.filter(|_| self.hidden.is_empty()) {
            let figures = |Group { depth, head, tokens, entries, ragged_tokens, .. }| {
                [depth, head, tokens, entries, ragged_tokens]
            };
            assert_eq!(group.map(figures), self.group(ticket));
        }
        for (ids, node) in self.waiting.values() {
            assert_eq!(index.new_tokens(*node), self.new_tokens(ids, &self.covered));
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Insert(Vec<u32>),
    Remove(prop::sample::Index),
    Take(prop::sample::Index),
    Hide(prop::sample::Index),
    Show,
    Leave,
}

fn step() -> impl Strategy<Value = Step> {
    let which = any::<prop::sample::Index>;
    prop_oneof![
        8 => prop::collection::vec(0u32..3, 1..8).prop_map(Step::Insert),
        2 => which().prop_map(Step::Remove),
        5 => which().prop_map(Step::Take),
        1 => which().prop_map(Step::Hide),
        1 => Just(Step::Show),
        1 => Just(Step::Leave),
    ]
}

/// Shows all that is hidden, as must be before the batch leaves.
fn show_all(model: &mut Model, index: &mut PrefixIndex) {
    for ticket in std::mem::take(&mut model.hidden) {
        index.show(at(ticket), model.waiting[&ticket].1);
    }
}

fn run(folding: Folding, steps: Vec<Step>) {
    let (mut model, mut index) = (Model::new(folding), PrefixIndex::new(folding));
    let pick = |model: &Model, which: prop::sample::Index| {
        let shown = model.waiting.keys().filter(|ticket| !model.hidden.contains(ticket));
        let tickets: Vec<Ticket> = shown.copied().collect();
        if tickets.is_empty() { None } else { Some(*which.get(&tickets)) }
    };
    for (ticket, step) in steps.into_iter().enumerate() {
        match step {
            Step::Insert(ids) => {
                // The first token in the model stands for the scope and the task in the index.
                let tokens = Tokens::new([&[9], &ids[1..]].concat()).in_scope(Scope(ids[0] / 2));
                let tokens = tokens.with_task(TaskId((ids[0] % 2) as u8));
                let node = index.insert(at(ticket as Ticket), &tokens, Outputs::EMBEDDING);
                model.waiting.insert(ticket as Ticket, (ids, node));
            }
            Step::Remove(which) => {
                if let Some(ticket) = pick(&model, which) {
                    index.remove(at(ticket), model.waiting.remove(&ticket).unwrap().1);
                }
            }
            Step::Take(which) => {
                if let Some(ticket) = pick(&model, which) {
                    let (ids, node) = model.waiting.remove(&ticket).unwrap();
                    index.cover(node);
                    index.remove(at(ticket), node);
                    model.covered.push(ids);
                }
            }
            Step::Hide(which) => {
                if let Some(ticket) = pick(&model, which) {
                    model.hidden.insert(ticket);
                    index.hide(at(ticket), model.waiting[&ticket].1);
                }
            }
            Step::Show => show_all(&mut model, &mut index),
            Step::Leave => {
                show_all(&mut model, &mut index);
                index.uncover();
                model.covered.clear();
            }
        }
        model.check(&index);
    }
    show_all(&mut model, &mut index);
    for (ticket, (_, node)) in model.waiting {
        index.remove(at(ticket), node);
    }
    index.uncover();
    assert_eq!(index.nearest(|_| true), None);
    assert!(index.tree.is_bare() && index.covered.is_empty(), "nothing is left behind");
}

#[test]
fn repeats_come_first_then_the_longest_prefix_then_age() {
    let mut index = PrefixIndex::new(Folding::Prefix);
    let sequences: [&[u32]; 6] = [&[1, 2, 3], &[9], &[1, 2, 4], &[1, 7], &[1, 2, 5], &[1, 2, 3]];
    let nodes: Vec<NodeId> = sequences
        .iter()
        .enumerate()
        .map(|(i, ids)| index.insert(at(i as Ticket), &Tokens::new(ids.to_vec()), Outputs::EMBEDDING))
        .collect();
    let mut order = vec![0];
    index.cover(nodes[0]);
    index.remove(at(0), nodes[0]);
    while let Some(Nearest { ticket, .. }) = index.nearest(|_| true) {
        order.push(ticket);
        index.cover(nodes[ticket as usize]);
        index.remove(at(ticket), nodes[ticket as usize]);
    }
    assert_eq!(order, [0, 5, 2, 4, 3, 1]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn equals_a_search_of_everything(steps in prop::collection::vec(step(), 1..60)) {
        run(Folding::Prefix, steps);
    }

    #[test]
    fn equals_a_search_of_everything_where_only_equal_sequences_are_folded(steps in prop::collection::vec(step(), 1..60)) {
        run(Folding::Whole, steps);
    }
}

/// The leading job takes an entry of a group that is hidden: what remains of the group is offered below it, and once.
#[test]
fn a_group_may_lose_entries_while_it_is_hidden() {
    for is_covered in [true, false] {
        let mut index = PrefixIndex::new(Folding::Prefix);
        let places: Vec<NodeId> = [&[1, 2, 3][..], &[1, 2, 4], &[1, 2, 5, 6]]
            .into_iter()
            .zip(0..)
            .map(|(ids, ticket)| index.insert(at(ticket), &Tokens::new(ids.to_vec()), Outputs::EMBEDDING))
            .collect();
        let group = index.nearest(|_| true).unwrap().group.unwrap();
        index.hide_group(group);
        assert_eq!(index.nearest(|_| true), None);
        if is_covered {
            index.cover(places[0]);
        }
        index.remove(at(0), places[0]);
        index.show_group(group);
        for ticket in [1, 2] {
            assert_eq!(index.nearest(|_| true).unwrap().ticket, ticket, "{is_covered}");
            index.remove(at(ticket), places[ticket as usize]);
        }
        assert_eq!(index.nearest(|_| true), None);
        index.uncover();
        assert!(index.tree.is_bare());
    }
}

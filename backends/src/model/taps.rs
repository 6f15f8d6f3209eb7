//! Neighbours of rows along the paths of their sequences, for short convolutions.

use crate::ops::{IndexPack, Indices, ShortConvolution, Slot};
use candle_core::{Result, Tensor};
use prefold_core::{RadixPlan, RaggedBatch};
use std::ops::Range;

/// The computed row of each neighbour of each row. A causal convolution of a compacted batch follows a row's ancestors in the prefix tree,
/// wherever they are, so a row's neighbours are the same as in its text alone.
pub(super) struct Taps {
    /// `[rows, count]`; [`ShortConvolution::NONE`] before the beginning of a text, behind its end, and for rows of padding.
    rows: Vec<u32>,
    /// Neighbours of a row.
    count: usize,
}

impl Taps {
    /// The neighbours at `offsets` from each of `rows` computed rows.
    pub(super) fn new(ragged: &RaggedBatch, plan: Option<&RadixPlan>, rows: usize, offsets: Range<isize>) -> Self {
        let count = offsets.len();
        let mut taps = vec![ShortConvolution::NONE; rows * count];
        let row_of = |row: usize| plan.map_or(row as u32, |plan| plan.scatter()[row]);
        // `len` rows from `first` on, which are the positions of `sequence` from `depth` on.
        let mut fill = |sequence: usize, first: usize, depth: usize, len: usize| {
            let path = ragged.rows(sequence);
            for i in 0..len {
                let position = (path.start + depth + i) as isize;
                for (tap, offset) in taps[(first + i) * count..][..count].iter_mut().zip(offsets.clone()) {
                    let neighbour = usize::try_from(position + offset).ok().filter(|row| path.contains(row));
                    *tap = neighbour.map_or(ShortConvolution::NONE, row_of);
                }
            }
        };
        match plan {
            None => (0..ragged.num_sequences()).for_each(|b| fill(b, ragged.rows(b).start, 0, ragged.rows(b).len())),
            Some(plan) => plan.segments().iter().for_each(|segment| {
                fill(segment.sequence as usize, segment.start as usize, segment.depth as usize, segment.len as usize);
            }),
        }
        Self { rows: taps, count }
    }

    /// Packs the neighbours of all rows, and of the output rows where these are selected.
    pub(super) fn pack(&self, outputs: Option<&[u32]>, pack: &mut IndexPack) -> PackedTaps {
        let of_row = |row: &u32| &self.rows[*row as usize * self.count..][..self.count];
        PackedTaps {
            rows: pack.push(&self.rows),
            outputs: outputs.map(|rows| pack.push(&rows.iter().flat_map(of_row).copied().collect::<Vec<u32>>())),
            count: self.count,
        }
    }
}

/// Neighbours, packed for the upload to the device.
pub(super) struct PackedTaps {
    rows: Slot,
    outputs: Option<Slot>,
    count: usize,
}

impl PackedTaps {
    /// Neighbours of all rows, `[rows, taps]`.
    pub(super) fn of_rows(&self, indices: &Indices) -> Result<Tensor> {
        indices.get(&self.rows)?.reshape(((), self.count))
    }

    /// The same of the output rows.
    pub(super) fn of_outputs(&self, indices: &Indices) -> Option<Result<Tensor>> {
        let slot = self.outputs.as_ref()?;
        Some(indices.get(slot).and_then(|taps| taps.reshape(((), self.count))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prefold_core::TokenSlice;

    const NONE: u32 = ShortConvolution::NONE;

    fn batch(sequences: &[&[u32]]) -> RaggedBatch {
        let mut ragged = RaggedBatch::default();
        sequences.iter().for_each(|ids| ragged.push(TokenSlice::from(*ids)).unwrap());
        ragged
    }

    #[test]
    fn neighbours_end_at_the_borders_of_a_text() {
        let ragged = batch(&[&[1, 2, 3], &[4]]);
        let of = |offsets| Taps::new(&ragged, None, 4, offsets).rows;
        assert_eq!(of(-2..1), [NONE, NONE, 0, NONE, 0, 1, 0, 1, 2, NONE, NONE, 3]);
        assert_eq!(of(-1..2), [NONE, 0, 1, 0, 1, 2, 1, 2, NONE, NONE, 3, NONE]);
    }

    #[test]
    fn neighbours_in_compact_space_are_ancestors() {
        // Rows 1 2 3 9 | 4 5 | 6, padded to 8: the second text branches off after 2, the third after 1.
        let ragged = batch(&[&[1, 2, 3, 9], &[1, 2, 4, 5], &[1, 6]]);
        let plan = RadixPlan::new(&ragged, 8);
        assert_eq!(plan.input_ids()[..7], [1, 2, 3, 9, 4, 5, 6]);
        let taps = Taps::new(&ragged, Some(&plan), 8, -2..1);
        let expected =
            [[NONE, NONE, 0], [NONE, 0, 1], [0, 1, 2], [1, 2, 3], [0, 1, 4], [1, 4, 5], [NONE, 0, 6], [NONE; 3]];
        assert_eq!(taps.rows, expected.concat());
        let mut pack = IndexPack::default();
        let packed = taps.pack(Some(&[3, 5]), &mut pack);
        let uploaded = crate::ops::Uploader::new(&crate::ops::Target::cpu(prefold_kernels::Dtype::Float32)).unwrap();
        let indices = { uploaded }.upload(pack).unwrap();
        let outputs = packed.of_outputs(&indices).unwrap().unwrap();
        assert_eq!(outputs.to_vec2::<u32>().unwrap(), [[1, 2, 3], [1, 4, 5]]);
    }
}

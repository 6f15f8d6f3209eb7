//! The serial part of attention: a thread's items.

use super::input::Attention;
use super::item::Item;
use super::output::Rows;
use super::products::{OnTiles, OnVectors, Products};
use super::tile;
use crate::runtime::claims::{Claims, Division};
use crate::runtime::scratch::Scratch;
use crate::simd::{FloatFormat, Operation, Simd, TileOperation};
use crate::tiles::Tiles;
use std::marker::PhantomData;

/// Items of a call, divided among the threads; operands are of type `F`.
#[derive(Debug)]
pub struct Task<'a, F> {
    pub(super) attention: &'a Attention<'a>,
    pub(super) items: &'a [Item],
    /// The items that are left.
    pub(super) claims: &'a Claims,
    pub(super) division: Division,
    /// The thread's number in the division.
    pub(super) thread: usize,
    pub(super) out: Rows,
    pub(super) factors: PhantomData<F>,
}

impl<F: FloatFormat> Task<'_, F> {
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    unsafe fn run_items<P: Products>(self, mut products: P) {
        let mut scratch = Scratch::new(tile::scratch_words(self.attention.layout.head_dim));
        let Self { attention, items, claims, division, thread, out, .. } = self;
        for index in claims.of_thread(division, thread) {
            // SAFETY: the instructions are the caller's duty. `check` ensures that the rows of spans are in `out` and do not
            // overlap, and `get` that the items belong to these spans; a span's items differ in their queries or in their heads.
            unsafe {
                tile::run(&mut products, attention, (items[index], items.get(index + 1).copied()), out, scratch.words())
            };
        }
    }
}

impl<F: FloatFormat> Operation for Task<'_, F> {
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // SAFETY: the caller's duty.
        unsafe { self.run_items(OnVectors::<F::FloatDot<S>>::new()) }
    }
}

impl<F: FloatFormat> TileOperation for Task<'_, F> {
    #[inline(always)]
    unsafe fn run<S: Simd, T: Tiles>(self) {
        // SAFETY: the caller's duty.
        unsafe { self.run_items(OnTiles::<T, S::V>::new()) }
    }
}

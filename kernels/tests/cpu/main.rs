//! The kernels on the CPU, in one program, so that generic code is compiled once for all of these tests.

#[path = "../common/mod.rs"]
mod common;

mod amx;
mod attention;
mod convolution;
mod gemm;
mod int8;
mod parity;
mod same_bits;

//! Short convolutions against their reference in f64.

use crate::common::*;
use prefold_kernels::*;

#[test]
fn short_convolutions_match_the_reference() {
    for (rows, width, taps, own) in [(1, 1, 1, 0), (5, 7, 3, 2), (6, 64, 3, 1), (40, 130, 4, 3), (300, 96, 3, 2)] {
        let rng = &mut rng(width as u64);
        let (weight, bias) = (random::<f32>(rng, taps * width), random::<f32>(rng, width));
        let gated: Vec<f32> = random(rng, rows * 3 * width);
        // Neighbours anywhere, missing ones, and a row of padding.
        let index = |i: usize, tap: usize| match (i, tap) {
            (_, tap) if tap == own && i + 1 < rows.max(2) => i as u32,
            _ if i + 1 == rows || (i + tap).is_multiple_of(4) => ShortConvolution::NONE,
            _ => ((i * 7 + tap * 3) % rows) as u32,
        };
        let taps: Vec<u32> = (0..rows).flat_map(|i| (0..taps).map(move |tap| index(i, tap))).collect();
        for bias in [None, Some(bias.as_slice())] {
            let op = ShortConvolution { weight: &weight, bias, width, own };
            let expected = reference::short_convolution(&op, &gated, &taps);
            let mut out = vec![7.0_f32; rows * width];
            op.run(&gated, &taps, &mut out).unwrap();
            assert_close(&format!("{rows} x {width}"), &out, &expected, |_| 2e-5);
            let mut half = vec![bf16::ONE; rows * width];
            op.run(&gated, &taps, &mut half).unwrap();
            let rounded: Vec<bf16> = out.iter().map(|&x| bf16::from_f32(x)).collect();
            assert_eq!(half, rounded, "{rows} x {width} bf16");
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let op = ShortConvolution { weight: &[1.0; 6], bias: None, width: 2, own: 2 };
    let (gated, mut out) = ([1.0; 12], [0.0_f32; 2]);
    op.run(&gated, &[0, 1, 1], &mut out).unwrap();
    assert_eq!(out, [3.0; 2]);
    assert!(matches!(op.run(&gated, &[0, 2, 1], &mut out), Err(KernelError::Index { found: 2, limit: 2, .. })));
    assert!(matches!(op.run(&gated, &[0, 1], &mut out), Err(KernelError::Rows { .. })));
    assert!(matches!(op.run(&gated[..8], &[0, 1, 1], &mut out), Err(KernelError::Rows { .. })));
    assert!(matches!(op.run(&gated, &[0, 1, 1], &mut out[..1]), Err(KernelError::Length { .. })));
    let beyond = ShortConvolution { own: 3, ..op };
    assert!(matches!(beyond.run(&gated, &[0, 1, 1], &mut out), Err(KernelError::Index { argument: "own", .. })));
    let biased = ShortConvolution { bias: Some(&[1.0]), ..op };
    assert!(matches!(biased.run(&gated, &[0, 1, 1], &mut out), Err(KernelError::Length { .. })));
}

//! Routing to experts, and sums by index.

use super::*;
use prefold_kernels::{add_rows, route_rows, scatter_add_rows};

/// Scores with few different values, so that many are equal; the rows fill several steps of a block, the last one only partly.
#[test]
fn rows_go_to_the_experts_that_the_cpu_chooses() {
    let Some(gpu) = gpu() else { return };
    for (rows, experts, top) in [(1, 8, 2), (7, 8, 2), (64, 3, 1), (1500, 8, 2), (2050, 5, 5)] {
        let rng = &mut rng(rows as u64);
        let scores: Vec<f32> = (0..rows * experts).map(|_| f32::from(rng.random_range(0..9_u8)) - 4.0).collect();
        // Words that are not written stay zero.
        let mut expected = vec![0_u32; 3 * experts * rows];
        route_rows(&scores, experts, top, &mut expected).unwrap();
        let mut table = gpu.up(&vec![0_u32; expected.len()]);
        gpu.kernels.route_rows(&gpu.up(&scores).as_view(), experts, top, &mut table.as_view_mut()).unwrap();
        let found = gpu.down(&table);
        let weights = experts * rows..2 * experts * rows;
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            if weights.contains(&i) {
                let [found, expected] = [found, expected].map(|bits| f32::from_bits(*bits));
                assert!((found - expected).abs() <= 1e-6, "{rows} x {experts} [{i}]: {found}, not {expected}");
            } else {
                assert_eq!(found, expected, "{rows} x {experts} [{i}]");
            }
        }
    }
}

#[test]
fn sums_by_index_match_the_cpu() {
    let Some(gpu) = gpu() else { return };
    for width in [1, 63, 64, 768] {
        let rng = &mut rng(width as u64);
        let index = [4_u32, 0, 7, 2];
        let (x, factors) = (random::<f32>(rng, index.len() * width), random::<f32>(rng, index.len()));
        let mut expected = random::<f32>(rng, 9 * width);
        let mut out = gpu.up(&expected);
        scatter_add_rows(&x, width, &index, &factors, &mut expected).unwrap();
        let (x, index_up) = (gpu.up(&x), gpu.up(&index));
        let bits = gpu.up(&factors.iter().map(|factor| factor.to_bits()).collect::<Vec<u32>>());
        let to = RowFactors { index: index_up.as_view(), factors: bits.as_view() };
        gpu.kernels.scatter_add_rows(&x.as_view(), width, &to, &mut out.as_view_mut()).unwrap();
        let all = random::<f32>(rng, 9 * width);
        add_rows(&all, width, &mut expected).unwrap();
        gpu.kernels.add_rows(&gpu.up(&all).as_view(), width, &mut out.as_view_mut()).unwrap();
        let expected: Vec<f64> = expected.iter().map(|&x| x.into()).collect();
        close("sums", &gpu.down(&out), &expected, |i| 1e-6 * (expected[i].abs() + 1.0));
    }
}

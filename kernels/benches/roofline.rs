//! Prints what limits products on AMX tiles, in percent of products whose operands stay in tiles, one core, best of many tries:
//! `cargo bench -p prefold-kernels --bench roofline`.

use prefold_kernels::{Isa, Stores, ThreadPool, TileLoop, bf16, convert_with, run_peak};
use std::time::Instant;

/// Steps of a row of 384, 576, 768, 1,024, 1,536 and 3,072 values.
const STEPS: [usize; 6] = [12, 18, 24, 32, 48, 96];

/// Tries; other work on the machine disturbs most of them.
const TRIES: usize = 40;

/// Giga-operations per second of the fastest try; `run` returns its number of operations.
fn best(run: impl Fn() -> usize) -> f64 {
    let rate = |_| {
        let clock = Instant::now();
        run() as f64 / clock.elapsed().as_secs_f64() / 1e9
    };
    (0..TRIES).map(rate).fold(0.0, f64::max)
}

fn main() {
    let isa = Isa::best();
    ThreadPool::new(1).enter(|| {
        let peak = best(|| run_peak::<bf16>(isa, 50_000));
        println!("{isa}, operands in registers or tiles: {peak:.0} GFLOP/s");
        let loops = [
            ("operands in L1", 1, 1, false, Stores::None),
            ("rows in L1, panels in L2", 1, 16, false, Stores::None),
            ("rows in L1, panels in L2 past L1", 1, 16, true, Stores::None),
            ("the same, tiles stored to L2", 1, 16, true, Stores::Tiles),
            ("the same, stored by vectors", 1, 16, true, Stores::Vectors),
            ("8 pairs of row tiles, stored by vectors", 8, 16, true, Stores::Vectors),
        ];
        print!("{:44}", "steps of 32 values");
        STEPS.iter().for_each(|steps| print!("{steps:5}"));
        println!();
        for (name, row_pairs, panels, is_streamed, stores) in loops {
            print!("{name:44}");
            for steps in STEPS {
                let tile_loop = TileLoop { steps, row_pairs, panels, is_streamed, stores };
                let operations = tile_loop.run(isa, 1);
                if operations == 0 {
                    return println!("no tiles");
                }
                // About a millisecond.
                let repeats = (2_000_000_000 / operations).max(1);
                print!("{:5.0}", 100.0 * best(|| tile_loop.run(isa, repeats)) / peak);
            }
            println!();
        }
        let values = vec![1.0_f32; 1 << 16];
        let mut rounded = vec![bf16::ZERO; 1 << 16];
        let bytes = size_of_val(&*values);
        let clock = |repeats: usize, rounded: &mut [bf16]| {
            let clock = Instant::now();
            (0..repeats).for_each(|_| assert!(convert_with(isa, &values, rounded).is_ok()));
            (bytes * repeats) as f64 / clock.elapsed().as_secs_f64() / 1e9
        };
        let rate = (0..TRIES).map(|_| clock(100, &mut rounded)).fold(0.0, f64::max);
        println!("conversion of rows in L2 from float32 to bfloat16: {rate:.0} GB/s read");
    });
}

//! How fast chunks are spooled and read back: `cargo bench -p learn --bench spool`. Prints megabytes of float32 a second
//! and the bytes that a value takes.

use std::hint::black_box;
use std::time::Instant;

use learn::rows::Chunk;
use learn::spool::{Block, decode, encode};

const ROWS: usize = 50_000;

fn main() {
    let mut state = 1u64;
    let mut random = move |bound: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % bound
    };
    // The eleven features of the flights table, and features that are as they are.
    let ranges = [3, 4, 12, 5000, 7, 31, 9000, 6000, 6000, 9000, 1440];
    let flights: Vec<f32> = (0..ROWS).flat_map(|_| ranges).map(|range| random(range) as f32).collect();
    let reals: Vec<f32> = (0..ROWS * 11).map(|_| random(1 << 24) as f32 / 1e6).collect();
    let labels: Vec<f32> = (0..ROWS).map(|_| random(300) as f32 - 60.0).collect();
    for (name, features) in [("flights", flights), ("reals", reals)] {
        let chunk = Chunk { features: &features, labels: &labels, weights: None };
        let (mut bytes, mut block) = (Vec::new(), Block::new());
        let (mut encoding, mut decoding) = (f64::MAX, f64::MAX);
        for _ in 0..30 {
            bytes.clear();
            let begun = Instant::now();
            encode(black_box(&chunk), &[], 11, &mut bytes).unwrap_or_default();
            encoding = encoding.min(begun.elapsed().as_secs_f64());
            let begun = Instant::now();
            let decoded = decode(black_box(&bytes), &mut block);
            decoding = decoding.min(begun.elapsed().as_secs_f64());
            assert!(decoded.is_ok());
        }
        assert!(block.chunk().features == features);
        let values = (ROWS * 12) as f64;
        let speed = |seconds: f64| values * 4.0 / seconds / 1e6;
        println!(
            "{name}: {:.2} bytes a value, spooled at {:.0} MB/s, read back at {:.0} MB/s",
            bytes.len() as f64 / values,
            speed(encoding),
            speed(decoding)
        );
    }
}

//! Training rows in a temporary file: any rows come back bit by bit, and any bytes are rows or refused.

#![no_main]

use learn::rows::Chunk;
use learn::spool::{Block, decode, encode};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut block = Block::new();
    let _ = decode(data, &mut block);
    let Some((&width, rest)) = data.split_first() else { return };
    let width = usize::from(width % 5);
    let values: Vec<f32> = rest.chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect();
    let rows = values.len() / (width + 2);
    let (features, labels) = values.split_at(rows * width);
    let (labels, weights) = (&labels[..rows], &labels[rows..2 * rows]);
    let chunk = Chunk { features, labels, weights: (data.len() % 2 == 0).then_some(weights) };
    let mut spooled = Vec::new();
    if encode(&chunk, &[], width, &mut spooled).is_err() {
        return;
    }
    decode(&spooled, &mut block).unwrap();
    let read = block.chunk();
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(read.features), bits(chunk.features));
    assert_eq!(bits(read.labels), bits(chunk.labels));
    assert_eq!(read.weights.map(bits), chunk.weights.map(bits));
});

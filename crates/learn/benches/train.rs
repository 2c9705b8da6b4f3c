//! What training from a stream costs: `HOWDAH_ROWS=5000000 cargo bench -p learn --bench train`. Rows of eleven features
//! are spooled in memory, as the extension spools them in a file, and 25 trees are trained from the spool. Prints the
//! time of the passes and of the rounds, and the peak memory above that of the spool.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use learn::Error;
use learn::rows::{Chunk, Rows, Stop};
use learn::spool::{Block, decode, encode};
use learn::xgboost::{Algorithm, Column, ColumnKind, Columns, Library, Params, Task, train};

const CHUNK: usize = 10_000;
const RANGES: [u64; 11] = [3, 4, 12, 5000, 7, 31, 9000, 6000, 6000, 9000, 1440];

struct Spooled {
    chunks: Vec<Vec<u8>>,
    next: usize,
    block: Block,
    reading: Duration,
    passes: u32,
}

impl Rows for Spooled {
    fn width(&self) -> usize {
        RANGES.len()
    }

    fn rewind(&mut self) -> Result<(), Stop> {
        self.next = 0;
        self.passes += 1;
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Chunk<'_>>, Stop> {
        let begun = Instant::now();
        let Some(bytes) = self.chunks.get(self.next) else { return Ok(None) };
        self.next += 1;
        decode(bytes, &mut self.block).map_err(|error| Box::new(error) as Stop)?;
        self.reading += begun.elapsed();
        Ok(Some(self.block.chunk()))
    }
}

fn kilobytes(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
}

fn main() -> Result<(), Error> {
    let rows: usize = std::env::var("HOWDAH_ROWS").ok().and_then(|rows| rows.parse().ok()).unwrap_or(1_000_000);
    let mut state = 1u64;
    let mut random = move |bound: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % bound
    };
    let mut chunks = Vec::new();
    for _ in 0..rows.div_ceil(CHUNK) {
        let features: Vec<f32> = (0..CHUNK).flat_map(|_| RANGES).map(|range| random(range) as f32).collect();
        let delay = |row: &[f32]| row.iter().zip(RANGES).map(|(value, range)| value / range as f32).sum::<f32>();
        let labels: Vec<f32> = features.chunks(RANGES.len()).map(|row| (delay(row) * 10.0).round()).collect();
        let mut bytes = Vec::new();
        encode(&Chunk { features: &features, labels: &labels, weights: None }, &[], RANGES.len(), &mut bytes)?;
        bytes.shrink_to_fit();
        chunks.push(bytes);
    }
    let mut source = Spooled { chunks, next: 0, block: Block::new(), reading: Duration::ZERO, passes: 0 };

    let path = std::env::var_os("HOWDAH_XGBOOST_LIB").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../build/xgboost/xgboost/lib/libxgboost.so")),
        PathBuf::from,
    );
    let library = Library::open(&path)?;
    let column = |i| Column { name: format!("c{i}"), kind: ColumnKind::Quantitative };
    let columns = Columns::new((0..RANGES.len()).map(column).collect())?;
    let hyperparams = serde_json::json!({"n_estimators": 25});
    let hyperparams = hyperparams.as_object().cloned().unwrap_or_default();
    let params = Params::parse(Algorithm::Xgboost, Task::Regression, &hyperparams)?;
    let begun = Instant::now();
    params.dry_run(&library, &columns)?;
    println!("dry run: {:?}", begun.elapsed());

    let before = kilobytes("VmRSS:");
    let mut rounds = Duration::ZERO;
    let trained = train(&library, &params, &columns, &mut source, None, &[], &mut |round| {
        rounds = round.elapsed;
        Ok(())
    })?;
    println!(
        "{} rows: {:.2} s, of which {:.2} s for 25 rounds, and {:.2} s for reading {} passes; {} MB above the spool; \
         the matrix would be {} MB",
        trained.rows,
        trained.elapsed.as_secs_f64(),
        rounds.as_secs_f64(),
        source.reading.as_secs_f64(),
        source.passes,
        kilobytes("VmHWM:").saturating_sub(before) / 1024,
        (trained.rows * RANGES.len() as u64 * 4) >> 20,
    );
    Ok(())
}

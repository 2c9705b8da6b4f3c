//! Runs schedules by their seeds: `cargo run -p simulation -- --seeds 100000`, on all cores.
//!
//! `--from N` is the first seed (0), `--steps N` how many steps each schedule has (300). A schedule that fails is shrunk
//! and printed; `--seed N` runs that one alone, with `--only 3,17,20` nothing but these of its steps, and tells what
//! everybody says.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use simulation::schedule::of_seed;
use simulation::search::{run, shrink};
use simulation::trace::tell_all;

struct Options {
    seeds: u64,
    from: u64,
    steps: usize,
    seed: Option<u64>,
    only: Option<Vec<usize>>,
}

fn options() -> Result<Options, String> {
    let mut options = Options { seeds: 1000, from: 0, steps: 300, seed: None, only: None };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        let bad = |_| format!("{name} {value}: not a number");
        match name.as_str() {
            "--seeds" => options.seeds = value.parse().map_err(bad)?,
            "--from" => options.from = value.parse().map_err(bad)?,
            "--steps" => options.steps = value.parse().map_err(bad)?,
            "--seed" => options.seed = Some(value.parse().map_err(bad)?),
            "--only" => options.only = Some(value.split(',').map(str::parse).collect::<Result<_, _>>().map_err(bad)?),
            _ => return Err(format!("there is no option {name}; see the head of tests/simulation/src/main.rs")),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(complaint) => {
            eprintln!("simulation: {complaint}");
            return ExitCode::FAILURE;
        }
    };
    let fine = match options.seed {
        Some(seed) => replay(seed, &options),
        None => search(&options),
    };
    if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs one schedule and tells what happens.
fn replay(seed: u64, options: &Options) -> bool {
    let (setup, mut steps) = of_seed(seed, options.steps);
    if let Some(only) = &options.only {
        steps = only.iter().filter_map(|at| steps.get(*at).cloned()).collect();
        steps.iter().for_each(|step| println!("{step:?}"));
    }
    println!("{setup:?}");
    tell_all();
    match run(&setup, &steps) {
        Ok(()) => println!("seed {seed}: everything held"),
        Err(failure) => println!("seed {seed}: {}", failure.what),
    }
    true
}

/// Runs schedules until one fails or all have been run.
fn search(options: &Options) -> bool {
    let (next, steps_done, failed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while !failed.load(Ordering::Relaxed) {
                    let count = next.fetch_add(1, Ordering::Relaxed);
                    if count >= options.seeds {
                        return;
                    }
                    let seed = options.from + count;
                    let (setup, steps) = of_seed(seed, options.steps);
                    let outcome = run(&setup, &steps);
                    let done = outcome.as_ref().err().map_or(steps.len(), |failure| failure.after) as u64;
                    let before = steps_done.fetch_add(done, Ordering::Relaxed);
                    let Err(failure) = outcome else { continue };
                    if failed.swap(true, Ordering::Relaxed) {
                        return;
                    }
                    println!("seed {seed} fails after {} steps, {} in all: {}", done, before + done, failure.what);
                    let kept = shrink(&setup, &steps, &failure);
                    println!("{setup:?}");
                    for at in &kept {
                        println!("{at:>5}  {:?}", steps[*at]);
                    }
                    let only: Vec<String> = kept.iter().map(ToString::to_string).collect();
                    println!("run it again: --seed {seed} --steps {} --only {}", options.steps, only.join(","));
                }
            });
        }
    });
    let seeds = next.into_inner().min(options.seeds);
    let steps = steps_done.into_inner();
    println!("{seeds} seeds, {steps} steps, {} s", begun.elapsed().as_secs());
    !failed.into_inner()
}

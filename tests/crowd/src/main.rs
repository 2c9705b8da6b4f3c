//! A crowd of clients, each beside a model of its own session: does anybody get what is another's?
//!
//! See docs/design/2026-11-22-crowd.md, and `crowd --help`.

mod admin;
mod audit;
mod client;
mod crowd;
mod dice;
mod judge;
#[cfg(test)]
mod judge_tests;
mod ledger;
mod mischief;
mod options;
mod proxy;
mod script;
mod session;
mod settings;
mod socket;
mod statement;
mod trace;
mod unit;
mod world;

use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::admin::{Admin, SUPERUSER};
use crate::crowd::{Count, Crowd, Shared};
use crate::ledger::Ledger;
use crate::options::{Options, USAGE};
use crate::world::{DATABASE, World};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.peek().is_none_or(|first| first == "--help") {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let done = Options::read(arguments).and_then(run);
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("crowd: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs a crowd; whether nothing was wrong.
fn run(options: Options) -> Result<bool, String> {
    println!("seed {}", options.seed);
    let tls = options.tls.as_deref().map(socket::tls).transpose()?;
    if let Some(port) = options.proxy {
        proxy::start(port, options.server, options.delay, options.seed)?;
    }
    let world = World::prepare(options.server)?;
    let shared = Shared::new(options, world, tls);
    let (ledger, count) = std::thread::scope(|scope| {
        let threads = shared.options.threads.max(1);
        let shared = &shared;
        let share =
            move |thread| shared.options.clients / threads + usize::from(thread < shared.options.clients % threads);
        let crowds: Vec<_> =
            (0..threads).map(|thread| scope.spawn(move || Crowd::new(shared, thread, share(thread))?.run())).collect();
        let mischief = scope.spawn(|| mischief::run(shared));
        scope.spawn(|| audit::run(shared));
        watch(shared);
        if let Ok((ended, killed)) = mischief.join() {
            println!("{ended} server processes ended, {killed} killed");
        }
        let mut all = (Ledger::default(), Count::default());
        for crowd in crowds {
            let (ledger, count) = crowd.join().map_err(|_| "a thread of the crowd has panicked".to_owned())??;
            all.0.take(ledger);
            all.1.add(count);
        }
        Ok::<_, String>(all)
    })?;
    let took = shared.began.elapsed().as_secs_f64();
    settle(&shared, &ledger)?;
    let units = shared.units.load(Ordering::Relaxed);
    println!("{units} units in {took:.1} s, {:.0} a second; {count}", units as f64 / took);
    let wrong = shared.wrong().len();
    println!("{} rows in the ledger; {wrong} violations", ledger.len());
    Ok(wrong == 0)
}

/// Waits until it is time to end, and says now and then how far it is.
fn watch(shared: &Shared) {
    let mut said = Instant::now();
    while !shared.stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(20));
        if shared.began.elapsed().as_secs_f64() > shared.options.seconds {
            shared.stop.store(true, Ordering::Relaxed);
        }
        if said.elapsed() > Duration::from_secs(10) {
            said = Instant::now();
            println!("{:6.0} s: {} units", shared.began.elapsed().as_secs_f64(), shared.units.load(Ordering::Relaxed));
        }
    }
}

/// Holds the ledger against the tables, once nothing is under way any more.
fn settle(shared: &Shared, ledger: &Ledger) -> Result<(), String> {
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut admin = loop {
        match Admin::connect(shared.options.server, DATABASE, SUPERUSER) {
            Ok(admin) => break admin,
            Err(error) if Instant::now() > deadline => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(200)),
        }
    };
    let busy = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state <> 'idle' \
         AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
    while admin.value(busy)? != "0" {
        if Instant::now() > deadline {
            shared.violate("connections of clients that have left are still busy after a minute".to_owned());
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let (wrong, found) = ledger.account(&mut admin)?;
    println!("{found} rows in the tables");
    for fault in wrong {
        shared.violate(fault);
    }
    Ok(())
}

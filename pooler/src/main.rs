//! `howdah-pooler CONFIG` runs the pooler in the foreground; `command.rs` has the other commands.

#![forbid(unsafe_code)]

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use howdah_pooler::catalog;
use howdah_pooler::listen::Listener;
use howdah_pooler::outside::System;
use howdah_pooler::takeover::{Failed, Predecessor};
use howdah_pooler::worker::Worker;
use howdah_pooler::{
    account, adopt, files, log, metrics, monitor, net, notify, password_hasher, reload, replay_monitor, watch,
};
use mio::{Poll, Token, Waker};
use pooling::config::{Config, Shutdown};
use pooling::derive::{Queue, Secrets};
use pooling::io::{Listening, Wake};
use pooling::log::{Level, event};
use pooling::model::keys::WorkerId;
use pooling::shared::{Ending, Mailbox, Message, Shared, Wakers};
use pooling::sync::lock;
use pooling::{info, pause, warning};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

mod command;
mod init;

/// The exit status for a command line that is not understood, as that of clap.
const MISUSED: u8 = 2;

fn main() -> ExitCode {
    if let Some(error) = command::misspelt(std::env::args_os().nth(1).as_deref()) {
        eprintln!("howdah-pooler: {error}");
        return ExitCode::from(MISUSED);
    }
    let given = command::command().get_matches();
    if given.get_flag("quiet") {
        log::be_quiet();
    }
    if command::warnings_only(&given) {
        log::warn_only();
    }
    let outcome = match given.subcommand() {
        Some(("check", given)) => check(&command::path(given, "CONFIG")),
        Some(("init", given)) => init::init(&command::path(given, "FILE")),
        Some(("man", given)) => command::man(given),
        Some(("completions", given)) => command::completions(given),
        Some(_) => {
            print!("{}", files::reference_page());
            Ok(())
        }
        None => run(&command::path(&given, "CONFIG"), given.get_flag("reboot")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("howdah-pooler: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Looks at a configuration and says what it would do without.
fn check(path: &Path) -> Result<(), String> {
    let config = files::read(path).map_err(|error| error.to_string())?;
    for remark in &config.remarks {
        println!("{remark}");
    }
    let databases = counted(config.databases.len(), "database");
    let users = counted(config.passwords.len(), "user");
    let others = if config.fallback.is_some() { " and *" } else { "" };
    println!("{} is valid: {databases}{others}, {users}", path.display());
    Ok(())
}

fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Runs the pooler until it is told to end.
fn run(path: &Path, takes_over: bool) -> Result<(), String> {
    let config = files::read(path).map_err(|error| error.to_string())?;
    let settings = config.settings.clone();
    account::become_user(&settings.user)?;
    log::configure(&settings).map_err(text)?;
    for remark in &config.remarks {
        warning!("{}: {remark}", path.display());
    }
    if std::env::var("LISTEN_PID").is_ok_and(|pid| pid == std::process::id().to_string()) {
        warning!(
            "the sockets of a systemd .socket unit are not used: disable the unit, and set listen_addr and listen_port"
        );
    }
    open_many_files();
    let mut predecessor = if takes_over { Predecessor::find(&settings)? } else { None };
    if predecessor.is_some() && !config.has_databases() {
        return Err(format!("-R: {} has no databases, so it would close all clients", path.display()));
    }
    let mut inherited = predecessor.as_mut().map(|before| std::mem::take(&mut before.inherited)).unwrap_or_default();
    let about = |error: io::Error| format!("{}: {error}", path.display());
    let listeners = Listener::all(&settings, &mut inherited).map_err(about)?;
    let metrics = metrics::http::listen(&settings, &mut inherited).map_err(about)?;
    for address in inherited.unused() {
        warning!("-R: closed the socket on {address}, which {} does not list", path.display());
    }
    drop(inherited);
    let _pid = PidFile::write(&settings.pidfile)?;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let workers = if settings.workers > 0 { settings.workers } else { cores };
    let (shared, polls) = share(config, workers).map_err(text)?;
    if let Some(listener) = metrics {
        metrics::http::serve(listener, shared.clone()).map_err(text)?;
    }
    let signals = Signals::new([SIGHUP, SIGINT, SIGTERM, SIGQUIT, SIGUSR1, SIGUSR2]).map_err(text)?;
    let workers = start_threads(&shared, polls, listeners).map_err(text)?;
    info!(
        "howdah-pooler {} is up: {} workers, port {}",
        env!("CARGO_PKG_VERSION"),
        workers.len(),
        settings.listen_port
    );
    if let Some(before) = predecessor {
        take_over(before, &shared)?;
    }
    notify::tell(notify::READY);
    thread::spawn(move || obey_signals(signals, &shared));
    for worker in workers {
        match worker.join() {
            Ok(outcome) => outcome.map_err(text)?,
            Err(_) => return Err("a worker has failed; this is a bug".to_owned()),
        }
    }
    info!("howdah-pooler has ended");
    Ok(())
}

fn text(error: io::Error) -> String {
    error.to_string()
}

/// What the threads wait on. The others can wake a poll.
struct Polls {
    workers: Vec<Poll>,
    monitor: Poll,
    reader: Poll,
    replay_monitor: Poll,
    unhashed: Queue,
}

/// What all threads share, and what each of them waits on.
fn share(config: Config, workers: usize) -> io::Result<(Arc<Shared>, Polls)> {
    let woken_by = |token| {
        let poll = Poll::new()?;
        let waker: Box<dyn Wake> = Box::new(net::Waker(Waker::new(poll.registry(), token)?));
        io::Result::Ok((poll, waker))
    };
    let mut polls = Vec::new();
    let mut mailboxes = Vec::new();
    for _ in 0..workers {
        let (poll, waker) = woken_by(Token(3))?;
        mailboxes.push(Mailbox { messages: Mutex::new(Vec::new()), waker });
        polls.push(poll);
    }
    let (monitor, wakes_monitor) = woken_by(monitor::WAKER)?;
    let (reader, wakes_reader) = woken_by(catalog::WAKER)?;
    let (replay_monitor, wakes_asker) = woken_by(replay_monitor::WAKER)?;
    let wakers = Wakers { monitor: wakes_monitor, reader: wakes_reader, asker: wakes_asker };
    let (secrets, unhashed) = Secrets::new()?;
    let shared = Arc::new(Shared::new(config, mailboxes, secrets, wakers, Box::new(System), Instant::now()));
    Ok((shared, Polls { workers: polls, monitor, reader, replay_monitor, unhashed }))
}

/// Starts the threads: those beside the workers, then the workers, of which the first has the listening sockets.
fn start_threads(
    shared: &Arc<Shared>,
    polls: Polls,
    listeners: Vec<Box<dyn Listening>>,
) -> io::Result<Vec<JoinHandle<io::Result<()>>>> {
    watch::start(shared.clone())?;
    password_hasher::start(shared.clone(), polls.unhashed)?;
    monitor::spawn(shared.clone(), polls.monitor)?;
    catalog::spawn(shared.clone(), polls.reader)?;
    replay_monitor::spawn(shared.clone(), polls.replay_monitor)?;
    let mut listeners = Some(listeners);
    let start = |(number, poll)| {
        let shared = shared.clone();
        let listeners = listeners.take().unwrap_or_default();
        thread::Builder::new()
            .name(format!("worker {number}"))
            .spawn(move || Worker::new(WorkerId(number), shared, poll, listeners).and_then(Worker::run))
    };
    polls.workers.into_iter().enumerate().map(start).collect()
}

/// Does what signals ask for, for as long as the process lives.
fn obey_signals(mut signals: Signals, shared: &Arc<Shared>) {
    let mut ending = false;
    for signal in signals.forever() {
        match signal {
            // An error has been logged.
            SIGHUP => drop(reload::reload(shared, reload::Occasion::Order)),
            SIGUSR1 => pause::pause_all(shared, true),
            SIGUSR2 => pause::pause_all(shared, false),
            number => {
                // By an earlier signal, or by the console.
                let ends_already =
                    ending || shared.orders.ending.load(Ordering::Relaxed) && !shared.takeover.is_handed_over();
                let way = if ends_already { Ending::AtOnce } else { ordered(number, shared.config().settings.sigterm) };
                info!("shutting down {}", way.when());
                notify::tell(notify::STOPPING);
                ending = true;
                shared.tell_all(|| Message::Shutdown(way));
            }
        }
    }
}

/// Has the pooler that ran before let go of the sockets, which are served here; its clients follow, if it is still there.
fn take_over(mut before: Predecessor, shared: &Arc<Shared>) -> Result<(), String> {
    match before.release() {
        Ok(paths) => {
            // Requests to cancel what its clients do arrive here from now on.
            *lock(&shared.takeover.before) = paths;
            let done =
                format_args!("took over the listening sockets; the old pooler ends when its last client has left");
            event(Level::Log, None, "takeover", ("", ""), done);
            let shared = shared.clone();
            let adopts = move || adopt::adopt(before, &shared);
            thread::Builder::new().name("clients".to_owned()).spawn(adopts).map_err(text)?;
            Ok(())
        }
        Err(Failed::Refused(why)) => Err(format!("-R: the running pooler does not hand over its sockets: {why}")),
        Err(Failed::Gone(why)) => {
            warning!("-R: the pooler that had the sockets is gone: {why}");
            Ok(())
        }
    }
}

/// How a signal is to end the pooler.
fn ordered(signal: i32, sigterm: Shutdown) -> Ending {
    match (signal, sigterm) {
        (SIGINT, _) | (SIGTERM, Shutdown::WaitForServers) => Ending::Drain,
        (SIGTERM, Shutdown::WaitForClients) => Ending::WaitForClients,
        _ => Ending::AtOnce,
    }
}

/// Raises the limit of open files as far as the system lets anybody: a client is one, and so is a server connection.
fn open_many_files() {
    let most = getrlimit(Resource::Nofile).maximum;
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most }) {
        warning!("the limit of open files could not be raised: {error}");
    }
}

/// The file with the process id, as long as the pooler runs.
struct PidFile(PathBuf);

impl PidFile {
    fn write(path: &str) -> Result<Option<Self>, String> {
        if path.is_empty() {
            return Ok(None);
        }
        std::fs::write(path, format!("{}\n", std::process::id()))
            .map_err(|error| format!("cannot write {path}: {error}"))?;
        Ok(Some(Self(path.into())))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Another process may have taken over, and written its own.
        let own = std::fs::read_to_string(&self.0).is_ok_and(|text| text.trim() == std::process::id().to_string());
        if own {
            let _ = std::fs::remove_file(&self.0);
        }
    }
}

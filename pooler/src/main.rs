//! `howdah-pooler CONFIG` runs the pooler in the foreground; `command.rs` has the other commands.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread;

use howdah_pooler::catalog;
use howdah_pooler::config::{Config, Shutdown};
use howdah_pooler::derive::Secrets;
use howdah_pooler::listen::Listener;
use howdah_pooler::reactor::worker::Worker;
use howdah_pooler::shared::{Ending, Mailbox, Message, Shared};
use howdah_pooler::sync::lock;
use howdah_pooler::takeover::{Failed, Predecessor};
use howdah_pooler::{
    account, deriver, info, log, metrics, monitor, notify, pause, reload, replay, succession, warning, watch,
};
use pooling::keys::WorkerId;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

mod command;
mod init;
mod top;

fn main() -> ExitCode {
    let given = command::command().get_matches();
    if given.get_flag("quiet") {
        log::be_quiet();
    }
    let outcome = match given.subcommand() {
        Some(("check", given)) => check(&command::path(given, "CONFIG")),
        Some(("init", given)) => init::init(&command::path(given, "FILE")),
        Some(("top", given)) => {
            top::top(&command::path(given, "CONFIG"), command::interval(given), given.get_flag("once"))
        }
        Some(("man", _)) => command::man(),
        Some(("completions", given)) => command::completions(given),
        Some(_) => {
            print!("{}", howdah_pooler::config::reference_page());
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
    let config = Config::read(path).map_err(|error| error.to_string())?;
    for remark in &config.remarks {
        println!("{remark}");
    }
    println!("{} is good: {} databases, {} users", path.display(), config.databases.len(), config.passwords.len());
    Ok(())
}

fn run(path: &Path, takes_over: bool) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    let config = Config::read(path).map_err(|error| error.to_string())?;
    let settings = config.settings.clone();
    account::become_user(&settings.user)?;
    log::configure(&settings).map_err(text)?;
    for remark in &config.remarks {
        warning!("{}: {remark}", path.display());
    }
    open_many_files();
    let mut predecessor = if takes_over { Predecessor::find(&settings)? } else { None };
    let mut inherited = predecessor.as_mut().map(|before| std::mem::take(&mut before.inherited)).unwrap_or_default();
    let about = |error: std::io::Error| format!("{}: {error}", path.display());
    let listeners = Listener::all(&settings, &mut inherited).map_err(about)?;
    let metrics = metrics::http::listen(&settings, &mut inherited).map_err(about)?;
    for address in inherited.unused() {
        warning!("-R: nobody listens on {address} any more: {} does not ask for it", path.display());
    }
    drop(inherited);
    let _pid = PidFile::write(&settings.pidfile)?;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let workers = if settings.workers > 0 { settings.workers } else { cores };
    let mut polls = Vec::new();
    let mut mailboxes = Vec::new();
    for _ in 0..workers {
        let poll = mio::Poll::new().map_err(text)?;
        let waker = mio::Waker::new(poll.registry(), mio::Token(3)).map_err(text)?;
        mailboxes.push(Mailbox { messages: Mutex::new(Vec::new()), waker });
        polls.push(poll);
    }
    let monitor_poll = mio::Poll::new().map_err(text)?;
    let waker = mio::Waker::new(monitor_poll.registry(), monitor::WAKER).map_err(text)?;
    let (secrets, underived) = Secrets::new().map_err(text)?;
    let reader_poll = mio::Poll::new().map_err(text)?;
    let bell = mio::Waker::new(reader_poll.registry(), catalog::WAKER).map_err(text)?;
    let asker_poll = mio::Poll::new().map_err(text)?;
    let asker = mio::Waker::new(asker_poll.registry(), replay::WAKER).map_err(text)?;
    let shared = Arc::new(Shared::new(config, mailboxes, secrets, waker, bell, asker));
    if let Some(listener) = metrics {
        metrics::http::serve(listener, shared.clone()).map_err(text)?;
    }
    watch::start(shared.clone()).map_err(text)?;
    deriver::start(shared.clone(), underived).map_err(text)?;
    monitor::spawn(shared.clone(), monitor_poll).map_err(text)?;
    catalog::spawn(shared.clone(), reader_poll).map_err(text)?;
    replay::spawn(shared.clone(), asker_poll).map_err(text)?;
    let mut signals =
        signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM, SIGQUIT, SIGUSR1, SIGUSR2]).map_err(text)?;
    let mut listeners = Some(listeners);
    let mut threads = Vec::new();
    for (number, poll) in polls.into_iter().enumerate() {
        let shared = shared.clone();
        let listeners = listeners.take().unwrap_or_default();
        let thread = thread::Builder::new()
            .name(format!("worker {number}"))
            .spawn(move || Worker::new(WorkerId(number), shared, poll, listeners).and_then(Worker::run));
        threads.push(thread.map_err(text)?);
    }
    info!("howdah-pooler {} is up: {workers} workers, port {}", env!("CARGO_PKG_VERSION"), settings.listen_port);
    if let Some(mut before) = predecessor
        && take_over(&mut before, &shared)?
    {
        let shared = shared.clone();
        let adopts = move || succession::adopt::adopt(before, &shared);
        thread::Builder::new().name("clients".to_owned()).spawn(adopts).map_err(text)?;
    }
    notify::tell(notify::READY);
    let watched = shared.clone();
    thread::spawn(move || {
        let mut ending = false;
        for signal in signals.forever() {
            match signal {
                // An error has been logged.
                SIGHUP => drop(reload::reload(&watched)),
                SIGUSR1 => pause::pause_all(&watched, true),
                SIGUSR2 => pause::pause_all(&watched, false),
                number => {
                    // By an earlier signal, or by the console.
                    let ends_already =
                        ending || watched.orders.ending.load(Ordering::Relaxed) && !watched.succession.is_handed_over();
                    let way =
                        if ends_already { Ending::AtOnce } else { ordered(number, watched.config().settings.sigterm) };
                    info!("ending {}", way.when());
                    notify::tell(notify::STOPPING);
                    ending = true;
                    watched.tell_all(|| Message::Shutdown(way));
                }
            }
        }
    });
    for thread in threads {
        match thread.join() {
            Ok(outcome) => outcome.map_err(text)?,
            Err(_) => return Err("a worker has failed; this is a bug".to_owned()),
        }
    }
    info!("the end");
    Ok(())
}

/// Has the pooler that ran before let go of the sockets, which are served here; whether it is still there.
fn take_over(before: &mut Predecessor, shared: &Shared) -> Result<bool, String> {
    match before.release() {
        // Requests to cancel what its clients do arrive here from now on.
        Ok(paths) => {
            *lock(&shared.succession.before) = paths;
            info!("the sockets were taken over; the pooler that had them ends when its clients have left");
            return Ok(true);
        }
        Err(Failed::Refused(why)) => {
            return Err(format!("-R: the running pooler does not let go of its sockets: {why}"));
        }
        Err(Failed::Gone(why)) => warning!("-R: the pooler that had the sockets is gone: {why}"),
    }
    Ok(false)
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

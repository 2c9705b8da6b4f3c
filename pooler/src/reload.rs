//! Reading the configuration again: by SIGHUP, by RELOAD, and when its files change.
//!
//! A file may be empty or half written: after a crash, on a full disk, while an editor or `scp` writes it. What such a
//! file says must not take anything away from clients. So what leaves no database, or nobody who can log in, is an error
//! whoever asks. A configuration that lacks a database which clients use is an error when nobody asked for it
//! ([`Occasion::Change`]), and when the file has been written just before: asked once more, the pooler takes it.

use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::files;
use crate::notify;
use pooling::config::Config;
use pooling::config::value::AuthType;
use pooling::hba::Hba;
use pooling::log::{Level, event};
use pooling::shared::{Message, Shared};
use pooling::sync::lock;

/// The time since its last change after which a file counts as whole.
const WHOLE: Duration = Duration::from_secs(1);

/// Why the configuration is read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occasion {
    /// Somebody asked for it.
    Order,
    /// Its files have changed.
    Change,
}

/// Reads the configuration again and puts it in force everywhere; an error leaves the old one.
pub fn reload(shared: &Shared, occasion: Occasion) -> Result<(), String> {
    notify::tell(notify::RELOADING);
    let outcome = read_again(shared, occasion);
    notify::tell(notify::READY);
    outcome
}

fn read_again(shared: &Shared, occasion: Occasion) -> Result<(), String> {
    let mut outcome = lock(&shared.orders.reloads);
    let old = shared.config();
    let path = &old.path;
    let read = files::read(path).map_err(|error| error.to_string()).and_then(|config| {
        lost(shared, &old, &config, occasion).map_or(Ok(config), |lost| Err(format!("{}: {lost}", path.display())))
    });
    let mut config = match read {
        Ok(config) => config,
        Err(trouble) => {
            let text =
                format_args!("the configuration could not be read again, so the old one stays in force: {trouble}");
            event(Level::Warning, None, "refused reload", ("", ""), text);
            outcome.failed += 1;
            outcome.trouble = Some(trouble.clone());
            return Err(trouble);
        }
    };
    for remark in &config.remarks {
        pooling::warning!("{}: {remark}", path.display());
    }
    for name in config.settings.keep_fixed(&old.settings) {
        pooling::warning!(
            "{}: {name} cannot be changed while the pooler runs; the old value stays in force",
            path.display()
        );
    }
    shared.adopt(config);
    // What SET has given lasts until here.
    lock(&shared.orders.waiting_settings).clear();
    outcome.good += 1;
    outcome.trouble = None;
    // Tools that move the log away ask for a reload next.
    if let Err(error) = crate::log::configure(&shared.config().settings) {
        pooling::warning!("cannot open the log again: {error}");
    }
    shared.board.reload();
    shared.tell_all(|| Message::Reload);
    event(Level::Log, None, "reload", ("", ""), format_args!("{} was read again", path.display()));
    Ok(())
}

/// What a configuration would take away from clients, if it may not be taken for that.
fn lost(shared: &Shared, old: &Config, new: &Config, occasion: Occasion) -> Option<String> {
    if old.has_databases() && !new.has_databases() {
        return Some("it has no databases any more".to_owned());
    }
    if files::nobody_can_log_in(new) && !files::nobody_can_log_in(old) {
        return Some(
            "no user could log in any more: there is no password (auth_file, or [users.NAME] in a howdah.toml), and no \
             auth_user that looks passwords up"
                .to_owned(),
        );
    }
    if new.settings.auth_type == AuthType::Hba && *new.hba == Hba::default() && *old.hba != Hba::default() {
        return Some(format!("no user could log in any more: auth_hba_file = {} is empty", new.settings.auth_hba_file));
    }
    let deserted = shared.assignment.deserted(old, new);
    if deserted.is_empty() || occasion == Occasion::Order && is_whole(new) {
        return None;
    }
    let counted = |(name, clients): (&String, &usize)| match clients {
        1 => format!("{name} (1 client)"),
        _ => format!("{name} ({clients} clients)"),
    };
    let names: Vec<String> = deserted.iter().map(counted).collect();
    let hint = match occasion {
        Occasion::Change => "RELOAD or SIGHUP removes them",
        Occasion::Order => "the file was changed within the last second; RELOAD or SIGHUP once more removes them",
    };
    Some(format!("databases that clients use are not in it any more: {}; {hint}", names.join(", ")))
}

/// Whether no file of a configuration has been written just before.
fn is_whole(config: &Config) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    config.files.iter().all(|path| {
        let changed = std::fs::metadata(path).ok().and_then(|metadata| {
            let (seconds, nanos) = (metadata.ctime(), metadata.ctime_nsec());
            Some(Duration::new(seconds.try_into().ok()?, nanos.try_into().ok()?))
        });
        // A clock that was set back proves nothing.
        changed.is_none_or(|changed| now.checked_sub(changed).is_none_or(|age| age >= WHOLE))
    })
}

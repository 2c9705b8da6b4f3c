//! Reading the configuration again: by SIGHUP, by RELOAD, and when its files change.

use crate::files;
use crate::notify;
use pooling::shared::{Message, Shared};
use pooling::sync::lock;

/// Reads the configuration again and puts it in force everywhere; an error leaves the old one.
pub fn reload(shared: &Shared) -> Result<(), String> {
    notify::tell(notify::RELOADING);
    let outcome = read_again(shared);
    notify::tell(notify::READY);
    outcome
}

fn read_again(shared: &Shared) -> Result<(), String> {
    let mut outcome = lock(&shared.orders.reloads);
    let old = shared.config();
    let path = &old.path;
    let mut config = match files::read(path) {
        Ok(config) => config,
        Err(error) => {
            let trouble = error.to_string();
            pooling::warning!("the configuration could not be read again, so the old one stays in force: {trouble}");
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
    pooling::info!("{} was read again", path.display());
    Ok(())
}

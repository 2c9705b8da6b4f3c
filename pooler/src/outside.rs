//! The services that workers leave to other threads and to the system.

use std::io;
use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pooling::model::keys::{ClientKey, WorkerId};
use wire::startup::CancelKey;

use crate::listen::Listener;
use crate::{files, reload, takeover};
use pooling::config::{Config, Settings};
use pooling::io::Listening;
use pooling::shared::{Message, Outside, Shared};

/// The system that the pooler runs on.
#[derive(Debug)]
pub struct System;

impl Outside for System {
    fn date(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    fn look_up(&self, shared: &Arc<Shared>, host: &str) {
        let (asker, name) = (shared.clone(), host.to_owned());
        let run = move || {
            let settings = asker.config().settings.clone();
            // PostgreSQL's port is not asked for: a name of a service does not matter here.
            let found = (name.as_str(), 0).to_socket_addrs().map(|found| found.map(|address| address.ip()).collect());
            let changed = asker.resolver.learn(&name, found, &settings, Instant::now());
            asker.tell_all(|| Message::Resolved(name.clone(), changed));
        };
        // Where no thread can be had, the next one to ask tries again.
        if thread::Builder::new().name("resolver".to_owned()).spawn(run).is_err() {
            shared.resolver.give_up(host);
        }
    }

    fn prepare(&self, config: &mut Config) -> Result<(), String> {
        files::prepare(config)
    }

    fn reload(&self, shared: &Shared) -> Result<(), String> {
        reload::reload(shared, reload::Occasion::Order)
    }

    fn pass_on(&self, shared: &Arc<Shared>, cancel: &CancelKey, asker: (WorkerId, ClientKey)) -> bool {
        takeover::pass_on(shared, cancel, asker)
    }

    fn listen_apart(&self, settings: &Settings) -> io::Result<Option<Box<dyn Listening>>> {
        let own = takeover::own_path(settings).map(Listener::own).transpose()?;
        Ok(own.map(|own| Box::new(own) as Box<dyn Listening>))
    }
}

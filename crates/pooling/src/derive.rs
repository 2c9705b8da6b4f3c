//! The derivation of SCRAM secrets from passwords, on a thread of its own: its thousands of rounds take a millisecond
//! or more, in which a worker could serve no client, and unauthenticated clients can cause it as often as they like.
//!
//! The secrets of passwords in the configuration are derived once, when the configuration is read, and kept. Until then
//! a login by such a user gets its secret ahead of the others. A login by a user that does not exist causes a
//! derivation too, so its duration does not tell that there is no such user.

use std::collections::HashMap;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, Weak};

use crate::model::keys::{ClientKey, WorkerId};
use wire::scram::Secret;

use crate::config::{AuthType, Config};
use crate::password::{Stored, Usual};
use crate::sync::lock;

/// A password whose secret a client waits for.
pub struct Job {
    /// The password.
    pub password: Vec<u8>,
    /// The salt.
    pub salt: Vec<u8>,
    /// The rounds.
    pub iterations: u32,
    /// The worker that gets the secret.
    pub worker: WorkerId,
    /// The client that waits.
    pub client: ClientKey,
    /// Held by the client as long as it waits: no secret is derived for a client that has left.
    pub awaited: Weak<()>,
}

/// The work of the deriving thread.
pub enum Work {
    /// Derives the secrets of these passwords in the background.
    Load(Batch),
    /// Derives the secret of this one next.
    Job(Job),
}

/// Passwords of a configuration, by user.
#[derive(Default)]
pub struct Batch {
    /// The number of the configuration, in order.
    pub number: u64,
    /// The rounds.
    pub iterations: u32,
    /// The passwords by user.
    pub passwords: Vec<(String, String)>,
}

/// The secrets of plain passwords.
#[derive(Debug)]
pub struct Secrets {
    work: Mutex<Sender<Work>>,
    /// Makes the salts of users that have no stored secret, known or not.
    seed: [u8; 32],
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    usual: Usual,
    /// Secrets with the passwords that they were derived from, by user.
    secrets: HashMap<String, (String, Arc<Secret>)>,
    /// The rounds of these.
    iterations: u32,
    /// The batch that was ordered last, and the one that was finished last.
    ordered: u64,
    finished: u64,
}

/// The work that is queued for the thread.
pub struct Queue(pub Receiver<Work>);

impl Secrets {
    /// No secrets yet, and the queue for the thread that derives them.
    pub fn new() -> io::Result<(Self, Queue)> {
        let (sender, receiver) = channel();
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| io::Error::other(error.to_string()))?;
        Ok((Self { work: Mutex::new(sender), seed, table: Mutex::default() }, Queue(receiver)))
    }

    /// Takes the passwords of a configuration over.
    pub fn load(&self, config: &Config) {
        let settings = &config.settings;
        let mut table = lock(&self.table);
        // If passwords are looked up, the passwords in the file say nothing about most users.
        if settings.auth_user.is_empty() {
            table.usual = Usual::of(config.passwords.values());
        }
        table.iterations = table.usual.iterations;
        let iterations = table.iterations;
        table.secrets.retain(|user, (password, secret)| {
            config.passwords.get(user) == Some(password) && secret.iterations == iterations
        });
        let by_scram = matches!(settings.auth_type, AuthType::Scram | AuthType::Hba);
        let due = config.passwords.iter().filter(|(user, text)| {
            by_scram && !table.secrets.contains_key(*user) && matches!(Stored::read(text), Stored::Plain(_))
        });
        let passwords = due.map(|(user, text)| (user.clone(), text.clone())).collect();
        table.ordered += 1;
        let batch = Batch { number: table.ordered, iterations, passwords };
        drop(table);
        self.send(Work::Load(batch));
    }

    fn send(&self, work: Work) {
        // The thread ends with the process.
        let _ = lock(&self.work).send(work);
    }

    /// Has a secret derived for a client.
    pub fn derive(&self, job: Job) {
        self.send(Work::Job(job));
    }

    /// The usual form of stored passwords.
    pub fn usual(&self) -> Usual {
        lock(&self.table).usual
    }

    /// Notes the form in which a password that was looked up is stored.
    pub fn saw(&self, stored: &Stored) {
        let mut table = lock(&self.table);
        table.usual = table.usual.seen(stored);
    }

    /// The salt of a user for whom none is stored.
    pub fn salt(&self, user: &str) -> [u8; 16] {
        wire::scram::mock_salt(&self.seed, user.as_bytes())
    }

    /// The rounds of a plain password's secret.
    pub fn iterations(&self) -> u32 {
        lock(&self.table).iterations
    }

    /// A secret without a password, for a user that does not exist.
    pub fn mock(&self, user: &str) -> Secret {
        Secret::mock(&self.seed, user, self.usual().iterations)
    }

    /// The secret of a user's plain password, if it was derived.
    pub fn get(&self, user: &str, password: &str) -> Option<Arc<Secret>> {
        let table = lock(&self.table);
        table.secrets.get(user).filter(|(of, _)| of == password).map(|(_, secret)| secret.clone())
    }

    /// Whether all secrets were derived that are to be kept.
    pub fn are_complete(&self) -> bool {
        let table = lock(&self.table);
        table.ordered == table.finished
    }

    /// Keeps the secret of a password.
    pub fn keep(&self, user: String, password: String, secret: Secret) {
        lock(&self.table).secrets.insert(user, (password, Arc::new(secret)));
    }

    /// Notes that a batch is done.
    pub fn finish(&self, batch: u64) {
        lock(&self.table).finished = batch;
    }
}

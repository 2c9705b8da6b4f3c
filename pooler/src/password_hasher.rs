use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::{io, thread};

use wire::scram::Secret;

use pooling::derive::{Batch, Job, Queue, Work};
use pooling::shared::{Message, Shared};

/// Starts the thread.
pub fn start(shared: Arc<Shared>, queue: Queue) -> io::Result<()> {
    shared.secrets.load(&shared.config());
    thread::Builder::new().name("secrets".to_owned()).spawn(move || run(&shared, &queue.0)).map(drop)
}

/// Derives what is asked for, until nobody can ask any more.
pub fn run(shared: &Shared, queue: &Receiver<Work>) {
    let secrets = &shared.secrets;
    let mut batch = Batch::default();
    loop {
        let waits = batch.passwords.is_empty();
        match if waits { queue.recv().map_err(|_| TryRecvError::Disconnected) } else { queue.try_recv() } {
            Ok(Work::Load(next)) => batch = next,
            Ok(Work::Job(job)) => derive(job, shared),
            Err(TryRecvError::Empty) => {
                if let Some((user, password)) = batch.passwords.pop() {
                    let secret = Secret::derive(password.as_bytes(), &secrets.salt(&user), batch.iterations);
                    secrets.keep(user, password, secret);
                }
            }
            Err(TryRecvError::Disconnected) => return,
        }
        if batch.passwords.is_empty() {
            secrets.finish(batch.number);
        }
    }
}

fn derive(job: Job, shared: &Shared) {
    if job.awaited.strong_count() > 0 {
        let secret = Secret::derive(&job.password, &job.salt, job.iterations);
        shared.tell(job.worker, Message::Derived(job.client, Box::new(secret)));
    }
}

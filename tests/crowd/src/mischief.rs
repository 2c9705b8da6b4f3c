//! What befalls the server while the crowd is at it: processes end, roles go, functions become something else.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::admin::{Admin, SUPERUSER};
use crate::crowd::Shared;
use crate::dice::Dice;
use crate::settings::USERS;
use crate::world::DATABASE;

/// The role that clients may take on now and that will be dropped.
#[derive(Debug, Default)]
pub struct Doomed(Mutex<Option<String>>);

impl Doomed {
    /// Its name.
    pub fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, name: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = name;
    }
}

/// How often a role comes and an older one goes.
const ROLE_LIFE: Duration = Duration::from_millis(700);
/// How often a function becomes something else.
const SHIFT: Duration = Duration::from_millis(400);

/// Does mischief until the run ends. Returns how many processes were ended and killed.
pub fn run(shared: &Shared) -> (u64, u64) {
    let mut mischief = Mischief::new(shared);
    while !shared.stop.load(Ordering::Relaxed) {
        // What fails while the server recovers is tried again.
        if mischief.turn().is_err() {
            mischief.admin = None;
        }
        thread::sleep(Duration::from_millis(10));
    }
    (mischief.ended, mischief.killed)
}

struct Mischief<'a> {
    shared: &'a Shared,
    admin: Option<Admin>,
    dice: Dice,
    kill: Instant,
    crash: Instant,
    role: Instant,
    shift: Instant,
    roles: usize,
    writes: bool,
    ended: u64,
    killed: u64,
}

impl<'a> Mischief<'a> {
    fn new(shared: &'a Shared) -> Self {
        let mut dice = Dice::new(shared.options.seed, u64::MAX / 4);
        let kill = later(&mut dice, shared.options.kills);
        let crash = later(&mut dice, shared.options.crashes);
        let now = Instant::now();
        Self {
            shared,
            admin: None,
            dice,
            kill,
            crash,
            role: now,
            shift: now,
            roles: 0,
            writes: false,
            ended: 0,
            killed: 0,
        }
    }

    fn turn(&mut self) -> Result<(), String> {
        let now = Instant::now();
        let options = &self.shared.options;
        if options.with("doomed") && now > self.role {
            self.role = now + ROLE_LIFE;
            self.roles += 1;
            self.exchange_roles()?;
        }
        if options.with("shifts") && now > self.shift {
            self.shift = now + SHIFT;
            self.writes = !self.writes;
            let sql = shifty(self.writes);
            self.admin()?.ask(&sql)?;
        }
        if now > self.kill {
            self.kill = later(&mut self.dice, options.kills);
            let sql = victim("pg_terminate_backend(pid)");
            self.ended += self.admin()?.ask(&sql)?.len() as u64;
        }
        if now > self.crash {
            self.crash = later(&mut self.dice, options.crashes);
            for row in self.admin()?.ask(&victim("pid"))? {
                let done = Command::new("kill").args(["-KILL", &row[0]]).status();
                self.killed += u64::from(done.is_ok_and(|status| status.success()));
            }
        }
        Ok(())
    }

    fn admin(&mut self) -> Result<&mut Admin, String> {
        let server: SocketAddr = self.shared.options.server;
        let admin = match self.admin.take() {
            Some(admin) => admin,
            None => Admin::connect(server, DATABASE, SUPERUSER)?,
        };
        Ok(self.admin.insert(admin))
    }

    fn exchange_roles(&mut self) -> Result<(), String> {
        let (new, old) = (format!("doomed_{}", self.roles), self.roles.checked_sub(2).map(|n| format!("doomed_{n}")));
        let admin = self.admin()?;
        admin.ask(&format!("CREATE ROLE {new}; GRANT {new} TO {}", USERS[0]))?;
        self.shared.doomed.set(Some(new));
        if let Some(old) = old {
            self.admin()?.ask(&format!("DROP ROLE IF EXISTS {old}"))?;
        }
        Ok(())
    }
}

/// When something that happens every so many seconds on average happens next; never when that is 0.
fn later(dice: &mut Dice, seconds: f64) -> Instant {
    let mean = if seconds > 0.0 { seconds } else { 1e9 };
    Instant::now() + Duration::from_secs_f64(mean * dice.between(100, 1900) as f64 / 1000.0)
}

fn victim(what: &str) -> String {
    format!(
        "SELECT {what} FROM pg_stat_activity WHERE datname = '{DATABASE}' AND usename IN ('{}', '{}') \
         AND backend_type = 'client backend' ORDER BY random() LIMIT 1",
        USERS[0], USERS[1]
    )
}

/// A function that reads, and then is one that writes.
pub fn shifty(writes: bool) -> String {
    let (volatility, body) = if writes {
        ("VOLATILE", "INSERT INTO public.ledger (k, tag) VALUES (key, key::text); RETURN 'wrote';")
    } else {
        ("STABLE", "RETURN 'read';")
    };
    format!(
        "CREATE OR REPLACE FUNCTION tools.shifty(key bigint) RETURNS text {volatility} LANGUAGE plpgsql AS \
         $$ BEGIN {body} END $$"
    )
}

//! What the command line says.

use std::net::{SocketAddr, ToSocketAddrs};

/// How the program is used.
pub const USAGE: &str = "\
usage: crowd --server HOST:PORT (--pooler HOST:PORT | --direct) [options]

A crowd of clients, each beside a model of its session, in a database `crowd` that is made anew on the server.
The server lets in everybody from here without a password.

  --server HOST:PORT   the PostgreSQL server itself: prepared, watched and read in the end
  --pooler HOST:PORT   where the clients go
  --direct             the clients go straight to the server
  --proxy PORT         also be a proxy to the server on this port of 127.0.0.1, which joins, splits and delays
  --delay MS           by how much the proxy delays at most (50)
  --clients N          how many clients (200)
  --threads N          on how many threads (1)
  --seconds S          for how long (60)
  --units N            or until so many units were answered
  --seed N             the seed of all chance (of the clock)
  --tls FILE           clients speak TLS; the authorities that they trust, in PEM
  --kills S            end a server process every S seconds on average
  --crashes S          kill one with SIGKILL every S seconds on average
  --lull S             now and then everybody is idle for so many seconds
  --patience S         a unit that is not answered in this time is taken for lost (30)
  --without A,B        leave out what some clients do: cancels, timeouts, leaves, sets, roles, authorizations, pins,
                       copies, slow, failures, vague, doomed, shifts, names, readonly, parsing,
                       startup, greetings (not checked)
  --survey N           go on until so many violations were seen (1)
";

/// What the command line says.
#[derive(Debug, Clone)]
pub struct Options {
    pub server: SocketAddr,
    pub pooler: Option<SocketAddr>,
    pub proxy: Option<u16>,
    pub delay: u64,
    pub clients: usize,
    pub threads: usize,
    pub seconds: f64,
    pub units: u64,
    pub seed: u64,
    pub tls: Option<String>,
    pub kills: f64,
    pub crashes: f64,
    pub lull: f64,
    pub patience: f64,
    pub without: Vec<String>,
    pub survey: usize,
}

impl Options {
    /// Reads the arguments; an error says what is wrong with them.
    pub fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let (mut server, mut direct) = (None, false);
        let mut options = Self {
            server: SocketAddr::from(([127, 0, 0, 1], 5432)),
            pooler: None,
            proxy: None,
            delay: 50,
            clients: 200,
            threads: 1,
            seconds: 60.0,
            units: u64::MAX,
            seed: clock(),
            tls: None,
            kills: 0.0,
            crashes: 0.0,
            lull: 0.0,
            patience: 30.0,
            without: Vec::new(),
            survey: 1,
        };
        while let Some(name) = arguments.next() {
            if name == "--direct" {
                direct = true;
                continue;
            }
            let value = arguments.next().ok_or_else(|| format!("{name} wants a value"))?;
            match name.as_str() {
                "--server" => server = Some(address(&value)?),
                "--pooler" => options.pooler = Some(address(&value)?),
                "--proxy" => options.proxy = Some(number(&name, &value)?),
                "--delay" => options.delay = number(&name, &value)?,
                "--clients" => options.clients = number(&name, &value)?,
                "--threads" => options.threads = number(&name, &value)?,
                "--seconds" => options.seconds = number(&name, &value)?,
                "--units" => options.units = number(&name, &value)?,
                "--seed" => options.seed = number(&name, &value)?,
                "--tls" => options.tls = Some(value),
                "--kills" => options.kills = number(&name, &value)?,
                "--crashes" => options.crashes = number(&name, &value)?,
                "--lull" => options.lull = number(&name, &value)?,
                "--patience" => options.patience = number(&name, &value)?,
                "--without" => options.without = value.split(',').map(str::to_owned).collect(),
                "--survey" => options.survey = number(&name, &value)?,
                _ => return Err(format!("there is no option {name}")),
            }
        }
        options.server = server.ok_or("--server is missing")?;
        if options.pooler.is_some() == direct {
            return Err("one of --pooler and --direct is needed".to_owned());
        }
        Ok(options)
    }

    /// Where the clients go.
    pub fn target(&self) -> SocketAddr {
        self.pooler.unwrap_or(self.server)
    }

    /// Whether the clients do this.
    pub fn with(&self, what: &str) -> bool {
        !self.without.iter().any(|name| name == what)
    }
}

fn clock() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(1, |since| u64::from(since.subsec_nanos()) ^ since.as_secs() << 20) % 1_000_000_000
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let found = text.to_socket_addrs().map_err(|error| format!("{text}: {error}"))?.next();
    found.ok_or_else(|| format!("{text} has no address"))
}

fn number<T: std::str::FromStr>(name: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{name} wants a number, not {text:?}"))
}

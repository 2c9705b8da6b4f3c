//! `howdah-pooler init`: three questions, and a configuration made of the answers.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, BufRead, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use howdah_pooler::files;
use pooling::config::is_console;

const POSTGRES_PORT: u16 = 5432;

/// Asks on the terminal, and writes the file, which must not be there yet.
pub fn init(path: &Path) -> Result<(), String> {
    let about = |error: io::Error| format!("{}: {error}", path.display());
    if path.extension().is_none_or(|ending| ending != "toml") {
        return Err(format!("{}: the file's name must end in .toml", path.display()));
    }
    if path.exists() {
        return Err(format!("{} exists already: give another name", path.display()));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(format!("{}: there is no folder {}", path.display(), folder.display()));
    }
    let answers = Answers::ask(&mut io::stdin().lock(), &mut io::stdout().lock())?;
    // Passwords are in it, and what has come there meanwhile is not written over.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(about)?;
    file.write_all(answers.configuration().as_bytes()).map_err(about)?;
    let config = files::read(path).map_err(|error| {
        // Nobody else has made it, and it is of no use.
        let _ = std::fs::remove_file(path);
        format!("with these answers the configuration would be invalid, so nothing was written: {error}")
    })?;
    let settings = &config.settings;
    println!(
        "\n{} is written. The file is valid; the servers were not asked. Start the pooler with\n\n    howdah-pooler {0}\n\nand connect clients with",
        path.display()
    );
    let database = if answers.database == "*" { "DATABASE" } else { &answers.database };
    println!("\n    psql -h 127.0.0.1 -p {} -U {} {database}", settings.listen_port, answers.user);
    Ok(())
}

/// What was answered.
#[derive(Debug, PartialEq, Eq)]
struct Answers {
    servers: Vec<(String, u16)>,
    database: String,
    user: String,
    password: String,
}

impl Answers {
    /// Asks the three questions, each until its answer can be used.
    fn ask(input: &mut impl BufRead, output: &mut impl Write) -> Result<Self, String> {
        let servers = question(
            input,
            output,
            "1. Which PostgreSQL servers? host or host:port; commas between a primary and its replicas",
            Some("localhost:5432"),
            servers,
        )?;
        let database = question(
            input,
            output,
            "2. Which database? * for every database that clients ask for",
            Some("*"),
            database,
        )?;
        let (user, password) = question(
            input,
            output,
            "3. Which user may log in, and with which password? user:password, as on the servers",
            None,
            user,
        )?;
        Ok(Self { servers, database, user, password })
    }

    /// The text of a `howdah.toml`.
    fn configuration(&self) -> String {
        let place = match self.servers.as_slice() {
            [(host, port)] => format!("host = {}\nport = {port}\n", quoted(host)),
            several => {
                several.iter().fold("servers = [\n".to_owned(), |mut text, (host, port)| {
                    // Writing to a string does not fail.
                    let _ = writeln!(text, "    {{ host = {}, port = {port} }},", quoted(host));
                    text
                }) + "]\n"
            }
        };
        format!(
            "# Written by `howdah-pooler init`. `howdah-pooler settings` prints every setting.\n\
             [pooler]\n\
             listen_addr = \"127.0.0.1\"\n\
             listen_port = 6432\n\
             \n\
             [databases.{}]\n\
             {place}\
             \n\
             [users.{}]\n\
             # Or a SCRAM secret (rolpassword of pg_authid), or \"${{NAME}}\" for an environment variable.\n\
             password = {}\n",
            quoted(&self.database),
            quoted(&self.user),
            // What looks like an environment variable is none.
            quoted(&self.password.replace("${", "$${")),
        )
    }
}

/// Asks until the answer can be read; the default is what an empty line means.
fn question<T>(
    input: &mut impl BufRead,
    output: &mut impl Write,
    text: &str,
    default: Option<&str>,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<T, String> {
    let fail = |error: io::Error| format!("cannot ask the questions or read the answers: {error}");
    loop {
        let shown = default.map(|default| format!(" [{default}]")).unwrap_or_default();
        write!(output, "{text}{shown}: ").and_then(|()| output.flush()).map_err(fail)?;
        let mut line = String::new();
        if input.read_line(&mut line).map_err(fail)? == 0 {
            return Err("the input ended before all questions were answered: nothing was written".to_owned());
        }
        let given = line.trim();
        let answer = if given.is_empty() { default.unwrap_or_default() } else { given };
        match read(answer) {
            Ok(answer) => return Ok(answer),
            Err(trouble) => writeln!(output, "   {trouble}").map_err(fail)?,
        }
    }
}

/// Hosts and ports with commas between them.
fn servers(text: &str) -> Result<Vec<(String, u16)>, String> {
    text.split(',').map(|item| server(item.trim())).collect()
}

/// A host, with or without a port; brackets around an IPv6 address with one. Of a URL these are taken, and no more.
fn server(text: &str) -> Result<(String, u16), String> {
    let text = match text.split_once("://") {
        Some(("postgres" | "postgresql", url)) => {
            let place = url.split_once(['/', '?']).map_or(url, |(place, _)| place);
            place.rsplit_once('@').map_or(place, |(_, place)| place)
        }
        _ => text,
    };
    let (host, port) = match (text.strip_prefix('[').and_then(|rest| rest.split_once(']')), text.matches(':').count()) {
        (Some((host, rest)), _) => (host, rest.strip_prefix(':')),
        (None, 1) => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        (None, _) => (text, None),
    };
    if host.is_empty() {
        return Err(format!("\"{text}\" names no host"));
    }
    let port = port.map_or(Ok(POSTGRES_PORT), str::parse).ok().filter(|port| *port > 0);
    let port = port.ok_or_else(|| format!("\"{text}\" has no valid port: expected 1 to 65535"))?;
    Ok((host.to_owned(), port))
}

/// A database, or the star.
fn database(text: &str) -> Result<String, String> {
    if is_console(text) {
        return Err(format!(
            "clients that ask for {text} get the pooler's console: choose another name, such as app, and add dbname = \"{text}\" to its entry"
        ));
    }
    Ok(text.to_owned())
}

/// A user and a password.
fn user(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((user, password)) if !user.is_empty() && !password.is_empty() => {
            Ok((user.to_owned(), password.to_owned()))
        }
        _ => Err("expected user:password, neither of them empty".to_owned()),
    }
}

/// A string of TOML on one line.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(control));
            }
            plain => quoted.push(plain),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(text: &str) -> Result<Answers, String> {
        Answers::ask(&mut text.as_bytes(), &mut Vec::new())
    }

    fn read(answers: &Answers, name: &str) -> pooling::config::Config {
        let path = std::env::temp_dir().join(format!("howdah-init-{}-{name}.toml", std::process::id()));
        std::fs::write(&path, answers.configuration()).unwrap();
        let config = files::read(&path);
        std::fs::remove_file(&path).unwrap();
        config.unwrap()
    }

    #[test]
    fn what_is_written_says_what_was_answered() {
        let given = answers("\n\nbob:a:b\"\\${HOME}\u{7f}'\n").unwrap();
        assert_eq!((given.servers.clone(), given.database.as_str()), (vec![("localhost".to_owned(), 5432)], "*"));
        let config = read(&given, "one");
        assert!(config.fallback.is_some());
        assert_eq!(config.passwords["bob"], "a:b\"\\${HOME}\u{7f}'");
        let several = answers("10.0.0.1, db2:6000 ,[::1]:7000,::2\nshop \"one\"\nbob:x\n").unwrap();
        let config = read(&several, "several");
        let servers: Vec<_> = config.databases["shop \"one\""].servers.iter().map(|server| server.port).collect();
        assert_eq!(servers, [5432, 6000, 7000, 5432]);
    }

    #[test]
    fn a_server_may_be_given_as_a_url() {
        for (text, host, port) in [
            ("postgres://bob@localhost/app", "localhost", 5432),
            ("postgresql://bob:s@cret@db1:6000?sslmode=require", "db1", 6000),
            ("postgres://[::1]:7000/app", "::1", 7000),
            ("/run/postgresql", "/run/postgresql", 5432),
        ] {
            assert_eq!(server(text), Ok((host.to_owned(), port)), "{text}");
        }
        assert!(server("mysql://bob@localhost/app").is_err());
        assert!(server("postgres:///app").is_err());
    }

    #[test]
    fn an_answer_that_cannot_be_used_is_asked_for_again() {
        let given = answers("a:0\na:b\n,\n:5\ndb\nhowdah\npgbouncer\napp\nbob\n:x\nbob:\n\nbob:x\n").unwrap();
        assert_eq!((given.servers, given.database.as_str()), (vec![("db".to_owned(), 5432)], "app"));
        assert_eq!((given.user.as_str(), given.password.as_str()), ("bob", "x"));
        assert!(answers("db\napp\n").unwrap_err().contains("ended before"));
    }
}

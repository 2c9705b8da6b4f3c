//! The command line, from which the man page and the completions of shells are made.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use clap_complete::Shell;
use howdah_pooler::files::nearest;

const SIGNALS: &str = "CONFIG is a howdah.toml, pgbouncer.ini or pgcat.toml.
Signals: SIGHUP reads CONFIG again; SIGINT ends the pooler when running statements and transactions are done; SIGTERM
ends it as the setting sigterm says; SIGQUIT, or a second SIGINT or SIGTERM, ends it at once; SIGUSR1 pauses all
databases; SIGUSR2 resumes them.";

/// The command line of the program.
pub fn command() -> Command {
    Command::new("howdah-pooler")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Connection pooler and load balancer for PostgreSQL")
        .after_help(SIGNALS)
        .args_conflicts_with_subcommands(true)
        .subcommand_negates_reqs(true)
        .disable_help_subcommand(true)
        .arg(config("Configuration to run with, in the foreground"))
        .arg(
            Arg::new("quiet")
                .short('q')
                .long("quiet")
                .action(ArgAction::SetTrue)
                .help("Write no log to the standard error, only to logfile and syslog"),
        )
        .arg(log_level())
        .arg(
            Arg::new("reboot")
                .short('R')
                .long("reboot")
                .alias("takeover")
                .action(ArgAction::SetTrue)
                .help("Take over the listening sockets and clients of the pooler that runs with CONFIG; the old pooler ends when its last client has left"),
        )
        .subcommand(
            Command::new("check")
                .about("Check a configuration, and name the settings that have no effect")
                .arg(config("Configuration to check")),
        )
        .subcommand(Command::new("init").about("Ask three questions and write a configuration").arg(
            Arg::new("FILE").default_value("howdah.toml").value_parser(value_parser!(PathBuf)).help("File to write"),
        ))
        .subcommand(Command::new("settings").about("Print the reference of the settings"))
        .subcommand(Command::new("man").about("Print the man page, as roff").arg(page()))
        .subcommand(
            Command::new("completions")
                .about("Print a shell's completions of this command line")
                .arg(Arg::new("SHELL").required(true).value_parser(value_parser!(Shell)).help("Shell")),
        )
}

/// The error for a first word that is no file and nearly a subcommand: taken for a configuration, it would be called one
/// that does not go with the words behind it, or that cannot be read.
pub fn misspelt(word: Option<&OsStr>) -> Option<String> {
    let word = word?.to_str().filter(|word| !word.starts_with('-') && !word.contains(['.', '/']))?;
    let described = command();
    let names = || described.get_subcommands().map(Command::get_name);
    if names().any(|name| name == word) || Path::new(word).exists() {
        return None;
    }
    let near = nearest(word, names())?;
    Some(format!("there is no subcommand {word}, and no file of that name: did you mean {near}?"))
}

fn log_level() -> Arg {
    Arg::new("log-level")
        .short('l')
        .long("log-level")
        .value_name("LEVEL")
        .ignore_case(true)
        .default_value("info")
        .value_parser(["error", "warn", "info", "debug", "trace"])
        .help("Log level, as in PgCat: error and warn write only warnings, the other levels write every line")
}

fn config(help: &'static str) -> Arg {
    Arg::new("CONFIG").required(true).value_parser(value_parser!(PathBuf)).help(help)
}

fn page() -> Arg {
    Arg::new("COMMAND").help("Print the man page of this command instead of the program's")
}

/// The path that was given under that name.
pub fn path(given: &ArgMatches, name: &str) -> PathBuf {
    given.get_one::<PathBuf>(name).cloned().unwrap_or_default()
}

/// Whether the log shall hold warnings only.
pub fn warnings_only(given: &ArgMatches) -> bool {
    let level = given.get_one::<String>("log-level").map(|level| level.to_lowercase());
    matches!(level.as_deref(), Some("error" | "warn"))
}

/// Prints the man page of the program, or of a command.
pub fn man(given: &ArgMatches) -> Result<(), String> {
    let mut described = command();
    described.build();
    if let Some(name) = given.get_one::<String>("COMMAND") {
        let found = described.find_subcommand(name).cloned();
        described = found.ok_or_else(|| format!("unknown command {name}: see howdah-pooler --help"))?;
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(described).render(&mut page).map_err(|error| error.to_string())?;
    print(&page)
}

/// Prints the completions of a shell.
pub fn completions(given: &ArgMatches) -> Result<(), String> {
    let Some(shell) = given.get_one::<Shell>("SHELL") else { return Ok(()) };
    let mut script = Vec::new();
    clap_complete::generate(*shell, &mut command(), "howdah-pooler", &mut script);
    print(&script)
}

fn print(content: &[u8]) -> Result<(), String> {
    std::io::stdout().write_all(content).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn the_subcommand_that_was_meant_is_named() {
        for (word, near) in [("chekc", "check"), ("inti", "init"), ("setting", "settings")] {
            let told = misspelt(Some(OsStr::new(word))).unwrap();
            assert!(told.ends_with(&format!("did you mean {near}?")), "{told}");
        }
        for word in ["check", "chekc.toml", "./chekc", "-q", "pgbouncer", "src"] {
            assert_eq!(misspelt(Some(OsStr::new(word))), None, "{word}");
        }
        assert_eq!(misspelt(None), None);
    }

    #[test]
    fn the_levels_of_pgcat_are_taken() {
        for (words, expected) in [
            (&["howdah-pooler", "a.toml"][..], false),
            (&["howdah-pooler", "a.toml", "--log-level", "warn"], true),
            (&["howdah-pooler", "-l", "ERROR", "a.toml"], true),
            (&["howdah-pooler", "a.toml", "--log-level=DEBUG"], false),
        ] {
            let given = command().try_get_matches_from(words).unwrap();
            assert_eq!((path(&given, "CONFIG"), warnings_only(&given)), ("a.toml".into(), expected));
        }
        assert!(command().try_get_matches_from(["howdah-pooler", "a.toml", "-l", "loud"]).is_err());
    }

    #[test]
    fn a_configuration_alone_is_run() {
        for words in [&["howdah-pooler", "-q", "a.toml"][..], &["howdah-pooler", "a.toml", "--quiet", "-R"]] {
            let given = command().try_get_matches_from(words).unwrap();
            assert_eq!((path(&given, "CONFIG"), given.get_flag("quiet")), ("a.toml".into(), true));
            assert!(given.subcommand().is_none());
        }
        assert!(command().try_get_matches_from(["howdah-pooler"]).is_err());
        assert!(command().try_get_matches_from(["howdah-pooler", "a.toml", "b.toml"]).is_err());
    }
}

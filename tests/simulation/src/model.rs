//! What a session of PostgreSQL has, as far as settings and transactions go: written from PostgreSQL's documentation, and
//! of nothing that the pooler is made of.

use std::collections::BTreeMap;

/// Values of parameters; one that has its default is not among them.
pub type Values = BTreeMap<String, String>;

/// Parameters that no RESET ALL touches.
const IDENTITY: [&str; 2] = ["session_authorization", "role"];

/// What a parameter is where nobody has set it.
pub fn default_of(name: &str) -> &'static str {
    match name {
        "timezone" => "gmt",
        "search_path" => "$user, public",
        "datestyle" => "ISO, MDY",
        "intervalstyle" => "postgres",
        "client_encoding" => "UTF8",
        "standard_conforming_strings" => "on",
        "default_transaction_read_only" => "off",
        "statement_timeout" | "lock_timeout" | "transaction_timeout" => "0",
        _ => "",
    }
}

/// The parameters that the server reports, as it writes their names.
pub const REPORTED: [&str; 7] = [
    "application_name",
    "client_encoding",
    "DateStyle",
    "IntervalStyle",
    "standard_conforming_strings",
    "TimeZone",
    "search_path",
];

/// The value of a parameter, as the server reports it.
pub fn reported(values: &Values, name: &str) -> String {
    let name = name.to_lowercase();
    let value = values.get(&name).map_or(default_of(&name), String::as_str);
    if name == "search_path" && value.contains('$') { value.replace("$user", "\"$user\"") } else { value.to_owned() }
}

/// Gives a parameter a value; `None` and its default are the same.
pub fn put(values: &mut Values, name: &str, value: Option<&str>) {
    match value.filter(|value| *value != default_of(name)) {
        Some(value) => values.insert(name.to_owned(), value.to_owned()),
        None => values.remove(name),
    };
}

/// A statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Set {
        name: String,
        value: Option<String>,
        local: bool,
    },
    ResetAll,
    Begin,
    Commit {
        chain: bool,
    },
    Rollback {
        chain: bool,
    },
    Savepoint(String),
    RollbackTo(String),
    Release(String),
    DiscardAll,
    DeallocateAll,
    /// A row with this value.
    Select(String),
    /// A row with the value of the first parameter.
    Echo,
    Insert(String),
    /// It fails when it runs.
    DivideByZero,
    /// What concerns no settings.
    Other(&'static str),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Text(String),
    Sign(char),
}

/// The statements of a text, and whose it is: clients of these tests sign what they say in a comment.
pub fn read(sql: &str) -> (Vec<Command>, Option<String>) {
    let (mut statements, mut tokens, mut signature) = (Vec::new(), Vec::new(), None);
    let mut left = sql;
    while let Some(first) = left.chars().next() {
        if let Some(rest) = left.strip_prefix("/*") {
            let (comment, rest) = rest.split_once("*/").expect("a comment ends");
            signature = Some(comment.to_owned());
            left = rest;
        } else if first == '\'' || left.starts_with("E'") {
            let escaped = first == 'E';
            let mut text = String::new();
            left = &left[if escaped { 2 } else { 1 }..];
            loop {
                let at = left.find(|c| c == '\'' || escaped && c == '\\').expect("a literal ends");
                text.push_str(&left[..at]);
                let doubled = left[at..].starts_with("''") || left[at..].starts_with("\\\\");
                left = &left[at + if doubled { 2 } else { 1 }..];
                if !doubled {
                    break;
                }
                text.push(if escaped { '\\' } else { '\'' });
            }
            tokens.push(Token::Text(text));
        } else if first.is_alphanumeric() || "_.$".contains(first) {
            let end = left.find(|c: char| !c.is_alphanumeric() && !"_.$".contains(c)).unwrap_or(left.len());
            tokens.push(Token::Word(left[..end].to_lowercase()));
            left = &left[end..];
        } else {
            match first {
                ';' => statements.push(std::mem::take(&mut tokens)),
                blank if blank.is_whitespace() => (),
                sign => tokens.push(Token::Sign(sign)),
            }
            left = &left[first.len_utf8()..];
        }
    }
    statements.push(tokens);
    (statements.iter().filter(|tokens| !tokens.is_empty()).map(|tokens| command(tokens)).collect(), signature)
}

fn command(tokens: &[Token]) -> Command {
    let words: Vec<&str> = tokens
        .iter()
        .filter_map(|token| if let Token::Word(word) = token { Some(word.as_str()) } else { None })
        .collect();
    let named = |word: Option<&&str>| (*word.expect("a name")).to_owned();
    let reset = |name: &str| Command::Set { name: name.to_owned(), value: None, local: false };
    match words.as_slice() {
        ["reset", "all"] => Command::ResetAll,
        ["reset", "session", "authorization"] => reset("session_authorization"),
        ["reset", name @ ..] => reset(&name.concat()),
        ["begin", ..] | ["start", ..] => Command::Begin,
        ["commit", rest @ ..] => Command::Commit { chain: rest.contains(&"chain") },
        ["rollback", "to", rest @ ..] => Command::RollbackTo(named(rest.last())),
        ["rollback", rest @ ..] => Command::Rollback { chain: rest.contains(&"chain") },
        ["savepoint", name] => Command::Savepoint((*name).to_owned()),
        ["release", rest @ ..] => Command::Release(named(rest.last())),
        ["discard", "all"] => Command::DiscardAll,
        ["deallocate", "all"] => Command::DeallocateAll,
        ["set", ..] => set(tokens),
        ["insert", ..] => Command::Insert(text(tokens)),
        ["select", rest @ ..] if tokens.contains(&Token::Sign('/')) && rest.len() == 2 => Command::DivideByZero,
        ["select", "$1"] => Command::Echo,
        ["select"] if tokens.len() == 2 => Command::Select(text(tokens)),
        ["close", ..] => Command::Other("CLOSE CURSOR ALL"),
        ["unlisten", ..] => Command::Other("UNLISTEN"),
        ["discard", "temp"] => Command::Other("DISCARD TEMP"),
        ["discard", "sequences"] => Command::Other("DISCARD SEQUENCES"),
        ["select", ..] => Command::Other("SELECT 1"),
        other => panic!("the model does not know {other:?}"),
    }
}

fn text(tokens: &[Token]) -> String {
    tokens
        .iter()
        .find_map(|token| if let Token::Text(text) = token { Some(text.clone()) } else { None })
        .expect("a text")
}

fn set(tokens: &[Token]) -> Command {
    let mut left = &tokens[1..];
    let is = |token: &Token, wanted: &str| matches!(token, Token::Word(word) if word == wanted);
    let mut local = false;
    if let [first, rest @ ..] = left
        && (is(first, "local") || is(first, "session") && !rest.first().is_some_and(|next| is(next, "authorization")))
    {
        local = is(first, "local");
        left = rest;
    }
    let name = match left {
        [first, second, rest @ ..] if is(first, "session") && is(second, "authorization") => {
            left = rest;
            "session_authorization".to_owned()
        }
        // The pooler writes `my . a`.
        [Token::Word(_), ..] => {
            let end = left.iter().position(|token| *token == Token::Sign('=') || is(token, "to"));
            let (name, rest) = left.split_at(end.unwrap_or(1));
            left = rest;
            name.iter()
                .filter_map(|token| if let Token::Word(part) = token { Some(part.as_str()) } else { None })
                .collect()
        }
        other => panic!("the model does not know SET {other:?}"),
    };
    if let [first, rest @ ..] = left
        && (*first == Token::Sign('=') || is(first, "to"))
    {
        left = rest;
    }
    let defaults = left.len() == 1 && (is(&left[0], "default") || name == "role" && is(&left[0], "none"));
    let values: Vec<&str> = left
        .iter()
        .filter_map(|token| match token {
            Token::Word(text) | Token::Text(text) => Some(text.as_str()),
            Token::Sign(_) => None,
        })
        .collect();
    Command::Set { name, value: (!defaults).then(|| values.join(", ")), local }
}

/// A session.
#[derive(Debug, Clone, Default)]
pub struct Session {
    /// What a RESET leads back to.
    pub base: Values,
    /// What is in force.
    pub current: Values,
    /// What is, once the transaction has committed.
    pub lasting: Values,
    /// What was when the transaction began; none outside of one.
    start: Option<(Values, Values)>,
    /// It was begun by BEGIN.
    pub explicit: bool,
    /// It has failed.
    pub failed: bool,
    savepoints: Vec<(String, (Values, Values))>,
}

impl Session {
    /// One that begins with these values.
    pub fn new(base: Values) -> Self {
        Self { current: base.clone(), lasting: base.clone(), base, ..Self::default() }
    }

    /// Whether a client could not tell one from the other.
    pub fn is_like(&self, other: &Self) -> bool {
        let without = |values: &Values| {
            let mut values = values.clone();
            // The pooler has reads run in read-only transactions.
            values.remove("default_transaction_read_only");
            values
        };
        // Nothing sees them in a transaction that has failed.
        if self.failed && other.failed {
            return true;
        }
        (self.explicit, self.failed) == (other.explicit, other.failed)
            && without(&self.current) == without(&other.current)
            && without(&self.lasting) == without(&other.lasting)
            && self.savepoints.iter().map(|(name, _)| name).eq(other.savepoints.iter().map(|(name, _)| name))
    }

    /// The letter of a ReadyForQuery.
    pub fn status(&self) -> u8 {
        if self.failed {
            b'E'
        } else if self.explicit {
            b'T'
        } else {
            b'I'
        }
    }

    fn values(&self) -> (Values, Values) {
        (self.current.clone(), self.lasting.clone())
    }

    fn end(&mut self, chain: bool) {
        self.start = chain.then(|| self.values());
        (self.explicit, self.failed) = (chain, false);
        self.savepoints.clear();
    }

    fn undo(&mut self, chain: bool) {
        if let Some((current, lasting)) = self.start.take() {
            (self.current, self.lasting) = (current, lasting);
        }
        self.end(chain);
    }

    /// An error has been met.
    pub fn fail(&mut self) {
        if !self.explicit {
            return self.undo(false);
        }
        let before = self.savepoints.last().map(|(_, values)| values).or(self.start.as_ref());
        if let Some((current, lasting)) = before.cloned() {
            (self.current, self.lasting) = (current, lasting);
        }
        self.failed = true;
    }

    /// A simple Query or a Sync ends what no BEGIN has begun.
    pub fn finish(&mut self) {
        if !self.explicit {
            self.current = self.lasting.clone();
            self.end(false);
        }
    }

    /// Runs a statement, which is `struck` by this error if at all: its tag, or an SQLSTATE.
    pub fn run(&mut self, command: &Command, struck: Option<&'static str>) -> Result<String, &'static str> {
        let outcome = self.work(command, struck);
        if outcome.is_err() && (self.start.is_some() || self.explicit) {
            self.fail();
        }
        outcome
    }

    fn work(&mut self, command: &Command, struck: Option<&'static str>) -> Result<String, &'static str> {
        let first = self.start.is_none();
        if first {
            self.start = Some(self.values());
        }
        let ends = matches!(command, Command::Commit { .. } | Command::Rollback { .. } | Command::RollbackTo(_));
        if self.failed && !ends {
            return Err("25P02");
        }
        if let Some(code) = struck {
            // A deferred constraint is looked at when all is over.
            if matches!(command, Command::Commit { .. }) && !self.failed && code == "23503" {
                self.undo(false);
            }
            return Err(code);
        }
        let tag = match command {
            Command::Set { name, value, local } => {
                self.set(name, value.as_deref(), *local);
                if value.is_none() { "RESET" } else { "SET" }
            }
            Command::ResetAll => {
                for values in [&mut self.current, &mut self.lasting] {
                    values.retain(|name, _| IDENTITY.contains(&name.as_str()));
                    let base = self.base.iter().filter(|(name, _)| !IDENTITY.contains(&name.as_str()));
                    values.extend(base.map(|(name, value)| (name.clone(), value.clone())));
                }
                "RESET"
            }
            Command::Begin => {
                self.explicit = true;
                "BEGIN"
            }
            Command::Commit { chain: true } | Command::Rollback { chain: true } if !self.explicit => {
                return Err("25P01");
            }
            Command::Commit { chain } if self.failed => {
                self.undo(*chain);
                "ROLLBACK"
            }
            Command::Commit { chain } => {
                self.current = self.lasting.clone();
                self.end(*chain);
                "COMMIT"
            }
            Command::Rollback { chain } => {
                self.undo(*chain);
                "ROLLBACK"
            }
            Command::Savepoint(_) | Command::RollbackTo(_) | Command::Release(_) if !self.explicit => {
                return Err("25P01");
            }
            Command::Savepoint(name) => {
                self.savepoints.push((name.clone(), self.values()));
                "SAVEPOINT"
            }
            Command::RollbackTo(name) => {
                let place = self.savepoints.iter().rposition(|(known, _)| known == name).ok_or("3B001")?;
                (self.current, self.lasting) = self.savepoints[place].1.clone();
                self.savepoints.truncate(place + 1);
                self.failed = false;
                "ROLLBACK"
            }
            Command::Release(name) => {
                let place = self.savepoints.iter().rposition(|(known, _)| known == name).ok_or("3B001")?;
                self.savepoints.truncate(place);
                "RELEASE"
            }
            Command::DiscardAll if !first || self.explicit => return Err("25001"),
            Command::DiscardAll => {
                (self.current, self.lasting) = (self.base.clone(), self.base.clone());
                self.end(false);
                "DISCARD ALL"
            }
            Command::Insert(_)
                if self.current.get("default_transaction_read_only").is_some_and(|value| value == "on") =>
            {
                return Err("25006");
            }
            Command::DeallocateAll => "DEALLOCATE ALL",
            Command::Insert(_) => "INSERT 0 1",
            Command::DivideByZero => return Err("22012"),
            Command::Select(_) | Command::Echo => "SELECT 1",
            Command::Other(tag) => tag,
        };
        Ok(tag.to_owned())
    }

    fn set(&mut self, name: &str, value: Option<&str>, local: bool) {
        let value = value.or_else(|| self.base.get(name).map(String::as_str)).map(str::to_owned);
        for values in [Some(&mut self.current), (!local).then_some(&mut self.lasting)].into_iter().flatten() {
            if name == "session_authorization" {
                values.remove("role");
            }
            put(values, name, value.as_deref());
        }
    }
}

//! The statements that clients and the pooler say, read from their texts.

/// What a statement does with the relation whose columns change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shifting {
    /// A row of it is read.
    Read,
    /// A row is written, and returned.
    Return,
    /// A row is written.
    Write,
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
    /// A row with the value of the first parameter, and this name of its column.
    Echo(String),
    Insert(String),
    /// It is prepared once, and run as a Select or an Insert.
    Shifting(Shifting),
    /// What the client sends behind it is written.
    CopyIn,
    /// Two lines, of which each is long if `long`.
    CopyOut {
        long: bool,
    },
    Listen(String),
    /// None: to nothing any more.
    Unlisten(Option<String>),
    Notify {
        channel: String,
        payload: String,
    },
    /// A row that says whether the server is a standby.
    IsStandby,
    /// It fails when it runs.
    DivideByZero,
    /// What concerns no settings.
    Other(&'static str),
}

impl Command {
    /// Whether a standby refuses it.
    pub fn writes(&self) -> bool {
        matches!(self, Self::Insert(_) | Self::CopyIn | Self::Listen(_) | Self::Unlisten(Some(_)) | Self::Notify { .. })
    }

    /// Whether what has been written shows in it.
    pub fn reads(&self) -> bool {
        matches!(self, Self::Select(_) | Self::Echo(_) | Self::CopyOut { .. })
    }
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
                // The pooler writes `"my"."a"`.
                blank if blank.is_whitespace() || blank == '"' => (),
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
        ["insert", "into", "shifting", .., "returning"] => Command::Shifting(Shifting::Return),
        ["insert", "into", "shifting", ..] => Command::Shifting(Shifting::Write),
        ["insert", ..] => Command::Insert(text(tokens)),
        ["select", rest @ ..] if tokens.contains(&Token::Sign('/')) && rest.len() == 2 => Command::DivideByZero,
        ["select", "$1", "as", "shifting"] => Command::Shifting(Shifting::Read),
        ["select", "$1", "as", label] => Command::Echo((*label).to_owned()),
        ["select", "pg_catalog.pg_is_in_recovery"] => Command::IsStandby,
        ["select"] if tokens.len() == 2 => Command::Select(text(tokens)),
        ["copy", _, "from", "stdin"] => Command::CopyIn,
        ["copy", table, "to", "stdout"] => Command::CopyOut { long: *table == "long" },
        ["listen", channel] => Command::Listen((*channel).to_owned()),
        ["unlisten", rest @ ..] => Command::Unlisten(rest.first().map(|channel| (*channel).to_owned())),
        ["notify", channel] => Command::Notify { channel: (*channel).to_owned(), payload: text(tokens) },
        ["close", ..] => Command::Other("CLOSE CURSOR ALL"),
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

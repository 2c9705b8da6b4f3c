//! Units: what a client sends up to a Sync, or as one Query, for which it gets one ReadyForQuery; in all forms that the
//! protocol has for a statement.

use std::rc::Rc;

use wire::frame::{write, write_cstr};
use wire::frontend::{self, tag};

use crate::ledger::Key;
use crate::statement::{Copying, Effect, Statement};

/// One message of a unit, or what it stands for.
#[derive(Debug, Clone)]
pub enum Op {
    Query(Vec<Rc<Statement>>),
    /// The name 0 is the unnamed statement, or portal.
    Parse {
        name: u8,
        statement: Rc<Statement>,
    },
    Bind {
        portal: u8,
        name: u8,
        statement: Rc<Statement>,
    },
    DescribeStatement {
        name: u8,
        statement: Rc<Statement>,
    },
    DescribePortal {
        portal: u8,
    },
    Execute {
        portal: u8,
        most: usize,
    },
    CloseStatement {
        name: u8,
    },
    ClosePortal {
        portal: u8,
    },
    Sync,
}

/// Bytes that are sent when the answer has come so far.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// What must have come, or an error: a type byte; 0 for nothing.
    pub after: u8,
    /// What is sent.
    pub bytes: Vec<u8>,
    /// What is sent in its place when an error came.
    pub otherwise: Vec<u8>,
}

/// A unit.
#[derive(Debug, Default)]
pub struct Unit {
    /// What it consists of.
    pub ops: Vec<Op>,
    /// Its bytes.
    pub chunks: Vec<Chunk>,
    /// A cancel request of its own client may strike it.
    pub cancellable: bool,
    /// It ends only when it is cancelled.
    pub endless: bool,
}

impl Unit {
    /// Statements as one Query.
    pub fn simple(statements: Vec<Statement>) -> Self {
        let texts: Vec<String> = statements.iter().map(Statement::plain).collect();
        let mut unit = Self::default();
        let mut bytes = Vec::new();
        frontend::write_query(&mut bytes, &texts.join("; "));
        unit.say(&bytes);
        if let [Statement { copying: Copying::In { data, fails }, .. }] = statements.as_slice() {
            let bytes = copy_data(data, *fails);
            unit.chunks.push(Chunk { after: b'G', bytes, otherwise: Vec::new() });
        }
        unit.ops.push(Op::Query(statements.into_iter().map(Rc::new).collect()));
        unit
    }

    /// Appends bytes that are sent without waiting.
    fn say(&mut self, bytes: &[u8]) {
        match self.chunks.last_mut() {
            Some(chunk) => {
                chunk.bytes.extend_from_slice(bytes);
                if chunk.after != 0 {
                    chunk.otherwise.extend_from_slice(bytes);
                }
            }
            None => self.chunks.push(Chunk { after: 0, bytes: bytes.to_vec(), otherwise: Vec::new() }),
        }
    }

    /// Appends a Flush; with `wait`, what follows is sent when an answer of this type has come.
    pub fn flush(&mut self, wait: Option<u8>) -> &mut Self {
        let mut bytes = Vec::new();
        write(&mut bytes, tag::FLUSH, |_| ());
        self.say(&bytes);
        if let Some(after) = wait {
            self.chunks.push(Chunk { after, bytes: Vec::new(), otherwise: Vec::new() });
        }
        self
    }

    /// Appends a Parse.
    pub fn parse(&mut self, name: u8, statement: &Rc<Statement>) -> &mut Self {
        let mut bytes = Vec::new();
        write(&mut bytes, tag::PARSE, |out| {
            write_cstr(out, statement_name(name).as_bytes());
            write_cstr(out, statement.sql.as_bytes());
            out.extend_from_slice(&[0, 0]);
        });
        self.say(&bytes);
        self.ops.push(Op::Parse { name, statement: Rc::clone(statement) });
        self
    }

    /// Appends a Bind of the statement's arguments.
    pub fn bind(&mut self, portal: u8, name: u8, statement: &Rc<Statement>) -> &mut Self {
        let mut bytes = Vec::new();
        write(&mut bytes, tag::BIND, |out| {
            write_cstr(out, portal_name(portal).as_bytes());
            write_cstr(out, statement_name(name).as_bytes());
            out.extend_from_slice(&[0, 0]);
            out.extend_from_slice(&short(statement.arguments.len()));
            for argument in &statement.arguments {
                out.extend_from_slice(&long(argument.len()));
                out.extend_from_slice(argument.as_bytes());
            }
            out.extend_from_slice(&[0, 0]);
        });
        self.say(&bytes);
        self.ops.push(Op::Bind { portal, name, statement: Rc::clone(statement) });
        self
    }

    /// Appends an Execute, of all rows or of so many at most.
    pub fn execute(&mut self, portal: u8, most: usize) -> &mut Self {
        let mut bytes = Vec::new();
        write(&mut bytes, tag::EXECUTE, |out| {
            write_cstr(out, portal_name(portal).as_bytes());
            out.extend_from_slice(&long(most));
        });
        self.say(&bytes);
        self.ops.push(Op::Execute { portal, most });
        self
    }

    /// Appends a Describe of a statement.
    pub fn describe_statement(&mut self, name: u8, statement: &Rc<Statement>) -> &mut Self {
        self.target(tag::DESCRIBE, b'S', &statement_name(name));
        self.ops.push(Op::DescribeStatement { name, statement: Rc::clone(statement) });
        self
    }

    /// Appends a Describe of a portal.
    pub fn describe_portal(&mut self, portal: u8) -> &mut Self {
        self.target(tag::DESCRIBE, b'P', &portal_name(portal));
        self.ops.push(Op::DescribePortal { portal });
        self
    }

    /// Appends a Close of a statement.
    pub fn close_statement(&mut self, name: u8) -> &mut Self {
        self.target(tag::CLOSE, b'S', &statement_name(name));
        self.ops.push(Op::CloseStatement { name });
        self
    }

    /// Appends a Close of a portal.
    pub fn close_portal(&mut self, portal: u8) -> &mut Self {
        self.target(tag::CLOSE, b'P', &portal_name(portal));
        self.ops.push(Op::ClosePortal { portal });
        self
    }

    fn target(&mut self, message: u8, kind: u8, name: &str) {
        let mut bytes = Vec::new();
        write(&mut bytes, message, |out| {
            out.push(kind);
            write_cstr(out, name.as_bytes());
        });
        self.say(&bytes);
    }

    /// Appends what a COPY sends; when `wait`, as soon as the server asks for it.
    pub fn copy(&mut self, statement: &Statement, wait: bool) -> &mut Self {
        let Copying::In { data, fails } = &statement.copying else { return self };
        let bytes = copy_data(data, *fails);
        if wait {
            self.flush(None);
            self.chunks.push(Chunk { after: b'G', bytes, otherwise: Vec::new() });
        } else {
            self.say(&bytes);
        }
        self
    }

    /// Ends it with a Sync.
    pub fn sync(mut self) -> Self {
        let mut bytes = Vec::new();
        frontend::write_sync(&mut bytes);
        self.say(&bytes);
        self.ops.push(Op::Sync);
        self
    }

    fn statements(&self) -> impl Iterator<Item = &Rc<Statement>> {
        self.ops.iter().flat_map(|op| match op {
            Op::Query(statements) => statements.as_slice(),
            Op::Bind { statement, .. } => std::slice::from_ref(statement),
            _ => &[],
        })
    }

    /// The keys of the rows that it writes.
    pub fn keys(&self) -> Vec<Key> {
        self.statements().flat_map(|statement| statement.keys()).copied().collect()
    }

    /// Whether it has a COMMIT.
    pub fn commits(&self) -> bool {
        self.statements().any(|statement| statement.effect == Effect::Commit)
    }

    /// What it is, for counts.
    pub fn label(&self) -> &'static str {
        self.statements().next().map_or("prepare", |statement| statement.label)
    }
}

/// The name of a statement.
pub fn statement_name(name: u8) -> String {
    if name == 0 { String::new() } else { format!("s{name}") }
}

/// The name of a portal.
pub fn portal_name(name: u8) -> String {
    if name == 0 { String::new() } else { format!("p{name}") }
}

fn copy_data(data: &str, fails: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in data.split_inclusive('\n') {
        write(&mut bytes, tag::COPY_DATA, |out| out.extend_from_slice(line.as_bytes()));
    }
    if fails {
        write(&mut bytes, tag::COPY_FAIL, |out| write_cstr(out, b"taken back"));
    } else {
        write(&mut bytes, tag::COPY_DONE, |_| ());
    }
    bytes
}

fn short(number: usize) -> [u8; 2] {
    (number as u16).to_be_bytes()
}

fn long(number: usize) -> [u8; 4] {
    (number as u32).to_be_bytes()
}

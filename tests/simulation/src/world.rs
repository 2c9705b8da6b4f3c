//! Clients, servers and a pooler between them, and what must hold.

use std::collections::{HashMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use howdah_pooler::by_hand::Pooler;
use wire::backend::{self, Status};
use wire::frame::{self, HEADER};
use wire::startup::{self, CancelKey, Packet};
use wire::{frontend, header};

use crate::model::{Command, REPORTED, Session, Values, put, read, reported};

/// How the pooler is set up, and for how many clients.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Clients at once.
    pub clients: usize,
    /// Server connections of the pool.
    pub pool_size: usize,
    /// Workers of the pooler.
    pub workers: usize,
    /// How many of them serve the database at first.
    pub members: usize,
    /// Whether reads of several clients go down one connection.
    pub pipelining: bool,
    /// How long a read in a lane may keep the others waiting; zero for as long as it takes.
    pub stall: Duration,
    /// How long a connection may be idle and still be used unchecked; none where nothing is checked.
    pub check_after: Option<Duration>,
    /// How old a server connection becomes, in seconds.
    pub lifetime: u64,
    /// How long a client waits for a server connection, in seconds.
    pub wait: u64,
    /// How long a client may be idle in a transaction, in seconds; 0 for ever.
    pub idle_in_transaction: u64,
    /// Whether servers report `search_path`, as PostgreSQL does from 18 on.
    pub reports_search_path: bool,
    /// Whether a client keeps its server connection until it leaves.
    pub session_mode: bool,
    /// Whether clients wait while the server is down.
    pub queue_while_down: bool,
}

impl Default for Setup {
    /// Three clients, and no limits that they meet.
    fn default() -> Self {
        Self {
            clients: 3,
            pool_size: 1,
            workers: 1,
            members: 1,
            pipelining: true,
            stall: Duration::ZERO,
            check_after: None,
            lifetime: 3600,
            wait: 120,
            idle_in_transaction: 0,
            reports_search_path: true,
            session_mode: false,
            queue_while_down: true,
        }
    }
}

impl Setup {
    /// As lines of a configuration.
    fn settings(&self) -> String {
        let check = self.check_after.map_or_else(
            || "server_check_query =".to_owned(),
            |delay| format!("server_check_query = SELECT 1\nserver_check_delay = {}", delay.as_secs()),
        );
        format!(
            "default_pool_size = {}\ndatabase_workers = {}\npipelining = {}\npipeline_stall = {}\n{check}\nserver_lifetime = {}\n\
             query_wait_timeout = {}\nidle_transaction_timeout = {}\nserver_reset_query_always = 0\npool_mode = {}\nqueue_while_down = {}\n",
            self.pool_size,
            self.members,
            u8::from(self.pipelining),
            self.stall.as_secs_f64(),
            self.lifetime,
            self.wait,
            self.idle_in_transaction,
            if self.session_mode { "session" } else { "transaction" },
            u8::from(self.queue_while_down),
        )
    }
}

/// Forms in which a client says a unit: a Query (twice), the extended protocol, a statement that is prepared once, a Query
/// of several statements, and the extended protocol with a Flush behind each statement, or behind each Parse.
pub const FORMS: usize = 7;
/// What is ordered at the console.
pub const ORDERS: [&str; 7] =
    ["PAUSE d", "RESUME d", "RECONNECT d", "SET database_workers = 1", "SET database_workers = 3", "SUSPEND", "RESUME"];
/// Values that parameters are set to.
const VALUES: [&str; 2] = ["x", "y"];
/// What may strike a statement.
const STRIKES: [&str; 3] = ["57014", "22023", "23503"];

/// What a client says.
fn sentence(choice: usize, name: &str, at: usize) -> String {
    let value = VALUES[choice / 32 % 2];
    match choice % 32 {
        0 => format!("SET my.a = '{value}'"),
        1 => format!("SET my.b TO {value}"),
        2 => format!("SET search_path = {value}, public"),
        3 => format!("SET TimeZone = '{value}'"),
        4 => format!("SET statement_timeout = {}", choice / 32 % 2 + 1),
        5 => format!("SET ROLE {value}"),
        6 => format!("SET SESSION AUTHORIZATION {value}"),
        7 => "RESET my.a".to_owned(),
        8 => "RESET search_path".to_owned(),
        9 => "RESET TimeZone".to_owned(),
        10 => "RESET ALL".to_owned(),
        11 => "RESET ROLE".to_owned(),
        12 => "RESET SESSION AUTHORIZATION".to_owned(),
        13 | 14 => "BEGIN".to_owned(),
        15 | 16 => "COMMIT".to_owned(),
        17 => "ROLLBACK".to_owned(),
        18 => "SAVEPOINT s".to_owned(),
        19 => "ROLLBACK TO s".to_owned(),
        20 => "RELEASE s".to_owned(),
        21 => "COMMIT AND CHAIN".to_owned(),
        22 => "ROLLBACK AND CHAIN".to_owned(),
        23 => format!("SET LOCAL my.b = '{value}'"),
        24 => "DISCARD ALL".to_owned(),
        25 => "SELECT 1/0".to_owned(),
        26 | 27 => format!("INSERT INTO t VALUES ('{name}.{at}')"),
        _ => format!("SELECT '{name}'"),
    }
}

/// A unit that a client has begun to send and that has not been answered.
struct Unit {
    name: String,
    /// Its client may have asked to cancel it.
    cancelled: bool,
    errors: usize,
    /// It prepares a statement under a name, if need be.
    names: bool,
}

struct Client {
    /// How many had left when it came.
    born: usize,
    socket: UnixStream,
    /// What it has not sent yet.
    unsent: VecDeque<u8>,
    heard: Vec<u8>,
    key: Option<CancelKey>,
    greeted: bool,
    gone: bool,
    units: VecDeque<Unit>,
    count: usize,
    /// What it has been told of parameters.
    told: HashMap<String, String>,
    status: u8,
    /// The session that it would have without a pooler, as of the last unit that it may know to have ended.
    session: Session,
    /// Likewise after units whose end a server has not told yet: the connection, where that ends there, the session.
    ahead: Vec<(usize, usize, Session)>,
    /// A unit of it has ended on a connection that died before it was told so: what it has been told of parameters
    /// meanwhile holds.
    is_unsure: bool,
    /// Connections that bring cancel requests.
    cancels: Vec<UnixStream>,
    /// The statement that it has prepared under a name, once it has been told so.
    prepared: bool,
}

/// What a server's connection has been asked and has not answered.
struct Question {
    tag: u8,
    body: Vec<u8>,
    own: bool,
}

struct Connection {
    id: usize,
    socket: UnixStream,
    input: Vec<u8>,
    is_logged_in: bool,
    questions: VecDeque<Question>,
    answers: VecDeque<u8>,
    /// Bytes that were answered and told.
    made: usize,
    told: usize,
    /// Where the answers to the pooler's own questions end that have not been told.
    own: VecDeque<usize>,
    own_asked: usize,
    session: Session,
    reported: Values,
    statements: HashMap<Vec<u8>, String>,
    portals: HashMap<Vec<u8>, (String, Option<String>)>,
    skips: bool,
    /// Who has begun a unit there, and what its client's session is in it.
    unit: Option<(usize, String, Session)>,
    /// Whose the transaction is that is open there: the client's place, which client it was, and its session.
    holder: Option<(usize, usize, Session)>,
    strike: Option<&'static str>,
    /// What was to lift the limits of a client has been struck.
    limited: bool,
    /// A cancel request has arrived for what is at the front.
    cancelled: bool,
}

/// All there is.
pub struct World {
    pooler: Pooler,
    /// None while the server is down.
    listener: Option<UnixListener>,
    folder: PathBuf,
    clients: Vec<Client>,
    /// Clients that have left.
    left: usize,
    connections: Vec<Connection>,
    consoles: Vec<UnixStream>,
    count: usize,
    written: HashMap<String, usize>,
    reports_search_path: bool,
}

static TELLS: AtomicBool = AtomicBool::new(false);

/// Has every world say from now on what goes on in it, to the standard error.
pub fn tell_all() {
    TELLS.store(true, Ordering::Relaxed);
}

macro_rules! trace {
    ($($what:tt)*) => {
        if TELLS.load(Ordering::Relaxed) {
            eprintln!($($what)*);
        }
    };
}

/// The name that a client signs its units by: which client it is, in which place, and which unit.
fn name_of(client: usize, place: usize, unit: usize) -> String {
    format!("{client}.{place}.{unit}")
}

impl World {
    /// A world in which clients have just come.
    pub fn new(setup: &Setup) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("howdah-simulation-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let pooler = Pooler::new(&folder, setup.workers, &setup.settings());
        let mut world = Self {
            pooler,
            listener: None,
            folder,
            clients: Vec::new(),
            left: 0,
            connections: Vec::new(),
            consoles: Vec::new(),
            count: 0,
            written: HashMap::new(),
            reports_search_path: setup.reports_search_path,
        };
        world.start();
        world.consoles = ORDERS.iter().map(|_| world.console()).collect();
        for place in 0..setup.clients {
            let client = world.arrive(place);
            world.clients.push(client);
        }
        world.turn();
        world
    }

    /// A client connects; in one place each has a parameter of its own.
    fn arrive(&mut self, place: usize) -> Client {
        let socket = UnixStream::connect(self.folder.join(".s.PGSQL.6")).unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut parameters = vec![("user", "u"), ("database", "d")];
        let mut base = Values::new();
        match place % 3 {
            1 => {
                parameters.push(("options", "-c my.a=base"));
                put(&mut base, "my.a", Some("base"));
            }
            2 => {
                parameters.push(("TimeZone", "base"));
                put(&mut base, "timezone", Some("base"));
            }
            _ => (),
        }
        let mut hello = Vec::new();
        startup::write_startup(&mut hello, parameters);
        Client {
            born: self.left,
            socket,
            unsent: hello.into(),
            heard: Vec::new(),
            key: None,
            greeted: false,
            gone: false,
            units: VecDeque::new(),
            count: 0,
            told: HashMap::new(),
            status: b'I',
            session: Session::new(base),
            ahead: Vec::new(),
            is_unsure: false,
            cancels: Vec::new(),
            prepared: false,
        }
    }

    /// A client says a unit, which is sent by and by.
    pub fn say(&mut self, who: usize, form: usize, choices: &[usize]) {
        let client = &mut self.clients[who];
        if client.gone || client.units.len() > 8 {
            return;
        }
        let name = name_of(client.born, who, client.count);
        client.count += 1;
        let mut out = Vec::new();
        let signed = |at: usize, choice: &usize| format!("{} /*{name}*/", sentence(*choice, &name, at));
        // What is set beside other statements of one Query is not promised to be carried on.
        let beside = |choice: &usize| matches!(choice % 32, 13..=22 | 25..);
        match form % FORMS {
            4 => {
                let statements: Vec<String> = choices
                    .iter()
                    .filter(|choice| beside(choice))
                    .enumerate()
                    .map(|(at, choice)| sentence(*choice, &name, at))
                    .collect();
                frontend::write_query(&mut out, &format!("{} /*{name}*/", statements.join(";")));
            }
            0 | 1 => frontend::write_query(&mut out, &signed(0, &choices[0])),
            2 | 5 | 6 => {
                for (at, choice) in choices.iter().enumerate() {
                    frontend::write_parse(&mut out, b"", format!("{}\0\0\0", signed(at, choice)).as_bytes());
                    if form % FORMS == 6 {
                        frame::write(&mut out, b'H', |_| ());
                    }
                    frame::write(&mut out, b'B', |out| out.extend_from_slice(b"\0\0\0\0\0\0\0\0"));
                    frame::write(&mut out, b'E', |out| out.extend_from_slice(b"\0\0\0\0\0"));
                    if form % FORMS == 5 {
                        frame::write(&mut out, b'H', |_| ());
                    }
                }
                frontend::write_sync(&mut out);
            }
            // All prepare the same, and bind their own.
            _ => {
                if !client.units.is_empty() {
                    return;
                }
                if !client.prepared {
                    frame::write(&mut out, b'C', |out| out.extend_from_slice(b"Secho\0"));
                    frontend::write_parse(&mut out, b"echo", b"SELECT $1\0\0\0");
                }
                frame::write(&mut out, b'B', |out| {
                    out.extend_from_slice(b"\0echo\0\0\0\0\x01");
                    out.extend_from_slice(&i32::try_from(name.len()).unwrap().to_be_bytes());
                    out.extend_from_slice(name.as_bytes());
                    out.extend_from_slice(b"\0\0");
                });
                frame::write(&mut out, b'E', |out| out.extend_from_slice(b"\0\0\0\0\0"));
                frontend::write_sync(&mut out);
            }
        }
        client.cancels.retain_mut(is_open);
        let cancelled = !client.cancels.is_empty();
        trace!("client {who} says {}", String::from_utf8_lossy(&out).replace('\0', " "));
        client.units.push_back(Unit { name, cancelled, errors: 0, names: form % FORMS == 3 });
        client.unsent.extend(out);
    }

    /// A client sends so many bytes.
    pub fn send(&mut self, who: usize, count: usize) {
        let client = &mut self.clients[who];
        let count = count.min(client.unsent.len());
        let bytes: Vec<u8> = client.unsent.drain(..count).collect();
        if !client.gone {
            // The pooler may have closed it.
            let _ = client.socket.write_all(&bytes);
        }
    }

    fn connection(&mut self, who: usize) -> Option<&mut Connection> {
        let count = self.connections.len();
        self.connections.get_mut(who % count.max(1))
    }

    /// A server answers so many messages.
    pub fn work(&mut self, who: usize, count: usize) {
        let Some(id) = self.connection(who).map(|connection| connection.id) else { return };
        for _ in 0..count {
            let Some(at) = self.connections.iter().position(|connection| connection.id == id) else { return };
            if !self.answer_one(at) {
                return;
            }
        }
    }

    /// So many bytes of a server's answers are told.
    pub fn answer(&mut self, who: usize, count: usize) {
        let Some(connection) = self.connection(who) else { return };
        let id = connection.id;
        let count = count.min(connection.answers.len());
        let bytes: Vec<u8> = connection.answers.drain(..count).collect();
        let _ = connection.socket.write_all(&bytes);
        connection.told += count;
        let told = connection.told;
        while connection.own.front().is_some_and(|end| *end <= told) {
            connection.own.pop_front();
            connection.own_asked -= 1;
        }
        for client in &mut self.clients {
            while client.ahead.first().is_some_and(|(of, end, _)| *of == id && *end <= told) {
                client.session = client.ahead.remove(0).2;
            }
        }
    }

    /// What a server runs next fails.
    pub fn strike(&mut self, who: usize, how: usize) {
        if let Some(connection) = self.connection(who) {
            connection.strike = Some(STRIKES[how]);
        }
    }

    /// A server connection dies.
    pub fn kill(&mut self, who: usize) {
        let Some(connection) = self.connection(who).filter(|connection| connection.is_logged_in) else { return };
        let id = connection.id;
        trace!("server {id} dies");
        self.bury(id);
    }

    /// The server goes down: its connections die, and no other can be made.
    pub fn stop(&mut self) {
        trace!("the server stops");
        self.listener = None;
        let _ = std::fs::remove_file(self.folder.join(".s.PGSQL.5"));
        let ids: Vec<usize> = self.connections.iter().map(|connection| connection.id).collect();
        ids.into_iter().for_each(|id| self.bury(id));
    }

    /// The server is there, again.
    pub fn start(&mut self) {
        if self.listener.is_none() {
            trace!("the server starts");
            let listener = UnixListener::bind(self.folder.join(".s.PGSQL.5")).unwrap();
            listener.set_nonblocking(true).unwrap();
            self.listener = Some(listener);
        }
    }

    fn bury(&mut self, id: usize) {
        self.connections.retain(|connection| connection.id != id);
        for client in &mut self.clients {
            let known = client.ahead.len();
            client.ahead.retain(|(of, _, _)| *of != id);
            client.is_unsure |= client.ahead.len() < known;
        }
    }

    /// A client asks to cancel what it does.
    pub fn cancel(&mut self, who: usize) {
        let client = &mut self.clients[who];
        let Some(key) = client.key.as_ref().filter(|_| !client.gone && client.cancels.len() < 3) else { return };
        let mut socket = UnixStream::connect(self.folder.join(".s.PGSQL.6")).unwrap();
        let mut request = Vec::new();
        startup::write_cancel(&mut request, key);
        socket.write_all(&request).unwrap();
        socket.set_nonblocking(true).unwrap();
        client.cancels.push(socket);
        client.units.iter_mut().for_each(|unit| unit.cancelled = true);
    }

    /// A client leaves, and another comes in its place.
    pub fn leave(&mut self, who: usize) {
        self.left += 1;
        self.clients[who] = self.arrive(who);
    }

    /// A server says what nobody has asked for.
    pub fn mutter(&mut self, who: usize, what: usize) {
        let Some(connection) = self.connection(who).filter(|connection| connection.is_logged_in) else { return };
        let mut out = Vec::new();
        match what {
            0 => backend::write_notice(&mut out, "NOTICE", "00000", "hum"),
            1 => frame::write(&mut out, b'A', |out| out.extend_from_slice(b"\0\0\0\x01c\0p\0")),
            _ => backend::write_parameter_status(&mut out, "in_hot_standby", "off"),
        }
        connection.made += out.len();
        connection.answers.extend(out);
    }

    /// Time passes.
    pub fn pass(&mut self, time: Duration) {
        self.pooler.pass(time);
    }

    /// Somebody gives an order at the console: each order on a connection of its own, since some wait.
    pub fn order(&mut self, what: usize) {
        trace!("console: {}", ORDERS[what]);
        let mut said = Vec::new();
        frontend::write_query(&mut said, ORDERS[what]);
        self.consoles[what].write_all(&said).unwrap();
    }

    /// A connection to the console.
    fn console(&self) -> UnixStream {
        let mut socket = UnixStream::connect(self.folder.join(".s.PGSQL.6")).unwrap();
        let mut said = Vec::new();
        startup::write_startup(&mut said, [("user", "u"), ("database", "pgbouncer")]);
        socket.write_all(&said).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    }

    /// Cancel requests that have arrived at the server have their effect.
    pub fn take_cancels(&mut self) {
        self.accept(true);
    }

    /// The pooler works until it has nothing to do, and servers and clients hear what was said.
    pub fn turn(&mut self) {
        for _ in 0..1000 {
            let mut again = self.pooler.turn();
            again |= self.accept(false);
            again |= self.hear_servers();
            again |= self.hear_clients();
            if !again {
                self.check_beliefs();
                return;
            }
        }
        panic!("the pooler finds no rest");
    }

    /// All that has been said is answered.
    pub fn settle(&mut self) {
        for _ in 0..1000 {
            for who in 0..self.clients.len() {
                self.send(who, usize::MAX);
            }
            self.turn();
            let mut again = self.accept(true);
            for who in 0..self.connections.len() {
                again |= self.answer_one(who);
                again |= !self.connections[who].answers.is_empty();
                self.answer(who, usize::MAX);
            }
            if !again {
                return;
            }
        }
        panic!("clients and servers find no rest");
    }

    /// Everybody is answered, and nobody waits.
    pub fn end(&mut self) {
        self.start();
        self.order(ORDERS.len() - 1);
        self.settle();
        // A server that could not be reached is tried again by and by.
        for _ in 0..30 {
            for who in 0..self.clients.len() {
                let client = &self.clients[who];
                if !client.gone && client.units.is_empty() && client.status != b'I' {
                    self.say(who, 0, &[17]);
                }
            }
            self.settle();
            let rests = |client: &Client| client.greeted && client.units.is_empty() && client.status == b'I';
            if self.clients.iter().all(|client| client.gone || rests(client)) {
                break;
            }
            // An order that waited for another on its connection comes now.
            self.order(ORDERS.len() - 1);
            self.pass(Duration::from_millis(500));
        }
        for client in self.clients.iter().filter(|client| !client.gone) {
            assert!(client.greeted && client.units.is_empty(), "a client waits for {} units", client.units.len());
            let truth = reported(&client.session.current, "TimeZone");
            let told = client.told.get("TimeZone").unwrap();
            assert_eq!(*told, truth, "what a client was told of its TimeZone");
        }
    }

    /// Takes what comes to the server: new connections, and with `cancels` the requests that some bring.
    fn accept(&mut self, cancels: bool) -> bool {
        let mut any = false;
        while let Some(Ok((socket, _))) = self.listener.as_ref().map(UnixListener::accept) {
            socket.set_nonblocking(true).unwrap();
            self.count += 1;
            self.connections.push(Connection {
                id: self.count,
                socket,
                input: Vec::new(),
                is_logged_in: false,
                questions: VecDeque::new(),
                answers: VecDeque::new(),
                made: 0,
                told: 0,
                own: VecDeque::new(),
                own_asked: 0,
                session: Session::default(),
                reported: Values::new(),
                statements: HashMap::new(),
                portals: HashMap::new(),
                skips: false,
                unit: None,
                holder: None,
                strike: None,
                limited: false,
                cancelled: false,
            });
            any = true;
        }
        if cancels {
            let bearers: Vec<(usize, i32)> = self
                .connections
                .iter()
                .filter(|connection| !connection.is_logged_in)
                .filter_map(|connection| match startup::read(&connection.input) {
                    Ok(Some((Packet::Cancel(key), _))) => Some((connection.id, key.pid)),
                    _ => None,
                })
                .collect();
            for (bearer, pid) in bearers {
                any = true;
                self.bury(bearer);
                let target = self.connections.iter_mut().find(|connection| i32::try_from(connection.id) == Ok(pid));
                // It strikes what is being done, if that has come.
                if let Some(target) = target.filter(|target| !target.questions.is_empty()) {
                    target.cancelled = true;
                }
            }
        }
        any
    }

    fn hear_servers(&mut self) -> bool {
        let (mut any, mut dead) = (false, Vec::new());
        for connection in &mut self.connections {
            let open = hear(&mut connection.socket, &mut connection.input, &mut any);
            if !connection.is_logged_in {
                connection.log_in(self.reports_search_path);
            }
            if connection.is_logged_in {
                connection.take_questions();
            }
            if !open {
                dead.push(connection.id);
            }
        }
        dead.into_iter().for_each(|id| self.bury(id));
        any
    }

    /// A server answers one message; whether there was any.
    fn answer_one(&mut self, at: usize) -> bool {
        let Some(question) = self.connections[at].questions.pop_front() else { return false };
        let connection = &self.connections[at];
        let text = String::from_utf8_lossy(&question.body).replace('\0', " ");
        trace!("server {}: {} {text} {:?}", connection.id, char::from(question.tag), connection.strike);
        match question.tag {
            b'Q' => self.run_query(at, &question),
            b'P' => self.connections[at].parse(&question.body),
            b'B' => self.connections[at].bind(&question.body),
            b'E' => {
                let portal = frontend::portal(&question.body).to_vec();
                let connection = &mut self.connections[at];
                if !connection.skips {
                    let (sql, parameter) = connection.portals.get(&portal).cloned().expect("a portal");
                    let (commands, signature) = read(&sql);
                    let owner = parameter.clone().or(signature).expect("only clients use the extended protocol");
                    self.begin(at, &owner);
                    for command in commands {
                        self.execute(at, &command, parameter.as_deref());
                    }
                }
            }
            b'C' => {
                let connection = &mut self.connections[at];
                if !connection.skips {
                    if let Ok(frontend::Target::Statement(name)) = frontend::target(b'C', &question.body) {
                        connection.statements.remove(name);
                    }
                    connection.say(|out| backend::write_empty(out, b'3'));
                }
            }
            b'S' => {
                let strikes = self.connections[at].strike.is_some_and(|code| code == "23503");
                let connection = &mut self.connections[at];
                // The end of what no BEGIN has begun may fail too.
                if strikes && !connection.skips && !connection.session.explicit && connection.unit.is_some() {
                    connection.strike = None;
                    connection.session.fail();
                    if let Some((_, _, theirs)) = &mut connection.unit {
                        theirs.fail();
                    }
                    connection.say(|out| backend::write_error(out, "ERROR", "23503", "deferred"));
                }
                self.ready(at);
            }
            b'X' => {
                let id = self.connections[at].id;
                self.bury(id);
            }
            // A server of this world keeps no answer back.
            b'H' => (),
            b'D' => panic!("nobody has asked for a description"),
            tag => panic!("a message of type {tag}"),
        }
        true
    }

    fn run_query(&mut self, at: usize, question: &Question) {
        let sql = String::from_utf8(frontend::query(&question.body).expect("a Query").to_vec()).expect("UTF-8");
        let (commands, signature) = read(&sql);
        assert_eq!(signature.is_none(), question.own);
        self.connections[at].statements.remove(&b""[..]);
        let mut lifts = true;
        if let Some(owner) = &signature {
            self.begin(at, owner);
        } else {
            // A statement that lifts a limit may run under it, and one in a client's transaction under its client's.
            lifts = commands.iter().all(|command| {
                matches!(command, Command::Set { name, value, .. } if name.ends_with("_timeout") && value.as_deref() == Some("0"))
            });
            let connection = &self.connections[at];
            let limited = connection.session.current.contains_key("statement_timeout") && !connection.session.explicit;
            assert!(lifts || !limited || connection.limited, "{sql} runs under the limit of a client");
        }
        let several = commands.len() > 1;
        for command in &commands {
            if several && *command == Command::DiscardAll {
                panic!("DISCARD ALL beside others");
            }
            if !self.execute(at, command, None) {
                break;
            }
        }
        let connection = &mut self.connections[at];
        connection.limited = question.own && (lifts || connection.limited) && connection.skips;
        self.ready(at);
    }

    /// A client's unit begins on a connection, or goes on.
    fn begin(&mut self, at: usize, owner: &str) {
        let connection = &mut self.connections[at];
        if let Some((_, name, _)) = &connection.unit {
            assert_eq!(name, owner, "another's message within a unit");
            return;
        }
        let mut parts = owner.split('.').map(|part| part.parse::<usize>().unwrap());
        let (_, place) = (parts.next().unwrap(), parts.next().unwrap());
        let client = &mut self.clients[place];
        if std::mem::take(&mut client.is_unsure) {
            client.believe_what_was_told();
        }
        // One that has left is nobody's concern, as far as it harms nobody.
        let mine = client.units.iter().any(|unit| unit.name == *owner) && !client.gone;
        let session = if !mine {
            connection.session.clone()
        } else {
            let id = connection.id;
            let ahead = client.ahead.iter().rev().find(|(of, _, _)| *of == id);
            ahead.map_or(&client.session, |(_, _, session)| session).clone()
        };
        assert!(
            session.is_like(&connection.session),
            "unit {owner} is to run in {session:?}\nand finds {:?}",
            connection.session
        );
        connection.unit = Some((place, owner.to_owned(), session));
    }

    /// A statement runs; whether it has done well.
    fn execute(&mut self, at: usize, command: &Command, parameter: Option<&str>) -> bool {
        let connection = &mut self.connections[at];
        let mut struck = connection.strike.take();
        if std::mem::take(&mut connection.cancelled) {
            struck = Some("57014");
            match &connection.unit {
                Some((place, name, _)) => {
                    let client = &self.clients[*place];
                    let victim = client.units.iter().find(|unit| unit.name == *name && !client.gone);
                    assert!(
                        victim.is_none_or(|unit| unit.cancelled),
                        "a cancel request strikes {name}, whose client did not ask"
                    );
                }
                // What the pooler says again for a client at the end of a unit belongs to this unit.
                None => {
                    let (place, born, _) =
                        connection.holder.as_ref().expect("a cancel request strikes the pooler's own statement");
                    let client = &self.clients[*place];
                    let waits = client.units.front().is_some_and(|unit| unit.cancelled);
                    assert!(client.born != *born || waits, "a cancel request strikes what its client did not ask for");
                }
            }
        }
        let connection = &mut self.connections[at];
        let outcome = connection.session.run(command, struck);
        if let Some((_, _, theirs)) = &mut connection.unit {
            let same = theirs.run(command, struck);
            assert!(same == outcome || outcome == Err("25006"), "{command:?}: {outcome:?} and not {same:?}");
            if same != outcome {
                theirs.fail();
            }
        }
        if let (Command::Insert(name), Ok(_)) = (command, &outcome) {
            let times = self.written.entry(name.clone()).or_default();
            *times += 1;
            assert_eq!(*times, 1, "{name} is written twice");
        }
        if matches!(command, Command::DiscardAll | Command::DeallocateAll) && outcome.is_ok() {
            connection.statements.clear();
        }
        match outcome {
            Ok(tag) => {
                let row = match command {
                    Command::Select(text) => Some(text.as_str()),
                    Command::Echo => parameter,
                    _ => None,
                };
                connection.say(|out| {
                    if let Some(row) = row {
                        backend::write_data_row(out, [Some(row.as_bytes())].into_iter());
                    }
                    backend::write_command_complete(out, &tag);
                });
                true
            }
            Err(code) => {
                connection.say(|out| backend::write_error(out, "ERROR", code, "no"));
                connection.skips = true;
                false
            }
        }
    }

    /// A unit, or a question of the pooler's own, has ended.
    fn ready(&mut self, at: usize) {
        let connection = &mut self.connections[at];
        connection.session.finish();
        connection.skips = false;
        connection.cancelled = false;
        connection.report();
        let status = connection.session.status();
        connection.say(|out| frame::write(out, b'Z', |out| out.push(status)));
        let open = connection.session.explicit;
        match connection.unit.take() {
            Some((place, name, mut theirs)) => {
                theirs.finish();
                // The client in that place may be another by now.
                let born = name.split('.').next().and_then(|born| born.parse().ok()).unwrap();
                connection.holder = open.then(|| (place, born, theirs.clone()));
                let client = &mut self.clients[place];
                if client.units.iter().any(|unit| unit.name == name) {
                    client.ahead.push((connection.id, connection.made, theirs));
                }
            }
            None if connection.own_asked > connection.own.len() => {
                connection.own.push_back(connection.made);
                // What the pooler says again for a client in its transaction may fail: then that has failed.
                if let Some((place, born, theirs)) =
                    connection.holder.as_mut().filter(|_| open && connection.session.failed)
                    && self.clients[*place].born == *born
                {
                    theirs.fail();
                    self.clients[*place].ahead.push((connection.id, connection.made, theirs.clone()));
                }
            }
            // A unit in which nothing ran.
            None => (),
        }
    }

    fn hear_clients(&mut self) -> bool {
        let mut any = false;
        for place in 0..self.clients.len() {
            let client = &mut self.clients[place];
            if client.gone {
                continue;
            }
            let open = hear(&mut client.socket, &mut client.heard, &mut any);
            let heard = std::mem::take(&mut client.heard);
            let mut left = heard.as_slice();
            while let Ok(Some(message)) = frame::message(left) {
                client.hear(message.tag, message.body);
                left = message.rest;
            }
            client.heard = left.to_vec();
            client.gone |= !open;
        }
        any
    }

    /// What the pooler believes of sessions that nobody uses is what they have.
    fn check_beliefs(&mut self) {
        for belief in self.pooler.believed() {
            let connection = self.connections.iter().find(|connection| i32::try_from(connection.id) == Ok(belief.pid));
            let Some(connection) = connection.filter(|connection| connection.answers.is_empty()) else { continue };
            assert!(connection.questions.is_empty(), "a free connection that is asked something");
            let mut values = Values::new();
            for (name, statement) in &belief.sets {
                match read(statement).0.as_slice() {
                    [Command::Set { name: of, value, .. }] if of == name => put(&mut values, of, value.as_deref()),
                    other => panic!("{name} is believed to be set by {other:?}"),
                }
            }
            let mut truth = connection.session.current.clone();
            for (name, value) in &belief.vars {
                assert_eq!(*value, reported(&truth, name), "{name} of a free session");
                truth.remove(&name.to_lowercase());
            }
            let read_only = truth.remove("default_transaction_read_only").is_some();
            assert_eq!(values, truth, "a free session is not what it is taken for");
            assert_eq!(belief.read_only, read_only);
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Client {
    fn believe_what_was_told(&mut self) {
        for (name, value) in self.told.iter().filter(|(name, _)| REPORTED.contains(&name.as_str())) {
            let name = name.to_lowercase();
            let value = value.replace("\"$user\"", "$user");
            for values in [&mut self.session.current, &mut self.session.lasting] {
                put(values, &name, Some(&value));
            }
        }
    }

    fn hear(&mut self, tag: u8, body: &[u8]) {
        let text = String::from_utf8_lossy(body).replace('\0', " ");
        trace!("client {:?}: {} {text}", self.units.front().map(|unit| &unit.name), char::from(tag));
        match tag {
            b'K' => {
                let (pid, secret) = backend::backend_key_data(body).unwrap();
                self.key = Some(CancelKey { pid, secret: secret.to_vec() });
            }
            b'S' => {
                let (name, value) = backend::parameter_status(body).unwrap();
                self.told.insert(name.to_owned(), value.to_owned());
            }
            b'Z' if !self.greeted => self.greeted = true,
            b'Z' => {
                self.status = body[0];
                let unit = self.units.pop_front().expect("an end of a unit that was not asked");
                assert!(unit.errors <= 1, "{} errors for {}", unit.errors, unit.name);
            }
            b'E' => {
                let report = backend::report(body).unwrap();
                if report.severity == "FATAL" {
                    trace!("gone: {report:?}");
                    assert_ne!(report.code, "57014", "a client is sent away for what has struck the pooler's own");
                    self.gone = true;
                    return;
                }
                assert_ne!(report.code, "25006", "a write that its client may do is refused");
                assert_ne!(report.code, "26000", "a statement that its client has prepared is not known");
                self.units.front_mut().expect("an error that nobody has asked for").errors += 1;
            }
            b'D' => {
                let unit = self.units.front().expect("a row that nobody has asked for");
                let row = backend::data_row(body).unwrap();
                assert_eq!(row, [Some(unit.name.as_bytes())], "another's row for {}", unit.name);
            }
            b'1' => self.prepared |= self.units.front().is_some_and(|unit| unit.names),
            b'C' if body == b"DISCARD ALL\0" => self.prepared = false,
            _ => (),
        }
    }
}

impl Connection {
    fn say(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut out = Vec::new();
        write(&mut out);
        self.made += out.len();
        self.answers.extend(out);
    }

    /// The server lets everybody in.
    fn log_in(&mut self, reports_search_path: bool) {
        let Ok(Some((Packet::Startup(_), count))) = startup::read(&self.input) else { return };
        self.input.drain(..count);
        self.is_logged_in = true;
        let pid = i32::try_from(self.id).unwrap();
        for name in REPORTED.iter().filter(|name| reports_search_path || **name != "search_path") {
            self.reported.insert((*name).to_owned(), reported(&self.session.current, name));
        }
        let told = self.reported.clone();
        let mut out = Vec::new();
        backend::write_authentication(&mut out, &backend::Authentication::Ok);
        for (name, value) in &told {
            backend::write_parameter_status(&mut out, name, value);
        }
        backend::write_backend_key_data(&mut out, pid, b"abcd");
        backend::write_ready_for_query(&mut out, Status::Idle);
        let _ = self.socket.write_all(&out);
    }

    /// What is reported has changed.
    fn report(&mut self) {
        let mut changed = Vec::new();
        for (name, before) in &mut self.reported {
            let now = reported(&self.session.current, name);
            if now != *before {
                *before = now.clone();
                changed.push((name.clone(), now));
            }
        }
        for (name, value) in changed {
            self.say(|out| backend::write_parameter_status(out, &name, &value));
        }
    }

    fn take_questions(&mut self) {
        while let Ok(Some(head)) = header(&self.input) {
            if self.input.len() < head.total() {
                return;
            }
            let message: Vec<u8> = self.input.drain(..head.total()).collect();
            let body = message[HEADER..].to_vec();
            let own = head.tag == b'Q' && read(std::str::from_utf8(&body[..body.len() - 1]).unwrap()).1.is_none();
            // An alignment may follow what lifts limits; nothing of a client's may.
            assert!(
                own || head.tag == b'X' || self.own_asked == 0,
                "a client's message behind one of the pooler's own"
            );
            self.own_asked += usize::from(own);
            self.questions.push_back(Question { tag: head.tag, body, own });
        }
    }

    fn parse(&mut self, body: &[u8]) {
        if self.skips {
            return;
        }
        let parse = frontend::parse(body).unwrap();
        let sql = String::from_utf8(parse.query.to_vec()).unwrap();
        let ends = |command: &Command| {
            matches!(command, Command::Commit { .. } | Command::Rollback { .. } | Command::RollbackTo(_))
        };
        if self.session.failed && !read(&sql).0.iter().all(ends) {
            self.say(|out| backend::write_error(out, "ERROR", "25P02", "the transaction has failed"));
            self.skips = true;
            return;
        }
        if !parse.name.is_empty() && self.statements.contains_key(parse.name) {
            return self.complain("42P05");
        }
        self.statements.insert(parse.name.to_vec(), sql);
        self.say(|out| backend::write_empty(out, b'1'));
    }

    fn bind(&mut self, body: &[u8]) {
        if self.skips {
            return;
        }
        let bind = frontend::bind(body).unwrap();
        let Some(sql) = self.statements.get(bind.statement).cloned() else { return self.complain("26000") };
        // One parameter, of which the length comes first.
        let rest = &body[bind.portal.len() + bind.statement.len() + 2..];
        let parameter = (rest[3] == 1).then(|| {
            let length = usize::from(rest[7]);
            String::from_utf8(rest[8..8 + length].to_vec()).unwrap()
        });
        self.portals.insert(bind.portal.to_vec(), (sql, parameter));
        self.say(|out| backend::write_empty(out, b'2'));
    }

    fn complain(&mut self, code: &'static str) {
        // Statements that neighbours have prepared may not be there in the end; then what relies on them is asked again.
        assert!(!self.session.explicit, "{code} within a transaction");
        self.session.fail();
        if let Some((_, _, theirs)) = &mut self.unit {
            theirs.fail();
        }
        self.say(|out| backend::write_error(out, "ERROR", code, "no such statement"));
        self.skips = true;
    }
}

/// Takes what has come on a socket; whether it is open.
fn hear(socket: &mut UnixStream, into: &mut Vec<u8>, any: &mut bool) -> bool {
    let mut buffer = [0; 16384];
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => return false,
            Ok(count) => {
                *any = true;
                into.extend_from_slice(&buffer[..count]);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
            Err(_) => return false,
        }
    }
}

fn is_open(socket: &mut UnixStream) -> bool {
    hear(socket, &mut Vec::new(), &mut false)
}

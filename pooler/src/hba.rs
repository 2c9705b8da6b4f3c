//! The HBA file: who may come in from where, and how they prove who they are. PostgreSQL's format as PgBouncer takes
//! it: `local`, `host`, `hostssl` and `hostnossl`, databases, users, addresses and a method; the first line that fits
//! counts. What PgBouncer does not take is refused here too, and so are its methods for other machines (ldap, pam).

use std::net::IpAddr;

use crate::config::value::AuthType;

/// A whole file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Hba {
    lines: Vec<Line>,
}

/// Who wants to come in.
#[derive(Debug, Clone, Copy)]
pub struct Visitor<'a> {
    /// The address; `None` for the Unix socket.
    pub address: Option<IpAddr>,
    /// Whether it speaks TLS.
    pub tls: bool,
    /// Whether it asks for a connection of physical replication, which is of no database.
    pub physical: bool,
    /// The database that it asks for.
    pub database: &'a str,
    /// The user that it says it is.
    pub user: &'a str,
}

#[derive(Debug, Clone, PartialEq)]
struct Line {
    kind: Kind,
    databases: Vec<Name>,
    users: Vec<Name>,
    network: Option<Network>,
    method: Option<Method>,
}

/// How a visitor has to prove who it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Method {
    /// By what.
    pub auth: AuthType,
    /// The map of names by which that makes it a user; none where the names are the same.
    pub map: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Local,
    Host,
    HostSsl,
    HostNoSsl,
}

#[derive(Debug, Clone, PartialEq)]
enum Name {
    All,
    /// The database that is called as the user.
    SameUser,
    /// Connections of physical replication, and these alone.
    Replication,
    Is(String),
}

/// The first `bits` bits of an address.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Network {
    address: IpAddr,
    bits: u32,
}

impl Hba {
    /// Reads a file; the error says in which line.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut lines = Vec::new();
        // A backslash at the end of a line continues it.
        let joined = text.replace("\\\n", " ");
        for (number, line) in joined.lines().enumerate() {
            let place = |message: String| format!("line {}: {message}", number + 1);
            let fields = fields(line).map_err(place)?;
            if !fields.is_empty() {
                lines.push(read_line(&fields).map_err(place)?);
            }
        }
        Ok(Self { lines })
    }

    /// How a visitor has to prove who it is; `None` when it may not come in.
    pub fn method(&self, visitor: &Visitor<'_>) -> Option<&Method> {
        self.lines.iter().find(|line| line.fits(visitor))?.method.as_ref()
    }

    /// The maps of names that lines ask for.
    pub fn maps(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter_map(|line| line.method.as_ref()?.map.as_deref())
    }
}

impl Line {
    fn fits(&self, visitor: &Visitor<'_>) -> bool {
        let kind = match self.kind {
            Kind::Local => visitor.address.is_none(),
            Kind::Host => visitor.address.is_some(),
            Kind::HostSsl => visitor.address.is_some() && visitor.tls,
            Kind::HostNoSsl => visitor.address.is_some() && !visitor.tls,
        };
        let near = match (self.network, visitor.address) {
            (Some(network), Some(address)) => network.has(address),
            _ => true,
        };
        let named = |names: &[Name], value: &str, physical: bool| {
            names.iter().any(|name| match name {
                Name::Replication => physical,
                _ if physical => false,
                Name::All => true,
                Name::SameUser => visitor.user == value,
                Name::Is(name) => name == value,
            })
        };
        kind && near
            && named(&self.databases, visitor.database, visitor.physical)
            && named(&self.users, visitor.user, false)
    }
}

impl Network {
    fn has(&self, address: IpAddr) -> bool {
        let bits = |address: IpAddr| match address.to_canonical() {
            IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, true),
            IpAddr::V6(address) => (address.to_bits(), false),
        };
        let ((one, is_four), (other, other_is_four)) = (bits(self.address), bits(address));
        is_four == other_is_four && (self.bits == 0 || (one ^ other) >> (128 - self.bits.min(128)) == 0)
    }
}

/// A word of a line, and whether it was in quotes and so means only itself.
pub struct Field {
    pub text: String,
    pub quoted: bool,
}

/// The fields of a line, each a list of words by commas; `#` begins a comment.
pub fn fields(line: &str) -> Result<Vec<Vec<Field>>, String> {
    let mut found: Vec<Vec<Field>> = Vec::new();
    let mut rest = line.trim();
    let mut goes_on = false;
    while !rest.is_empty() && !rest.starts_with('#') {
        if let Some(after) = rest.strip_prefix(',') {
            goes_on = true;
            rest = after.trim_start();
            continue;
        }
        let (field, after) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let (text, after) = quoted.split_once('"').ok_or("a quote is not closed")?;
                (Field { text: text.to_owned(), quoted: true }, after)
            }
            None => {
                let end = rest.find(|c: char| c.is_whitespace() || matches!(c, ',' | '#' | '"')).unwrap_or(rest.len());
                let (text, after) = rest.split_at(end);
                (Field { text: text.to_owned(), quoted: false }, after)
            }
        };
        match found.last_mut().filter(|_| goes_on) {
            Some(list) => list.push(field),
            None => found.push(vec![field]),
        }
        goes_on = false;
        rest = after.trim_start();
    }
    Ok(found)
}

fn read_line(fields: &[Vec<Field>]) -> Result<Line, String> {
    let mut fields = fields.iter();
    let mut next = |what: &str| fields.next().ok_or_else(|| format!("the {what} is missing"));
    let one = |list: &[Field], what: &str| match list {
        [field] => Ok(field.text.clone()),
        _ => Err(format!("the {what} is one word")),
    };
    let kind = match one(next("type")?, "type")?.as_str() {
        "local" => Kind::Local,
        "host" => Kind::Host,
        "hostssl" => Kind::HostSsl,
        "hostnossl" => Kind::HostNoSsl,
        other => return Err(format!("{other} is not one of local, host, hostssl and hostnossl")),
    };
    let databases = names(next("database")?, true)?;
    let users = names(next("user")?, false)?;
    let mut network = None;
    if kind != Kind::Local {
        let address = one(next("address")?, "address")?;
        if address != "all" {
            let (read, whole) = read_network(&address)?;
            network = Some(read);
            if !whole {
                // Either the mask, in the old form, or the method follows an address without a length.
                let word = one(next("method")?, "method")?;
                match word.parse::<IpAddr>() {
                    Ok(mask) => network = Some(masked(read.address, mask)?),
                    Err(_) => return Err(format!("{address}: a length (/32) or a mask must follow the address")),
                }
            }
        }
    }
    let mut method = read_method(&one(next("method")?, "method")?, kind)?;
    for option in fields {
        let option = one(option, "option")?;
        match (option.strip_prefix("map="), &mut method) {
            (Some(map), Some(Method { auth: AuthType::Cert | AuthType::Peer, map: place })) => {
                *place = Some(map.to_owned());
            }
            (Some(_), _) => return Err("map= is for cert and peer".to_owned()),
            (None, _) => return Err(format!("{option}: the only option after the method is map=")),
        }
    }
    Ok(Line { kind, databases, users, network, method })
}

/// How clients prove who they are; none to reject them.
fn read_method(word: &str, kind: Kind) -> Result<Option<Method>, String> {
    let auth = match word {
        "reject" => return Ok(None),
        "trust" => AuthType::Trust,
        "password" => AuthType::Plain,
        "md5" => AuthType::Md5,
        "scram-sha-256" => AuthType::Scram,
        "cert" if kind == Kind::HostSsl => AuthType::Cert,
        "cert" => return Err("cert needs hostssl".to_owned()),
        "peer" if kind == Kind::Local => AuthType::Peer,
        "peer" => return Err("peer needs local".to_owned()),
        other => {
            return Err(format!("{other} is not one of trust, reject, password, md5, scram-sha-256, cert and peer"));
        }
    };
    Ok(Some(Method { auth, map: None }))
}

fn names(list: &[Field], of_databases: bool) -> Result<Vec<Name>, String> {
    list.iter()
        .map(|field| match field.text.as_str() {
            text if field.quoted => Ok(Name::Is(text.to_owned())),
            "all" => Ok(Name::All),
            "sameuser" if of_databases => Ok(Name::SameUser),
            "replication" if of_databases => Ok(Name::Replication),
            text @ ("samerole" | "samegroup") if of_databases => Err(format!("{text} is not supported")),
            text if text.starts_with(['+', '@', '/']) => {
                Err(format!("{text}: groups, files and expressions are not supported"))
            }
            text => Ok(Name::Is(text.to_owned())),
        })
        .collect()
}

/// An address and how much of it counts; whether the length stood there.
fn read_network(text: &str) -> Result<(Network, bool), String> {
    let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
    let address: IpAddr = address.parse().map_err(|_| format!("{text} is not an address; names are not looked up"))?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = match length {
        Some(length) => length.parse().ok().filter(|bits| *bits <= most).ok_or(format!("{text}: no such length"))?,
        None => most,
    };
    Ok((Network { address, bits }, length.is_some()))
}

/// An address with a mask, whose ones must come first.
fn masked(address: IpAddr, mask: IpAddr) -> Result<Network, String> {
    let (bits, zeros, most) = match (address, mask) {
        (IpAddr::V4(_), IpAddr::V4(mask)) => (mask.to_bits().leading_ones(), mask.to_bits().trailing_zeros(), 32),
        (IpAddr::V6(_), IpAddr::V6(mask)) => (mask.to_bits().leading_ones(), mask.to_bits().trailing_zeros(), 128),
        _ => return Err(format!("{mask} is not a mask for {address}")),
    };
    if bits + zeros < most {
        return Err(format!("{mask} is not a mask"));
    }
    Ok(Network { address, bits })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
# type  database   user          address         method
local   all        all                           trust      # the socket
host    app,web    bob,"all"     10.1.0.0/16     md5
hostssl all        carol         0.0.0.0/0       cert
hostssl sameuser   all           ::/0            scram-sha-256
hostnossl all      eve           192.168.7.9 255.255.255.0  password
host    "all"      all           all             reject
host    pgbouncer  all           127.0.0.1/32 \
        scram-sha-256
"#;

    fn method(address: Option<&str>, tls: bool, database: &str, user: &str) -> Option<AuthType> {
        let address = address.map(|address| address.parse().unwrap());
        Hba::read(FILE)
            .unwrap()
            .method(&Visitor { address, tls, physical: false, database, user })
            .map(|method| method.auth)
    }

    #[test]
    fn the_first_line_that_fits_counts() {
        assert_eq!(method(None, false, "x", "y"), Some(AuthType::Trust));
        assert_eq!(method(Some("10.1.2.3"), false, "web", "bob"), Some(AuthType::Md5));
        assert_eq!(method(Some("::ffff:10.1.2.3"), false, "web", "bob"), Some(AuthType::Md5));
        assert_eq!(method(Some("10.2.2.3"), false, "web", "bob"), None);
        assert_eq!(method(Some("10.1.2.3"), false, "web", "all"), Some(AuthType::Md5), "a user called all");
        assert_eq!(method(Some("10.1.2.3"), false, "web", "dave"), None, "in quotes it does not mean everybody");
        assert_eq!(method(Some("1.2.3.4"), true, "web", "carol"), Some(AuthType::Cert));
        assert_eq!(method(Some("1.2.3.4"), false, "web", "carol"), None);
        assert_eq!(method(Some("2001:db8::1"), true, "dave", "dave"), Some(AuthType::Scram));
        assert_eq!(method(Some("2001:db8::1"), true, "app", "dave"), None);
        assert_eq!(method(Some("192.168.7.200"), false, "app", "eve"), Some(AuthType::Plain));
        assert_eq!(method(Some("192.168.8.1"), false, "app", "eve"), None);
        assert_eq!(method(Some("127.0.0.1"), false, "all", "x"), None, "rejected");
        assert_eq!(method(Some("127.0.0.1"), false, "pgbouncer", "x"), Some(AuthType::Scram));
    }

    #[test]
    fn what_is_proven_may_be_mapped() {
        let hba = Hba::read("local all all peer map=\"my map\"\nhostssl all all all cert map=c # by name").unwrap_err();
        assert_eq!(
            hba, "line 1: my map: the only option after the method is map=",
            "as in PostgreSQL, all of it is quoted"
        );
        let hba = Hba::read("local all all peer \"map=my map\"\nhostssl all all all cert map=c # by name").unwrap();
        let visitor = Visitor { address: None, tls: false, physical: false, database: "d", user: "u" };
        let peer = Method { auth: AuthType::Peer, map: Some("my map".to_owned()) };
        assert_eq!(hba.method(&visitor), Some(&peer));
        assert_eq!(hba.maps().collect::<Vec<_>>(), ["my map", "c"]);
    }

    #[test]
    fn what_is_not_understood_is_an_error_that_says_where() {
        for (line, message) in [
            ("hots all all all trust", "line 1: hots is not one of local, host, hostssl and hostnossl"),
            ("host all all", "line 1: the address is missing"),
            ("host all all db.example trust", "line 1: db.example is not an address; names are not looked up"),
            ("host all all 10.0.0.0/33 trust", "line 1: 10.0.0.0/33: no such length"),
            ("host all all 10.0.0.0 trust", "line 1: 10.0.0.0: a length (/32) or a mask must follow the address"),
            ("host all all 10.0.0.0 255.0.255.0 trust", "line 1: 255.0.255.0 is not a mask"),
            (
                "host all all all ldap",
                "line 1: ldap is not one of trust, reject, password, md5, scram-sha-256, cert and peer",
            ),
            ("host all all all cert", "line 1: cert needs hostssl"),
            ("host all +group all md5", "line 1: +group: groups, files and expressions are not supported"),
            ("\nlocal \"all all trust", "line 2: a quote is not closed"),
            (
                "hostssl all all all cert map=x clientname=DN",
                "line 1: clientname=DN: the only option after the method is map=",
            ),
            ("host all all all md5 map=x", "line 1: map= is for cert and peer"),
            ("local all all reject map=x", "line 1: map= is for cert and peer"),
            ("host all all all peer", "line 1: peer needs local"),
        ] {
            assert_eq!(Hba::read(line).unwrap_err(), message);
        }
    }
}

//! The HBA file: which users may connect to which databases from which addresses, and how they prove who they are. The
//! format is PostgreSQL's as PgBouncer accepts it: `local`, `host`, `hostssl` and `hostnossl`, databases, users,
//! addresses and a method; the first matching line counts. Everything that PgBouncer refuses is refused here too, and
//! so are its methods that need another service (ldap, pam).

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::config::value::AuthType;

/// A whole file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Hba {
    lines: Vec<Line>,
}

/// A client that wants to log in.
#[derive(Debug, Clone, Copy)]
pub struct Visitor<'a> {
    /// The address; `None` for the Unix socket.
    pub address: Option<IpAddr>,
    /// Whether the client speaks TLS.
    pub tls: bool,
    /// Whether the client asks for a connection of physical replication, which has no database.
    pub physical: bool,
    /// The database that the client asks for.
    pub database: &'a str,
    /// The user that the client claims to be.
    pub user: &'a str,
}

#[derive(Debug, Clone, PartialEq)]
struct Line {
    kind: Kind,
    databases: Vec<Name>,
    users: Vec<Name>,
    network: Option<IpNet>,
    method: Option<Method>,
}

/// The method by which a client has to prove its identity.
#[derive(Debug, Clone, PartialEq)]
pub struct Method {
    /// The kind of proof.
    pub auth: AuthType,
    /// The map of names that makes a user of the proven name; none if the names are the same.
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

    /// The method by which a client has to prove its identity; `None` if it may not log in.
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
            (Some(network), Some(address)) => network.contains(&address.to_canonical()),
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
        _ => Err(format!("the {what} must be one word")),
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
            network = Some(canonical(read));
            if !whole {
                // Either the mask, in the old form, or the method follows an address without a length.
                let word = one(next("method")?, "method")?;
                match word.parse::<IpAddr>() {
                    Ok(mask) => {
                        let masked = IpNet::with_netmask(read.addr(), mask);
                        let masked = masked.map_err(|_| format!("{mask} is not a mask for {address}"))?;
                        network = Some(canonical(masked));
                    }
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
            (Some(_), _) => return Err("map= is allowed only with the methods cert and peer".to_owned()),
            (None, _) => return Err(format!("{option}: the only option after the method is map=")),
        }
    }
    Ok(Line { kind, databases, users, network, method })
}

/// The method by which clients prove their identity; none to reject them.
fn read_method(word: &str, kind: Kind) -> Result<Option<Method>, String> {
    let auth = match word {
        "reject" => return Ok(None),
        "trust" => AuthType::Trust,
        "password" => AuthType::Plain,
        "md5" => AuthType::Md5,
        "scram-sha-256" => AuthType::Scram,
        "cert" if kind == Kind::HostSsl => AuthType::Cert,
        "cert" => return Err("the method cert needs a hostssl line".to_owned()),
        "peer" if kind == Kind::Local => AuthType::Peer,
        "peer" => return Err("the method peer needs a local line".to_owned()),
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

/// An address and the length of its significant part; whether the text gave the length.
fn read_network(text: &str) -> Result<(IpNet, bool), String> {
    let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
    let address: IpAddr = address.parse().map_err(|_| format!("{text} is not an address; names are not looked up"))?;
    let network = match length {
        Some(length) => length.parse().ok().and_then(|length| IpNet::new(address, length).ok()),
        None => Some(IpNet::from(address)),
    };
    Ok((network.ok_or_else(|| format!("{text}: the length after the slash is out of range"))?, length.is_some()))
}

/// The IPv4 network that an IPv6 network stands for, if it does: clients are told apart by their real addresses.
fn canonical(network: IpNet) -> IpNet {
    let mapped = |net: Ipv6Net| Ipv4Net::new(net.addr().to_ipv4_mapped()?, net.prefix_len().checked_sub(96)?).ok();
    match network {
        IpNet::V6(net) => mapped(net).map_or(network, IpNet::V4),
        IpNet::V4(_) => network,
    }
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
    fn networks_are_of_one_family_and_may_be_written_as_the_other() {
        for (network, inside, outside) in [
            ("10.1.0.0/16", "10.1.255.255", "10.2.0.0"),
            ("10.1.2.3/16", "10.1.255.255", "10.2.0.0"),
            ("10.1.2.3 255.255.0.0", "::ffff:10.1.255.255", "::ffff:10.2.0.0"),
            ("::ffff:10.1.0.0/112", "10.1.255.255", "10.2.0.0"),
            ("::ffff:10.1.2.3/128", "10.1.2.3", "10.1.2.4"),
            ("0.0.0.0/0", "255.0.0.1", "2001:db8::1"),
            ("::/0", "2001:db8::1", "10.1.2.3"),
            ("2001:db8:: ffff:ffff::", "2001:db8:7::1", "2001:db9::1"),
        ] {
            let hba = Hba::read(&format!("host all all {network} trust")).unwrap();
            let comes_in = |address: &str| {
                let address = Some(address.parse().unwrap());
                hba.method(&Visitor { address, tls: false, physical: false, database: "d", user: "u" }).is_some()
            };
            assert!(comes_in(inside) && !comes_in(outside), "{network}");
        }
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
            ("host all all 10.0.0.0/33 trust", "line 1: 10.0.0.0/33: the length after the slash is out of range"),
            ("host all all 10.0.0.0 trust", "line 1: 10.0.0.0: a length (/32) or a mask must follow the address"),
            ("host all all 10.0.0.0 255.0.255.0 trust", "line 1: 255.0.255.0 is not a mask for 10.0.0.0"),
            (
                "host all all all ldap",
                "line 1: ldap is not one of trust, reject, password, md5, scram-sha-256, cert and peer",
            ),
            ("host all all all cert", "line 1: the method cert needs a hostssl line"),
            ("host all +group all md5", "line 1: +group: groups, files and expressions are not supported"),
            ("\nlocal \"all all trust", "line 2: a quote is not closed"),
            (
                "hostssl all all all cert map=x clientname=DN",
                "line 1: clientname=DN: the only option after the method is map=",
            ),
            ("host all all all md5 map=x", "line 1: map= is allowed only with the methods cert and peer"),
            ("local all all reject map=x", "line 1: map= is allowed only with the methods cert and peer"),
            ("host all all all peer", "line 1: the method peer needs a local line"),
        ] {
            assert_eq!(Hba::read(line).unwrap_err(), message);
        }
    }
}

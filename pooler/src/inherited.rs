//! Sockets that another process hands over.

use std::os::fd::OwnedFd;

use pooling::io::Kind;

/// Sockets that were handed over and are not in use yet.
#[derive(Debug)]
pub struct Inherited<F = OwnedFd> {
    /// The sockets: what each is for, its address, and itself.
    pub sockets: Vec<(Kind, String, F)>,
}

impl<F> Default for Inherited<F> {
    fn default() -> Self {
        Self { sockets: Vec::new() }
    }
}

impl<F> Inherited<F> {
    /// The sockets that rows name in their order.
    pub fn read(rows: &[(String, String)], sockets: Vec<F>) -> Result<Self, String> {
        let mut sockets = sockets.into_iter();
        let mut inherited = Self::default();
        for (word, address) in rows {
            let (_, kind) = Kind::ALL
                .into_iter()
                .find(|(known, _)| known == word)
                .ok_or_else(|| format!("the running pooler hands over a socket of an unknown kind, {word}"))?;
            let socket = sockets.next().ok_or("the running pooler has named more sockets than it has handed over")?;
            inherited.sockets.push((kind, address.clone(), socket));
        }
        if sockets.next().is_some() {
            return Err("the running pooler has handed over more sockets than it has named".to_owned());
        }
        Ok(inherited)
    }

    /// Takes the socket of this kind that listens at this address, if there is one.
    pub fn take(&mut self, kind: Kind, address: &str) -> Option<F> {
        let place = self.sockets.iter().position(|(of, at, _)| *of == kind && at == address)?;
        Some(self.sockets.swap_remove(place).2)
    }

    /// The addresses of those that nobody has taken.
    pub fn unused(&self) -> impl Iterator<Item = &str> {
        self.sockets.iter().map(|(_, address, _)| address.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[(&str, &str)]) -> Vec<(String, String)> {
        rows.iter().map(|(kind, address)| ((*kind).to_owned(), (*address).to_owned())).collect()
    }

    #[test]
    fn sockets_are_taken_by_their_kind_and_address() {
        let named = rows(&[("tcp", "0.0.0.0:6432"), ("unix", "/tmp/.s.PGSQL.6432"), ("metrics", "127.0.0.1:9127")]);
        let mut inherited = Inherited::read(&named, vec!["t", "u", "m"]).unwrap();
        assert_eq!(inherited.take(Kind::Tcp, "127.0.0.1:9127"), None, "of another kind");
        assert_eq!(inherited.take(Kind::Tcp, "[::]:6432"), None);
        assert_eq!(inherited.take(Kind::Unix, "/tmp/.s.PGSQL.6432"), Some("u"));
        assert_eq!(inherited.take(Kind::Unix, "/tmp/.s.PGSQL.6432"), None, "once");
        assert_eq!(inherited.take(Kind::Metrics, "127.0.0.1:9127"), Some("m"));
        assert_eq!(inherited.unused().collect::<Vec<_>>(), ["0.0.0.0:6432"]);
    }

    #[test]
    fn names_and_sockets_that_do_not_match_are_refused() {
        assert!(Inherited::read(&rows(&[("tcp", "a")]), vec![1, 2]).is_err());
        assert!(Inherited::read(&rows(&[("tcp", "a"), ("tcp", "b")]), vec![1]).is_err());
        assert!(Inherited::read(&rows(&[("udp", "a")]), vec![1]).is_err());
    }
}

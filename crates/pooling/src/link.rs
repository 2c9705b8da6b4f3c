//! A connection to a server as a login sees it: bytes, and TLS when the server agrees to it.

use crate::io::{Cipher, Connector, Io};

/// A connection to a server.
#[derive(Debug)]
pub struct Link<'a> {
    /// The connection.
    pub io: &'a mut Io,
    /// The maker of TLS sessions with servers; `None` when TLS is disabled.
    pub connector: Option<&'a dyn Connector>,
    /// The host as it is configured: a certificate must be for this name.
    pub host: &'a str,
}

impl wire::login::Link for Link<'_> {
    fn out(&mut self) -> &mut Vec<u8> {
        self.io.out()
    }

    fn begin_tls(&mut self) -> Result<(), String> {
        // A reload may have turned it off since the server was asked.
        let connector = self.connector.ok_or("server_tls_sslmode = disable")?;
        let name = self.host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(self.host);
        self.io.begin_tls(connector.connect(name)?);
        Ok(())
    }

    fn is_encrypted(&self) -> bool {
        self.io.tls().is_some()
    }

    fn end_point(&self) -> Option<Vec<u8>> {
        self.io.tls().and_then(Cipher::end_point)
    }
}

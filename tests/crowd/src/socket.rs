//! Sockets that do not block, with TLS or without, and the bytes in flight on them.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

/// How TLS is spoken.
pub type Tls = Arc<ClientConfig>;

/// TLS that trusts the authorities of a file in PEM.
pub fn tls(authorities: &str) -> Result<Tls, String> {
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(authorities).map_err(|error| error.to_string())?;
    for certificate in certificates {
        roots.add(certificate.map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

/// What the two sides have agreed to speak.
#[derive(Debug)]
enum Layer {
    /// Nothing yet: TLS was asked for.
    Asked(Tls),
    /// Plain bytes.
    Plain,
    /// TLS.
    Tls(Box<ClientConnection>),
}

/// A connection.
#[derive(Debug)]
pub struct Socket {
    stream: TcpStream,
    layer: Layer,
    out: Vec<u8>,
    written: usize,
    /// What has come and was not yet taken.
    pub held: Vec<u8>,
    /// The other side has ended it, or it has failed.
    pub closed: bool,
    /// Why, where it failed.
    pub fault: Option<String>,
}

impl Socket {
    /// Begins to connect; with TLS, where that is given.
    pub fn open(address: SocketAddr, tls: Option<&Tls>, registry: &Registry, token: Token) -> io::Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        let _ = stream.set_nodelay(true);
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        let mut out = Vec::new();
        if tls.is_some() {
            wire::startup::write_ssl_request(&mut out);
        }
        let layer = tls.map_or(Layer::Plain, |tls| Layer::Asked(Arc::clone(tls)));
        Ok(Self { stream, layer, out, written: 0, held: Vec::new(), closed: false, fault: None })
    }

    /// The local address, for messages.
    pub fn name(&self) -> String {
        self.stream.local_addr().map_or_else(|_| "(closed)".to_owned(), |address| address.to_string())
    }

    /// Whether what is sent goes the way it should: with TLS, after its handshake.
    pub fn is_open(&self) -> bool {
        matches!(&self.layer, Layer::Plain) || matches!(&self.layer, Layer::Tls(tls) if !tls.is_handshaking())
    }

    /// Sends bytes, now or as soon as the socket takes them. Not before it is open.
    pub fn send(&mut self, bytes: &[u8]) {
        match &mut self.layer {
            Layer::Plain | Layer::Asked(_) => self.out.extend_from_slice(bytes),
            Layer::Tls(tls) => {
                let sent = tls.writer().write_all(bytes);
                self.fail_on(sent);
            }
        }
        self.write();
    }

    fn fail_on(&mut self, done: io::Result<()>) {
        if let Err(error) = done {
            self.closed = true;
            self.fault.get_or_insert_with(|| error.to_string());
        }
    }

    /// Writes what the socket takes.
    pub fn write(&mut self) {
        let done = self.try_write();
        self.fail_on(done);
    }

    fn try_write(&mut self) -> io::Result<()> {
        loop {
            let step = match &mut self.layer {
                Layer::Tls(tls) if tls.wants_write() => tls.write_tls(&mut self.stream).map(|_| ()),
                Layer::Tls(_) => return Ok(()),
                _ if self.written == self.out.len() => {
                    self.out.clear();
                    self.written = 0;
                    return Ok(());
                }
                _ => self.stream.write(&self.out[self.written..]).map(|count| self.written += count),
            };
            match step {
                Ok(()) => (),
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads all that is there. `scratch` is room that everybody may use.
    pub fn read(&mut self, scratch: &mut [u8]) {
        while !self.closed {
            match self.try_read(scratch) {
                Ok(true) => (),
                Ok(false) => self.closed = true,
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => break,
                Err(error) => self.fail_on(Err(error)),
            }
        }
    }

    /// Reads once; false at the end.
    fn try_read(&mut self, scratch: &mut [u8]) -> io::Result<bool> {
        match &mut self.layer {
            Layer::Plain => {
                let count = self.stream.read(scratch)?;
                self.held.extend_from_slice(&scratch[..count]);
                Ok(count > 0)
            }
            Layer::Asked(tls) => {
                let mut answer = [0];
                if self.stream.read(&mut answer)? == 0 {
                    return Ok(false);
                }
                if answer != *b"S" {
                    return Err(io::Error::other("TLS was refused"));
                }
                let name = ServerName::from(std::net::IpAddr::from([127, 0, 0, 1]));
                let mut session = ClientConnection::new(Arc::clone(tls), name).map_err(io::Error::other)?;
                session.set_buffer_limit(None);
                self.layer = Layer::Tls(Box::new(session));
                self.try_write()?;
                Ok(true)
            }
            Layer::Tls(tls) => {
                let count = tls.read_tls(&mut self.stream)?;
                let state = tls.process_new_packets().map_err(io::Error::other)?;
                let plain = state.plaintext_bytes_to_read();
                let at = self.held.len();
                self.held.resize(at + plain, 0);
                tls.reader().read_exact(&mut self.held[at..])?;
                self.try_write()?;
                Ok(count > 0)
            }
        }
    }

    /// Ends it with a FIN.
    pub fn finish(&mut self) {
        self.write();
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Ends it with a RST.
    pub fn reset(&mut self) {
        let _ = socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
    }
}

//! TLS, by rustls: its configuration from the settings, and the sessions of connections.
//!
//! The files of a configuration are read when the configuration is read, so that RELOAD takes new certificates, and
//! leaves the old ones in force if the new ones cannot be used. Sessions are not resumed and tickets not sent:
//! connections to a pooler last, and resumption would need memory for each of them.

mod session;
mod verify;

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, SupportedKxGroup, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedCipherSuite, SupportedProtocolVersion};

use pooling::config::settings::Settings;
use pooling::config::value::{AuthType, SslMode};

use pooling::io::{self, Cipher, Contexts};

pub use session::Session;
pub use wire::certificate::Certificate;

/// The name of PostgreSQL's protocol in ALPN.
pub const ALPN: &[u8] = b"postgresql";
/// Where systems keep the certificates of the world's authorities, for `system` as a CA file.
const SYSTEM_ROOTS: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// TLS with clients.
#[derive(Debug)]
pub struct Acceptor {
    config: Arc<ServerConfig>,
    /// The hash of the certificate that SCRAM binds to.
    end_point: Option<Vec<u8>>,
    /// Clients may show certificates.
    asks_for_certificates: bool,
}

/// TLS with servers.
#[derive(Debug)]
pub struct Connector {
    config: Arc<ClientConfig>,
}

/// What settings mean for TLS; the error says which setting is at fault. Remarks are added to the list.
pub fn read(settings: &Settings, remarks: &mut Vec<String>) -> Result<Contexts, String> {
    Ok(Contexts {
        acceptor: match settings.client_tls_sslmode {
            SslMode::Disable => None,
            mode => Some(Arc::new(Acceptor::read(settings, mode, remarks)?)),
        },
        connector: match settings.server_tls_sslmode {
            SslMode::Disable => None,
            mode => Some(Arc::new(Connector::read(settings, mode, remarks)?)),
        },
    })
}

impl io::Acceptor for Acceptor {
    fn accept(self: Arc<Self>, before: &[u8], held: &[u8]) -> Result<Box<dyn Cipher>, String> {
        Ok(Box::new(Session::accept(&self, before, held).map_err(|error| error.to_string())?))
    }
}

impl io::Connector for Connector {
    fn connect(&self, host: &str) -> Result<Box<dyn Cipher>, String> {
        Ok(Box::new(Session::connect(self, host).map_err(|error| error.to_string())?))
    }
}

impl Acceptor {
    pub fn read(settings: &Settings, mode: SslMode, remarks: &mut Vec<String>) -> Result<Self, String> {
        let (cert_file, key_file) = (&settings.client_tls_cert_file, &settings.client_tls_key_file);
        if cert_file.is_empty() || key_file.is_empty() {
            return Err(format!(
                "client_tls_sslmode = {}: client_tls_cert_file and client_tls_key_file must be set",
                mode.name()
            ));
        }
        let side = Side {
            name: "client",
            protocols: &settings.client_tls_protocols,
            ciphers: [&settings.client_tls_ciphers, &settings.client_tls13_ciphers],
            curves: &settings.client_tls_ecdhcurve,
        };
        let provider = Arc::new(side.provider(remarks)?);
        let key = certified_key("client", cert_file, key_file, &provider)?;
        let end_point = key.cert.first().and_then(|leaf| Certificate::read(leaf)?.end_point());
        let ca_file = &settings.client_tls_ca_file;
        let verifier = if mode.verifies() || settings.auth_type == AuthType::Hba && !ca_file.is_empty() {
            if ca_file.is_empty() {
                return Err(format!("client_tls_sslmode = {}: client_tls_ca_file must be set", mode.name()));
            }
            let (store, _) = roots("client_tls_ca_file", ca_file)?;
            let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(store), provider.clone());
            let builder = if mode.verifies() { builder } else { builder.allow_unauthenticated() };
            builder.build().map_err(|error| format!("client_tls_ca_file: {error}"))?
        } else {
            WebPkiClientVerifier::no_client_auth()
        };
        let asks_for_certificates = verifier.offer_client_auth();
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&side.versions(remarks)?)
            .map_err(|error| format!("client_tls_protocols: {error}"))?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self { config: Arc::new(config), end_point, asks_for_certificates })
    }
}

impl Connector {
    pub fn read(settings: &Settings, mode: SslMode, remarks: &mut Vec<String>) -> Result<Self, String> {
        let side = Side {
            name: "server",
            protocols: &settings.server_tls_protocols,
            ciphers: [&settings.server_tls_ciphers, &settings.server_tls13_ciphers],
            curves: &settings.server_tls_ecdhcurve,
        };
        let provider = Arc::new(side.provider(remarks)?);
        let roots = match (mode.verifies(), settings.server_tls_ca_file.as_str()) {
            (false, _) => None,
            (true, "") => {
                return Err(format!("server_tls_sslmode = {}: server_tls_ca_file must be set", mode.name()));
            }
            (true, file) => {
                let (store, certificates) = self::roots("server_tls_ca_file", file)?;
                Some(verify::Roots { store, certificates })
            }
        };
        let verifier = verify::Verifier {
            roots,
            names: mode == SslMode::VerifyFull,
            algorithms: provider.signature_verification_algorithms,
        };
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&side.versions(remarks)?)
            .map_err(|error| format!("server_tls_protocols: {error}"))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let (cert_file, key_file) = (&settings.server_tls_cert_file, &settings.server_tls_key_file);
        let mut config = match (cert_file.is_empty(), key_file.is_empty()) {
            (true, true) => builder.with_no_client_auth(),
            (false, false) => {
                let key = certified_key("server", cert_file, key_file, &provider)?;
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(key)))
            }
            _ => return Err("server_tls_cert_file and server_tls_key_file go together".to_owned()),
        };
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.resumption = rustls::client::Resumption::disabled();
        Ok(Self { config: Arc::new(config) })
    }
}

/// The settings of one side that choose among what rustls has.
struct Side<'a> {
    name: &'static str,
    protocols: &'a str,
    ciphers: [&'a str; 2],
    curves: &'a str,
}

impl Side<'_> {
    /// The versions of TLS: rustls has 1.2 and 1.3, so older ones are dropped and said.
    fn versions(&self, remarks: &mut Vec<String>) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
        let setting = format!("{}_tls_protocols", self.name);
        let mut versions = Vec::new();
        for word in words(self.protocols, &[',', ':', ' ']) {
            match word.to_ascii_lowercase().as_str() {
                "secure" | "default" | "all" | "legacy" => {
                    versions.extend([&rustls::version::TLS13, &rustls::version::TLS12]);
                }
                "tlsv1.3" => versions.push(&rustls::version::TLS13),
                "tlsv1.2" => versions.push(&rustls::version::TLS12),
                "tlsv1.0" | "tlsv1.1" | "tlsv1" => remarks.push(format!("{setting}: {word} is not supported")),
                _ => return Err(format!("{setting}: {word} is not one of secure, all, tlsv1.2, tlsv1.3")),
            }
        }
        versions.dedup();
        if versions.is_empty() {
            return Err(format!("{setting} = {}: no version is left; TLS 1.2 and 1.3 are supported", self.protocols));
        }
        Ok(versions)
    }

    /// What rustls has, without what the settings leave out.
    fn provider(&self, remarks: &mut Vec<String>) -> Result<CryptoProvider, String> {
        let mut provider = ring::default_provider();
        for (ciphers, suffix, newest) in [(self.ciphers[0], "", false), (self.ciphers[1], "13", true)] {
            let setting = format!("{}_tls{suffix}_ciphers", self.name);
            let of_here = |suite: &SupportedCipherSuite| suite.tls13().is_some() == newest;
            let Some(names) = named(ciphers) else { continue };
            let (known, unknown): (Vec<&str>, Vec<&str>) =
                names.into_iter().partition(|name| provider.cipher_suites.iter().any(|suite| is_named(*suite, name)));
            if !unknown.is_empty() {
                remarks.push(format!("{setting}: unknown: {}", unknown.join(":")));
            }
            let kept =
                |suite: &SupportedCipherSuite| !of_here(suite) || known.iter().any(|name| is_named(*suite, name));
            provider.cipher_suites.retain(kept);
            if !provider.cipher_suites.iter().any(of_here) {
                return Err(format!("{setting} = {ciphers}: none of these ciphers is supported"));
            }
        }
        if !matches!(self.curves, "" | "auto") {
            let setting = format!("{}_tls_ecdhcurve", self.name);
            let mut groups: Vec<&'static dyn SupportedKxGroup> = Vec::new();
            for name in words(self.curves, &[',', ':', ' ']) {
                groups.push(match name.to_ascii_lowercase().as_str() {
                    "x25519" => ring::kx_group::X25519,
                    "prime256v1" | "secp256r1" | "p-256" => ring::kx_group::SECP256R1,
                    "secp384r1" | "p-384" => ring::kx_group::SECP384R1,
                    _ => return Err(format!("{setting}: {name} is not one of auto, X25519, prime256v1, secp384r1")),
                });
            }
            provider.kx_groups = groups;
        }
        Ok(provider)
    }
}

/// The names in a list of ciphers; `None` when it only says what sort they shall be, which all of rustls's are.
fn named(ciphers: &str) -> Option<Vec<&str>> {
    let names = words(ciphers, &[':', ',', ' ']).into_iter();
    let names: Vec<&str> =
        names.filter(|name| name.contains(['-', '_']) && !name.starts_with(['!', '-', '+'])).collect();
    (!names.is_empty()).then_some(names)
}

fn words<'a>(text: &'a str, separators: &[char]) -> Vec<&'a str> {
    text.split(separators).filter(|word| !word.is_empty()).collect()
}

/// The name of a cipher suite as the standard has it.
fn suite_name(suite: SupportedCipherSuite) -> String {
    format!("{:?}", suite.suite()).replace("TLS13_", "TLS_")
}

/// Whether a suite is called so, by the standard's name or by OpenSSL's.
fn is_named(suite: SupportedCipherSuite, name: &str) -> bool {
    let standard = suite_name(suite);
    // TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 is ECDHE-RSA-AES128-GCM-SHA256 there.
    let openssl = standard.trim_start_matches("TLS_").replace("_WITH", "").replace("AES_", "AES").replace('_', "-");
    let openssl = openssl.replace("CHACHA20-POLY1305-SHA256", "CHACHA20-POLY1305");
    standard.eq_ignore_ascii_case(name) || suite.tls13().is_none() && openssl.eq_ignore_ascii_case(name)
}

/// A certificate with what leads to its root, and its key.
fn certified_key(
    side: &str,
    cert_file: &str,
    key_file: &str,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, String> {
    let chain = certificates(&format!("{side}_tls_cert_file"), cert_file)?;
    let complain = |message: &str| format!("{side}_tls_key_file: {key_file}: {message}");
    let key = PrivateKeyDer::from_pem_file(key_file).map_err(|error| complain(&error.to_string()))?;
    let as_pkcs8 = relabelled(&key);
    let load = |key| provider.key_provider.load_private_key(key);
    let key = load(key).or_else(|error| as_pkcs8.ok_or(error.clone()).and_then(|key| load(key).map_err(|_| error)));
    let key = key.map_err(|error| complain(&error.to_string()))?;
    let pair = CertifiedKey::new(chain, key);
    match pair.keys_match() {
        Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch)) => {
            Err(complain("it is not the key of the certificate"))
        }
        // Certificates of version 1 cannot be looked into; whether it is good enough is for the other side to say.
        _ => Ok(pair),
    }
}

/// A key whose label says that it is in the old form of its kind (`RSA PRIVATE KEY`), taken for one in PKCS#8: tools have
/// written such labels, and PgCat, OpenSSL and others take them.
fn relabelled(key: &PrivateKeyDer<'_>) -> Option<PrivateKeyDer<'static>> {
    match key {
        PrivateKeyDer::Pkcs1(_) | PrivateKeyDer::Sec1(_) => {
            Some(PrivateKeyDer::Pkcs8(key.secret_der().to_vec().into()))
        }
        _ => None,
    }
}

fn certificates(setting: &str, file: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let complain = |error: rustls::pki_types::pem::Error| format!("{setting}: {file}: {error}");
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file).map_err(complain)?.collect();
    match found.map_err(complain)? {
        found if found.is_empty() => Err(format!("{setting}: {file} has no certificate")),
        found => Ok(found),
    }
}

/// Whom a CA file says to trust. The system's own list may hold some that cannot be used; another file may not.
fn roots(setting: &str, file: &str) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), String> {
    let mut store = RootCertStore::empty();
    if file == "system" {
        let own = std::env::var("SSL_CERT_FILE").ok();
        let places = own.as_deref().into_iter().chain(SYSTEM_ROOTS.iter().copied());
        let place = places.into_iter().find(|place| std::path::Path::new(place).exists());
        let place = place.ok_or_else(|| format!("{setting}: the system's certificates were not found"))?;
        store.add_parsable_certificates(certificates(setting, place)?);
        return Ok((store, Vec::new()));
    }
    let found = certificates(setting, file)?;
    let mut usable = 0;
    let mut failure = String::new();
    for certificate in &found {
        match store.add(certificate.clone()) {
            Ok(()) => usable += 1,
            Err(error) => failure = error.to_string(),
        }
    }
    if usable == 0 {
        return Err(format!("{setting}: {file}: {failure}"));
    }
    Ok((store, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side<'a>(protocols: &'a str, ciphers: [&'a str; 2], curves: &'a str) -> Side<'a> {
        Side { name: "client", protocols, ciphers, curves }
    }

    #[test]
    fn protocols_are_those_that_are_named_and_known() {
        let versions = |text| side(text, ["", ""], "").versions(&mut Vec::new()).map(|versions| versions.len());
        assert_eq!(versions("secure"), Ok(2));
        assert_eq!(versions("tlsv1.3"), Ok(1));
        assert_eq!(versions("tlsv1.1,tlsv1.2"), Ok(1));
        assert!(versions("tlsv1.0").unwrap_err().contains("no version is left"));
        assert!(versions("sslv3").unwrap_err().contains("sslv3 is not one of"));
    }

    #[test]
    fn ciphers_are_taken_by_either_name_and_words_mean_all() {
        let suites = |ciphers, newest| {
            let provider = side("", [ciphers, newest], "").provider(&mut Vec::new());
            provider.map(|provider| provider.cipher_suites.len())
        };
        assert_eq!(suites("default", ""), Ok(9));
        assert_eq!(suites("HIGH:!aNULL:!MD5", ""), Ok(9));
        assert_eq!(suites("ECDHE-RSA-AES128-GCM-SHA256:AES256-SHA", ""), Ok(4));
        assert_eq!(suites("ECDHE-ECDSA-CHACHA20-POLY1305", ""), Ok(4));
        assert_eq!(suites("default", "TLS_AES_128_GCM_SHA256"), Ok(7));
        assert!(suites("AES256-SHA", "").unwrap_err().contains("none of these"));
    }

    #[test]
    fn curves_have_openssls_names_too() {
        let groups = |text| side("", ["", ""], text).provider(&mut Vec::new()).map(|provider| provider.kx_groups.len());
        assert_eq!(groups("auto"), Ok(3));
        assert_eq!(groups("prime256v1"), Ok(1));
        assert!(groups("sect571r1").unwrap_err().contains("sect571r1 is not one of"));
    }
}

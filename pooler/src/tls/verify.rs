//! How certificates of servers are verified, by libpq's sslmodes.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{
    CertificateDer, ServerName, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};

use wire::certificate::{Certificate, matches_name};

/// Verifies servers' certificates as far as the sslmode asks.
#[derive(Debug)]
pub struct Verifier {
    /// Whom to trust; `None` trusts everybody (up to `require`).
    pub roots: Option<Roots>,
    /// Whether the certificate must be for the host connected to (`verify-full`).
    pub names: bool,
    /// The signatures that are understood.
    pub algorithms: WebPkiSupportedAlgorithms,
}

/// Whom to trust.
#[derive(Debug)]
pub struct Roots {
    /// As issuers.
    pub store: RootCertStore,
    /// The certificates themselves: a server may show one of these, as a self-signed one that is its own root.
    pub certificates: Vec<CertificateDer<'static>>,
}

impl Roots {
    fn verify(
        &self,
        shown: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
        algorithms: &WebPkiSupportedAlgorithms,
    ) -> Result<(), Error> {
        // webpki does not take a certificate that may issue others for a server's; OpenSSL, and so libpq, does.
        if self.certificates.iter().any(|known| known == shown) {
            let certificate = Certificate::read(shown).ok_or(CertificateError::BadEncoding)?;
            return match certificate.is_valid_at(now.as_secs()) {
                true => Ok(()),
                false => Err(CertificateError::Expired.into()),
            };
        }
        if let Some(certificate) = Certificate::read(shown).filter(Certificate::is_version_1) {
            return self.verify_version_1(&certificate, now, algorithms);
        }
        let parsed = ParsedCertificate::try_from(shown)?;
        verify_server_cert_signed_by_trust_anchor(&parsed, &self.store, intermediates, now, algorithms.all)
    }

    /// A certificate of version 1, which webpki does not read, and OpenSSL makes unless it is told otherwise: the recipe
    /// in PostgreSQL's manual gives one. An authority among the trusted certificates must have issued it itself; there is
    /// no chain to build, and without extensions nothing else to look at.
    fn verify_version_1(
        &self,
        shown: &Certificate<'_>,
        now: UnixTime,
        algorithms: &WebPkiSupportedAlgorithms,
    ) -> Result<(), Error> {
        let trusted = self.certificates.iter().filter_map(|known| Certificate::read(known));
        let mut issuers = trusted.filter(|known| shown.names_issuer(known) && known.is_authority()).peekable();
        if issuers.peek().is_none() {
            return Err(Error::General(
                "the server's certificate is of X.509 version 1, and its issuer's is not among the certificates of \
                 server_tls_ca_file: add that one, or issue the server a certificate of version 3 (openssl x509 -req \
                 ... -extfile FILE, with basicConstraints=CA:FALSE in FILE)"
                    .to_owned(),
            ));
        }
        let (message, algorithm, signature) = shown.signed();
        let has_signed = |issuer: &Certificate<'_>| {
            let fits = |one: &&&dyn SignatureVerificationAlgorithm| one.signature_alg_id().as_ref() == algorithm;
            is_signed_by(issuer, message, signature, algorithms.all.iter().filter(fits).copied())
        };
        let seconds = now.as_secs();
        match issuers.find(has_signed) {
            None => Err(CertificateError::BadSignature.into()),
            Some(issuer) if issuer.is_valid_at(seconds) && shown.is_valid_at(seconds) => Ok(()),
            Some(_) => Err(CertificateError::Expired.into()),
        }
    }
}

/// Whether the key of a certificate has made this signature, by one of these algorithms.
fn is_signed_by<'a>(
    certificate: &Certificate<'_>,
    message: &[u8],
    signature: &[u8],
    mut algorithms: impl Iterator<Item = &'a dyn SignatureVerificationAlgorithm>,
) -> bool {
    let Some((kind, key)) = certificate.key() else { return false };
    algorithms
        .any(|one| one.public_key_alg_id().as_ref() == kind && one.verify_signature(key, message, signature).is_ok())
}

impl Verifier {
    /// Whether the certificate is for this host: by its alternative names, by its common name when it has none.
    fn verify_name(&self, shown: &CertificateDer<'_>, host: &ServerName<'_>) -> Result<(), Error> {
        let certificate = Certificate::read(shown).ok_or(CertificateError::BadEncoding)?;
        if certificate.has_alternative_names() {
            return verify_server_name(&ParsedCertificate::try_from(shown)?, host);
        }
        let presented: Vec<String> = certificate.common_name().map(str::to_owned).into_iter().collect();
        if presented.iter().any(|name| matches_name(name, &host.to_str())) {
            return Ok(());
        }
        Err(CertificateError::NotValidForNameContext { expected: host.to_owned(), presented }.into())
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(roots) = &self.roots {
            roots.verify(end_entity, intermediates, now, &self.algorithms)?;
        }
        if self.names {
            self.verify_name(end_entity, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let Some(certificate) = Certificate::read(cert).filter(Certificate::is_version_1) else {
            return verify_tls12_signature(message, cert, dss, &self.algorithms);
        };
        let known = self.algorithms.mapping.iter().find(|(scheme, _)| *scheme == dss.scheme);
        let algorithms = known.map_or(&[][..], |(_, algorithms)| algorithms);
        match is_signed_by(&certificate, message, dss.signature(), algorithms.iter().copied()) {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => Err(CertificateError::BadSignature.into()),
        }
    }

    // By the key alone: certificates of version 1, which OpenSSL makes unless told otherwise, are refused by webpki's
    // reader, and up to `require` nothing but their key matters. It must be checked even there, or SCRAM would be
    // bound to a certificate that somebody else only shows.
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let certificate = Certificate::read(cert).ok_or(CertificateError::BadEncoding)?;
        let key = SubjectPublicKeyInfoDer::from(certificate.public_key());
        verify_tls13_signature_with_raw_key(message, &key, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }

    fn root_hint_subjects(&self) -> Option<&[DistinguishedName]> {
        None
    }
}

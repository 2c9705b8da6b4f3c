//! The fields that are read from an X.509 certificate: the common name, the hash that SCRAM binds to, the validity, the
//! public key, and what says who has issued it. The reader of DER works on slices and never reads past their ends. Whether
//! a certificate is trusted is decided elsewhere.

use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

const BOOLEAN: u8 = 0x01;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OID: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const CONTEXT_0: u8 = 0xa0;
const CONTEXT_3: u8 = 0xa3;

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
const NAME_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x1e];
/// keyCertSign among the bits of a key's usage.
const SIGNS_CERTIFICATES: u8 = 0x04;
/// 1.2.840.113549.1.1: RSA signatures by number.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
/// 1.2.840.10045.4.3: ECDSA with SHA-2 by number.
const ECDSA_SHA2: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03];
/// 1.2.840.10045.4.1: ECDSA with SHA-1.
const ECDSA_SHA1: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x01];
/// 2.16.840.1.101.3.4.2: the SHA-2 hashes by number.
const SHA2: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02];

/// One element: its tag, its content, and itself with its header.
#[derive(Debug, Clone, Copy)]
struct Element<'a> {
    tag: u8,
    content: &'a [u8],
    whole: &'a [u8],
}

/// A sequence of elements, read one by one.
#[derive(Debug, Clone, Copy)]
struct Elements<'a>(&'a [u8]);

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    fn next(&mut self) -> Option<Element<'a>> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = if first < 0x80 {
            (usize::from(first), rest)
        } else {
            let count = usize::from(first & 0x7f);
            let (digits, rest) = rest.split_at_checked(count).filter(|_| (1..=4).contains(&count))?;
            (digits.iter().fold(0, |length, digit| (length << 8) | usize::from(*digit)), rest)
        };
        let (content, rest) = rest.split_at_checked(length)?;
        let whole = self.0.get(..self.0.len() - rest.len())?;
        self.0 = rest;
        Some(Element { tag, content, whole })
    }
}

impl<'a> Elements<'a> {
    /// The content of the next element, which must have this tag.
    fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|element| element.tag == tag).map(|element| element.content)
    }
}

/// A certificate, cut into the parts that are of use.
#[derive(Debug)]
pub struct Certificate<'a> {
    whole: &'a [u8],
    signed: &'a [u8],
    signature_algorithm: &'a [u8],
    signature: &'a [u8],
    is_version_1: bool,
    issuer: &'a [u8],
    validity: &'a [u8],
    subject: &'a [u8],
    public_key: &'a [u8],
    extensions: Option<&'a [u8]>,
}

impl<'a> Certificate<'a> {
    /// Cuts a certificate in DER; `None` when it is not one.
    pub fn read(der: &'a [u8]) -> Option<Self> {
        let mut parts = Elements(Elements(der).expect(SEQUENCE)?);
        let signed = parts.next().filter(|element| element.tag == SEQUENCE)?;
        let mut fields = Elements(signed.content);
        let signature_algorithm = parts.expect(SEQUENCE)?;
        let signature = bits(parts.expect(BIT_STRING)?)?;
        let mut serial = fields.next()?;
        // Version 1 is the one that is not named.
        let is_version_1 = serial.tag != CONTEXT_0;
        if !is_version_1 {
            serial = fields.next()?;
        }
        let _ = serial;
        // The algorithm outside is not signed: it must be the one inside.
        fields.expect(SEQUENCE).filter(|algorithm| *algorithm == signature_algorithm)?;
        let issuer = fields.expect(SEQUENCE)?;
        let validity = fields.expect(SEQUENCE)?;
        let subject = fields.expect(SEQUENCE)?;
        let public_key = fields.next().filter(|element| element.tag == SEQUENCE)?.whole;
        let extensions = fields.find(|element| element.tag == CONTEXT_3).map(|element| element.content);
        Some(Self {
            whole: der,
            signed: signed.whole,
            signature_algorithm,
            signature,
            is_version_1,
            issuer,
            validity,
            subject,
            public_key,
            extensions,
        })
    }

    /// The first common name of the subject. A name with a zero byte is none: somebody wants it to be cut there.
    pub fn common_name(&self) -> Option<&'a str> {
        let sets = Elements(self.subject).filter(|element| element.tag == SET);
        let value = sets.flat_map(|set| Elements(set.content)).find_map(|pair| {
            let mut pair = Elements(pair.content);
            (pair.expect(OID)? == COMMON_NAME).then(|| pair.next())?
        })?;
        // UTF8String, PrintableString, TeletexString and IA5String, the last three for what of them is ASCII.
        let text =
            std::str::from_utf8(value.content).ok().filter(|_| matches!(value.tag, 0x0c | 0x13 | 0x14 | 0x16))?;
        (!text.contains('\0')).then_some(text)
    }

    /// Whether it says for which names it is, so that the common name is none.
    pub fn has_alternative_names(&self) -> bool {
        self.extension(SUBJECT_ALT_NAME).is_some()
    }

    /// The value of an extension, without the octet string around it.
    fn extension(&self, name: &[u8]) -> Option<&'a [u8]> {
        let list = self.extensions.and_then(|extensions| Elements(extensions).expect(SEQUENCE));
        let mut extensions = Elements(list.unwrap_or_default());
        extensions
            .find_map(|extension| {
                let mut fields = Elements(extension.content);
                (fields.expect(OID) == Some(name)).then(|| fields.find(|field| field.tag == OCTET_STRING))?
            })
            .map(|value| value.content)
    }

    /// Whether it is of version 1, which has no extensions.
    pub fn is_version_1(&self) -> bool {
        self.is_version_1 && self.extensions.is_none()
    }

    /// Whether its names say that this certificate's subject has issued it. Who has signed it is another question.
    pub fn names_issuer(&self, issuer: &Certificate<'_>) -> bool {
        self.issuer == issuer.subject
    }

    /// Whether it may issue certificates for any names, as OpenSSL decides: an authority whose key may sign certificates,
    /// or one of version 1 that has issued itself.
    pub fn is_authority(&self) -> bool {
        if self.is_version_1() {
            return self.names_issuer(self);
        }
        let says_so = |value: &[u8]| {
            let first = Elements(value).expect(SEQUENCE).and_then(|fields| Elements(fields).next());
            first.is_some_and(|field| field.tag == BOOLEAN && field.content != [0])
        };
        let signs = |usage: &[u8]| {
            let flags = Elements(usage).expect(BIT_STRING).and_then(|content| content.get(1));
            flags.is_some_and(|flags| flags & SIGNS_CERTIFICATES != 0)
        };
        self.extension(BASIC_CONSTRAINTS).is_some_and(says_so)
            && self.extension(KEY_USAGE).is_none_or(signs)
            && self.extension(NAME_CONSTRAINTS).is_none()
    }

    /// The bytes that are signed, the contents of the algorithm's identifier, and the signature.
    pub fn signed(&self) -> (&'a [u8], &'a [u8], &'a [u8]) {
        (self.signed, self.signature_algorithm, self.signature)
    }

    /// The public key: the contents of its algorithm's identifier, and its bits.
    pub fn key(&self) -> Option<(&'a [u8], &'a [u8])> {
        let mut fields = Elements(Elements(self.public_key).expect(SEQUENCE)?);
        Some((fields.expect(SEQUENCE)?, bits(fields.expect(BIT_STRING)?)?))
    }

    /// The SubjectPublicKeyInfo in DER.
    pub fn public_key(&self) -> &'a [u8] {
        self.public_key
    }

    /// What `tls-server-end-point` of RFC 5929 binds to: the certificate hashed by the hash of its own signature, by
    /// SHA-256 when that is MD5 or SHA-1. `None` when the signature has no hash of its own, as Ed25519.
    pub fn end_point(&self) -> Option<Vec<u8>> {
        let mut algorithm = Elements(self.signature_algorithm);
        let oid = algorithm.expect(OID)?;
        let bits = match oid.split_last()? {
            (4 | 5, RSA) => 256,
            (10, RSA) => pss_hash(algorithm)?,
            (11, RSA) | (2, ECDSA_SHA2) => 256,
            (12, RSA) | (3, ECDSA_SHA2) => 384,
            (13, RSA) | (4, ECDSA_SHA2) => 512,
            (14, RSA) | (1, ECDSA_SHA2) => 224,
            _ if oid == ECDSA_SHA1 => 256,
            _ => return None,
        };
        Some(match bits {
            224 => Sha224::digest(self.whole).to_vec(),
            384 => Sha384::digest(self.whole).to_vec(),
            512 => Sha512::digest(self.whole).to_vec(),
            _ => Sha256::digest(self.whole).to_vec(),
        })
    }

    /// Whether a time, in seconds since 1970, lies within the validity; false when that cannot be read.
    pub fn is_valid_at(&self, seconds: u64) -> bool {
        let mut times = Elements(self.validity);
        let (begin, end) = (times.next().and_then(time), times.next().and_then(time));
        let now = civil(seconds);
        begin.is_some_and(|begin| begin <= now) && end.is_some_and(|end| now <= end)
    }
}

/// The bytes of a bit string, which must be whole ones.
fn bits(content: &[u8]) -> Option<&[u8]> {
    content.split_first().filter(|(unused, _)| **unused == 0).map(|(_, bytes)| bytes)
}

/// The hash in the parameters of RSASSA-PSS; SHA-1, and so SHA-256, when they do not say.
fn pss_hash(mut algorithm: Elements<'_>) -> Option<u32> {
    let parameters = algorithm.expect(SEQUENCE)?;
    let Some(hash) = Elements(parameters).find(|element| element.tag == CONTEXT_0) else { return Some(256) };
    let oid = Elements(Elements(hash.content).expect(SEQUENCE)?).expect(OID)?;
    match oid.split_last()? {
        (1, SHA2) => Some(256),
        (2, SHA2) => Some(384),
        (3, SHA2) => Some(512),
        (4, SHA2) => Some(224),
        _ => Some(256),
    }
}

/// A time as `YYYYMMDDHHMMSS`.
fn time(element: Element<'_>) -> Option<u64> {
    let text = std::str::from_utf8(element.content).ok()?.strip_suffix('Z')?;
    let number: u64 = text.parse().ok()?;
    match (element.tag, text.len()) {
        // Years of two digits are from 1950 to 2049.
        (UTC_TIME, 12) if number < 500_000_000_000 => Some(20_000_000_000_000 + number),
        (UTC_TIME, 12) => Some(19_000_000_000_000 + number),
        (GENERALIZED_TIME, 14) => Some(number),
        _ => None,
    }
}

/// Seconds since 1970 as `YYYYMMDDHHMMSS`: the calendar counted in years that begin in March, so that a leap day is
/// the last day of one.
fn civil(seconds: u64) -> u64 {
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let date = (year * 100 + month) * 100 + day;
    ((date * 100 + second / 3600) * 100 + second / 60 % 60) * 100 + second % 60
}

/// Whether a host matches a common name, as libpq takes it: letters of any case, `*.` for one label.
pub fn matches_name(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix("*.") {
        Some(tail) => {
            host.split_once('.').is_some_and(|(label, rest)| !label.is_empty() && rest.eq_ignore_ascii_case(tail))
        }
        None => pattern.eq_ignore_ascii_case(host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `openssl req -x509 -newkey ec -subj /O=Howdah/CN=db.example -days 3650`, valid from 2026-11-21.
    const DER: &[u8] = include_bytes!("../tests/data/ecdsa.der");

    #[test]
    fn a_certificate_is_cut_into_its_parts() {
        let certificate = Certificate::read(DER).unwrap();
        assert_eq!(certificate.common_name(), Some("db.example"));
        assert!(!certificate.has_alternative_names());
        assert_eq!(certificate.end_point().unwrap(), Sha384::digest(DER).to_vec(), "it is signed with SHA-384");
        assert_eq!(certificate.public_key().first(), Some(&SEQUENCE));
        assert!(certificate.is_valid_at(1_800_000_000), "2027");
        assert!(!certificate.is_valid_at(1_700_000_000), "2023");
        assert!(!certificate.is_valid_at(2_500_000_000), "2049");
    }

    #[test]
    fn the_hash_of_rsassa_pss_stands_in_its_parameters() {
        // `openssl req -x509 -newkey rsa:1024 -subj /CN=db -sha384 -sigopt rsa_padding_mode:pss`
        let named = include_bytes!("../tests/data/rsa_pss_sha384.der");
        assert_eq!(Certificate::read(named).unwrap().end_point(), Some(Sha384::digest(named).to_vec()));
        // With `-sha1`, which need not be named.
        let unnamed = include_bytes!("../tests/data/rsa_pss_sha1.der");
        assert_eq!(Certificate::read(unnamed).unwrap().end_point(), Some(Sha256::digest(unnamed).to_vec()));
    }

    #[test]
    fn a_certificate_cut_anywhere_or_broken_anywhere_is_survived() {
        for end in 0..DER.len() {
            assert!(Certificate::read(&DER[..end]).is_none());
        }
        for at in 0..DER.len() {
            for value in [0, 0x30, 0x7f, 0x80, 0x84, 0xff] {
                let mut broken = DER.to_vec();
                broken[at] = value;
                if let Some(certificate) = Certificate::read(&broken) {
                    let _ = (certificate.common_name(), certificate.end_point(), certificate.is_valid_at(0));
                    let _ = (certificate.has_alternative_names(), certificate.is_authority(), certificate.key());
                }
            }
        }
    }

    #[test]
    fn seconds_become_dates() {
        for (seconds, date) in [
            (0, 19_700_101_000_000),
            (951_782_399, 20_000_228_235_959),
            (951_782_400, 20_000_229_000_000),
            (1_709_251_200, 20_240_301_000_000),
            (4_102_444_799, 20_991_231_235_959),
        ] {
            assert_eq!(civil(seconds), date);
        }
    }

    #[test]
    fn a_star_stands_for_one_label() {
        for (pattern, host, same) in [
            ("db.example", "DB.example", true),
            ("*.example", "db.example", true),
            ("*.example", "a.db.example", false),
            ("*.example", ".example", false),
            ("*", "db", false),
            ("db*.example", "db1.example", false),
        ] {
            assert_eq!(matches_name(pattern, host), same, "{pattern} {host}");
        }
    }
}

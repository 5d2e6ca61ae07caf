//! Whom we believe: the system's authorities, private ones, or one certificate by its fingerprint.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, OtherError, RootCertStore, SignatureScheme};

use crate::error::{Distrust, Error};

/// On top of the system's authorities, which are those of `SSL_CERT_FILE` and `SSL_CERT_DIR` where these are set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trust {
    /// PEM files with authorities, or with a server's own certificate.
    pub authorities: Vec<PathBuf>,
    /// If there are any, only servers that show one of these certificates are believed, and those whatever else their
    /// certificate says.
    pub fingerprints: Vec<Fingerprint>,
    /// What we show to servers that ask who we are.
    pub identity: Option<Identity>,
}

/// Our own certificate, in PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub certificate: PathBuf,
    /// May be the same file.
    pub key: PathBuf,
}

/// SHA-256 of a certificate, as `openssl x509 -fingerprint -sha256` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    fn of(certificate: &CertificateDer<'_>) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, certificate).as_ref());
        Self(bytes)
    }
}

impl FromStr for Fingerprint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refused = || Error::Fingerprint { text: text.to_owned() };
        let (prefix, digits) = text.split_at_checked(7).unwrap_or_default();
        let digits = if prefix.eq_ignore_ascii_case("sha256:") { digits } else { text };
        let digits: Vec<u32> =
            digits.chars().filter(|letter| *letter != ':').map(|letter| letter.to_digit(16).unwrap_or(99)).collect();
        if digits.len() != 64 || digits.contains(&99) {
            return Err(refused());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            *byte = u8::try_from(pair.iter().fold(0, |number, digit| number * 16 + digit)).map_err(|_| refused())?;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Trust {
    /// Reads all files.
    pub(crate) fn config(&self) -> Result<Arc<ClientConfig>, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = Verifier::new(self, &provider)?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(Error::Setup)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let key =
                    PrivateKeyDer::from_pem_file(&identity.key).map_err(|error| unreadable(&identity.key, error))?;
                builder.with_client_auth_cert(certificates(&identity.certificate)?, key).map_err(Error::Setup)?
            }
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.map_err(|error| unreadable(path, error))?;
    if found.is_empty() {
        return Err(Error::NoCertificate { path: path.to_owned() });
    }
    Ok(found)
}

fn unreadable(path: &Path, source: rustls::pki_types::pem::Error) -> Error {
    Error::Pem { path: path.to_owned(), source }
}

/// Judges a server's certificate, and says which one it was when it is not believed.
#[derive(Debug)]
struct Verifier {
    /// Missing where nobody is trusted but by fingerprint.
    chain: Option<Arc<WebPkiServerVerifier>>,
    own: Vec<CertificateDer<'static>>,
    fingerprints: Vec<Fingerprint>,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    fn new(trust: &Trust, provider: &Arc<CryptoProvider>) -> Result<Self, Error> {
        let own: Vec<CertificateDer<'static>> =
            trust.authorities.iter().map(|path| certificates(path)).collect::<Result<Vec<_>, _>>()?.concat();
        let chain = if trust.fingerprints.is_empty() { Some(chain_verifier(&own, provider)?) } else { None };
        Ok(Self { chain, own, fingerprints: trust.fingerprints.clone(), provider: Arc::clone(provider) })
    }

    fn judge(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(chain) = &self.chain else {
            let is_pinned = self.fingerprints.contains(&Fingerprint::of(certificate));
            let other = || rustls::Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure);
            return is_pinned.then(ServerCertVerified::assertion).ok_or_else(other);
        };
        let judged = chain.verify_server_cert(certificate, intermediates, name, ocsp, now);
        if judged.is_err() && self.own.contains(certificate) {
            // A server's own certificate that the person gave us is no authority, and need not be one.
            verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
            return Ok(ServerCertVerified::assertion());
        }
        judged
    }
}

fn chain_verifier(
    own: &[CertificateDer<'static>],
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots.add_parsable_certificates(own.iter().cloned());
    if roots.is_empty() {
        return Err(Error::NoAuthorities);
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| Error::Setup(rustls::Error::General(error.to_string())))
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let judged = self.judge(certificate, intermediates, name, ocsp, now);
        judged.map_err(|error| {
            let distrust = Distrust::new(&error, Fingerprint::of(certificate));
            rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(distrust))))
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_read_as_openssl_writes_them() {
        let plain = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
        let colons: Vec<String> =
            plain.as_bytes().chunks(2).map(|two| String::from_utf8_lossy(two).to_uppercase()).collect();
        let one: Fingerprint = plain.parse().unwrap();
        assert_eq!(one.to_string(), format!("sha256:{plain}"));
        assert_eq!(colons.join(":").parse::<Fingerprint>().unwrap(), one);
        assert_eq!(one.to_string().to_uppercase().parse::<Fingerprint>().unwrap(), one);
        for text in ["", "sha256:", "sha1:00", &plain[1..], "zz", "größe₿"] {
            assert!(text.parse::<Fingerprint>().is_err(), "{text}");
        }
    }
}

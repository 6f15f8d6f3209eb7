//! TLS of connections. The certificates and their key are read again when their files change.

use super::byte_stream::ByteStream;
use crate::state::reloading::{self, LastProblem, invalid};
use crate::state::unix_time;
use crate::telemetry::metrics::CERTIFICATE_EXPIRY;
use crate::telemetry::rare_warning::RareWarning;
use metrics::gauge;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::server::TlsStream;
use x509_cert::Certificate;
use x509_cert::der::{self, Decode};

/// Protocols that clients negotiate by ALPN, in the order of preference.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Settings of TLS. Clones share the certificates.
#[derive(Debug, Clone)]
pub(crate) struct Tls {
    config: Arc<ServerConfig>,
    certificates: Arc<Certificates>,
}

/// The certificates of two files, and what their last reading found.
struct Certificates {
    chain: PathBuf,
    key: PathBuf,
    current: RwLock<Current>,
    problem: LastProblem,
    hasher: RandomState,
}

/// From the latest beginning to the first end of a chain's certificates, in Unix time in seconds.
#[derive(Debug, Clone, Copy)]
struct Validity {
    begin: f64,
    end: f64,
}

/// The certificate of new connections.
#[derive(Clone)]
struct Current {
    certified: Arc<CertifiedKey>,
    /// Hash of both files.
    digest: u64,
    /// Times at which all certificates of the chain are valid.
    validity: Validity,
}

impl Tls {
    /// The certificates in `chain`, the server's own first, and the private key in `key`, both in PEM.
    ///
    /// # Errors
    /// A file cannot be read, has no certificate or no key, or the key is not the first certificate's.
    pub(crate) fn new(chain: PathBuf, key: PathBuf) -> io::Result<Self> {
        let hasher = RandomState::new();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let current = Current::read(&chain, &key, &provider, &hasher)?;
        let validity = current.validity;
        let current = RwLock::new(current);
        let certificates = Arc::new(Certificates { chain, key, current, problem: LastProblem::of("tls"), hasher });
        validity.warn(&certificates);
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(|error| invalid(&error.to_string()))?.with_no_client_auth();
        let mut config = config.with_cert_resolver(Arc::<Certificates>::clone(&certificates));
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        Ok(Self { config: Arc::new(config), certificates })
    }

    /// Reads the files again. The certificates in use stay valid if the new ones are not: files are replaced one after the other.
    pub(crate) fn refresh(&self, was_asked: bool) {
        let of = &self.certificates;
        let known = of.current.read().unwrap_or_else(PoisonError::into_inner).digest;
        let problem = match Current::read(&of.chain, &of.key, self.config.crypto_provider(), &of.hasher) {
            Ok(read) => {
                if read.digest != known {
                    tracing::info!("{of} was reloaded");
                    read.validity.warn(of);
                }
                gauge!(CERTIFICATE_EXPIRY).set(read.validity.end);
                *of.current.write().unwrap_or_else(PoisonError::into_inner) = read;
                None
            }
            Err(problem) => Some(problem.to_string()),
        };
        of.problem.record(of, problem, was_asked, "the previous certificates");
    }

    /// The stream inside TLS.
    ///
    /// # Errors
    /// The client does not complete the handshake in time, or its handshake fails.
    pub(super) async fn accept(
        &self,
        stream: Box<dyn ByteStream>,
        timeout: Duration,
    ) -> io::Result<Box<dyn ByteStream>> {
        let handshake = TlsAcceptor::from(Arc::clone(&self.config)).accept(stream);
        let stream = tokio::time::timeout(timeout, handshake).await.map_err(|_| ErrorKind::TimedOut)?;
        Ok(Box::new(TlsConnection(stream.inspect_err(warn_of_handshake)?)))
    }
}

/// Warns of a client that does not speak TLS or does not accept the certificate, once a minute at most. Probes that only connect
/// are no failures.
fn warn_of_handshake(error: &io::Error) {
    static FAILURES: RareWarning = RareWarning::new();
    if error.kind() == ErrorKind::InvalidData
        && let Some(failures) = FAILURES.is_due(Instant::now())
    {
        let is_plain = error.to_string().contains("InvalidContentType");
        let cause = if is_plain { "; the client may use http:// instead of https://" } else { "" };
        tracing::warn!(failures, "a TLS handshake failed: {error}{cause}");
    }
}

impl Validity {
    fn of(chain: &[CertificateDer<'_>]) -> der::Result<Self> {
        let mut all = Self { begin: 0.0, end: f64::INFINITY };
        for certificate in chain {
            let certificate = Certificate::from_der(certificate)?;
            let own = certificate.tbs_certificate().validity();
            let [begin, end] = [own.not_before, own.not_after].map(|time| time.to_unix_duration().as_secs_f64());
            all = Self { begin: all.begin.max(begin), end: all.end.min(end) };
        }
        Ok(all)
    }

    /// The state of the certificates that clients refuse at this Unix time in seconds.
    fn problem(self, now: f64) -> Option<&'static str> {
        match self {
            Self { end, .. } if end <= now => Some("has expired"),
            Self { begin, .. } if begin > now => Some("is not valid yet"),
            _ => None,
        }
    }

    fn warn(self, of: &Certificates) {
        if let Some(problem) = self.problem(unix_time() as f64) {
            tracing::warn!("{of}: a certificate of the chain {problem}, so clients will refuse it");
        }
    }
}

impl Current {
    fn read(chain: &Path, key: &Path, provider: &CryptoProvider, hasher: &RandomState) -> io::Result<Self> {
        let of_file = |path: &Path, problem: &dyn fmt::Display| invalid(&format!("{}: {problem}", path.display()));
        let texts = [chain, key].map(|path| reloading::read(path).map_err(|error| of_file(path, &error)));
        let [(certificates, _), (private, _)] = match texts {
            [Ok(certificates), Ok(private)] => [certificates, private],
            [Err(error), _] | [_, Err(error)] => return Err(error),
        };
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificates.as_bytes()).collect();
        let found = found.map_err(|error| of_file(chain, &error))?;
        if found.is_empty() {
            return Err(of_file(chain, &"has no certificate in PEM"));
        }
        let validity = Validity::of(&found).map_err(|error| of_file(chain, &error))?;
        let of_key = |_| of_file(key, &"has no private key in PEM that is not encrypted");
        let private_key = PrivateKeyDer::from_pem_slice(private.as_bytes()).map_err(of_key)?;
        let certified = CertifiedKey::from_der(found, private_key, provider);
        let certified =
            certified.map_err(|error| of_file(key, &format!("does not fit {}: {error}", chain.display())))?;
        Ok(Self { certified: Arc::new(certified), digest: hasher.hash_one((certificates, private)), validity })
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner).certified))
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").field("chain", &self.chain).field("key", &self.key).finish_non_exhaustive()
    }
}

impl fmt::Display for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (--tls-cert) with {} (--tls-key)", self.chain.display(), self.key.display())
    }
}

/// A client's stream inside TLS.
struct TlsConnection(TlsStream<Box<dyn ByteStream>>);

impl AsFd for TlsConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.get_ref().0.as_fd()
    }
}

impl AsyncRead for TlsConnection {
    /// An end of the stream without TLS's closing message is an end too: a request's own length shows whether it is
    /// complete.
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.0).poll_read(context, buf) {
            Poll::Ready(Err(error)) if error.kind() == ErrorKind::UnexpectedEof => Poll::Ready(Ok(())),
            read => read,
        }
    }
}

impl AsyncWrite for TlsConnection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;

//! Certificates that are read, refused and replaced.

use super::*;
use std::fs;
use tempfile::TempDir;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

const FIRST: [&str; 2] = [
    include_str!("../../../../tests/fixtures/tls/first.cert.pem"),
    include_str!("../../../../tests/fixtures/tls/first.key.pem"),
];
const SECOND: [&str; 2] = [
    include_str!("../../../../tests/fixtures/tls/second.cert.pem"),
    include_str!("../../../../tests/fixtures/tls/second.key.pem"),
];
/// The end that `openssl x509 -enddate` reads: 4 November 2126, 11:28:39 UTC.
const EXPIRY_OF_FIRST: f64 = 4_949_465_319.0;
const ENCRYPTED: &str = include_str!("../../../../tests/fixtures/tls/encrypted.key.pem");

/// A folder with the files `cert` and `key`.
struct Files(TempDir);

impl Files {
    fn new([cert, key]: [&str; 2]) -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        files.write("cert", cert);
        files.write("key", key);
        files
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).unwrap();
    }

    fn open(&self) -> io::Result<Tls> {
        Tls::new(self.0.path().join("cert"), self.0.path().join("key"))
    }
}

/// True if a client that trusts only `cert` completes the handshake.
async fn is_shown(tls: &Tls, [cert, _]: [&str; 2]) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(cert.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    let connector = TlsConnector::from(Arc::new(config.with_no_client_auth()));
    let (server, client) = tokio::net::UnixStream::pair().unwrap();
    let accepted = tls.accept(Box::new(server), Duration::from_secs(60));
    let connected = connector.connect(ServerName::try_from("localhost").unwrap(), client);
    let (accepted, connected) = tokio::join!(accepted, connected);
    accepted.is_ok() && connected.is_ok()
}

#[tokio::test]
async fn a_certificate_is_replaced_once_both_files_fit() {
    let files = Files::new(FIRST);
    let tls = files.open().unwrap();
    assert!(is_shown(&tls, FIRST).await && !is_shown(&tls, SECOND).await);
    let validity = tls.certificates.current.read().unwrap().validity;
    assert_eq!(validity.end, EXPIRY_OF_FIRST);
    let problems =
        [validity.begin - 1.0, validity.begin, validity.end - 1.0, validity.end].map(|now| validity.problem(now));
    assert_eq!(problems, [Some("is not valid yet"), None, None, Some("has expired")]);
    for cert in [SECOND[0], "", "half"] {
        files.write("cert", cert);
        tls.refresh(false);
        assert!(is_shown(&tls, FIRST).await, "{cert}");
    }
    files.write("cert", SECOND[0]);
    files.write("key", SECOND[1]);
    tls.refresh(false);
    assert!(is_shown(&tls, SECOND).await && !is_shown(&tls, FIRST).await);
    fs::remove_file(files.0.path().join("key")).unwrap();
    tls.refresh(true);
    assert!(is_shown(&tls, SECOND).await);
}

#[test]
fn files_that_do_not_fit_are_refused_by_name() {
    for (cert, key, [file, problem]) in [
        ("", FIRST[1], ["cert", "has no certificate"]),
        (FIRST[1], FIRST[1], ["cert", "has no certificate"]),
        ("-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n", FIRST[1], ["cert", ""]),
        (FIRST[0], "", ["key", "has no private key"]),
        (FIRST[0], FIRST[0], ["key", "has no private key"]),
        (FIRST[0], ENCRYPTED, ["key", "not encrypted"]),
        (FIRST[0], SECOND[1], ["key", "does not fit"]),
        (FIRST[0], &"#".repeat((1 << 20) + 1), ["key", "at most 1048576 bytes"]),
    ] {
        let refused = Files::new([cert, key]).open().unwrap_err().to_string();
        assert!(refused.contains(&format!("/{file}: ")) && refused.contains(problem), "{refused}");
    }
    let files = Files::new(FIRST);
    fs::remove_file(files.0.path().join("cert")).unwrap();
    assert!(files.open().unwrap_err().to_string().contains("/cert: No such file"));
}

#[tokio::test]
async fn a_handshake_that_does_not_come_ends() {
    let tls = Files::new(FIRST).open().unwrap();
    let (server, _client) = tokio::net::UnixStream::pair().unwrap();
    let error = tls.accept(Box::new(server), Duration::from_millis(50)).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}

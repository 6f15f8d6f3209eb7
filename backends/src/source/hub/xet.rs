//! Downloads from Xet, the hub's storage for large files, by its own client. That client reads whatever the storage sends, so its memory
//! is watched here.

use super::body::{Body, Piece};
use super::client::Client;
use super::failure::{Failure, chain};
use super::resume::Answer;
use super::watch::Meter;
use reqwest::Url;
use serde::Deserialize;
use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use xet::xet_session::{XetConfig, XetDownloadStream, XetDownloadStreamGroup, XetFileInfo, XetSessionBuilder};

/// Maximum bytes of the response with the storage token; it has some hundred.
const MAX_TOKEN_BYTES: u64 = 64 << 10;
/// Buffer of the client for data that is not yet written: several seconds of a fast line.
const BUFFER: &str = "512mb";
/// Maximum growth of the process's memory during the download of a file, in bytes: the buffer, the unpacked data, and the plan of a
/// large file.
const MAX_GROWTH: u64 = 3 << 29;
/// Interval between looks at the memory.
const LOOK: Duration = Duration::from_millis(20);
/// Seconds before the end of a token's validity at which it counts as expired.
const MARGIN: u64 = 60;

/// A file that is downloaded from the storage.
pub(super) struct XetFile<'a> {
    client: &'a Client,
    meter: &'a Meter,
    /// URL that gives a token for the storage.
    token_url: Url,
    hash: String,
    size: u64,
    /// Bytes received so far.
    done: u64,
    opened: Opened,
    memory: Memory,
}

/// A stream with the token that it was opened with.
struct Opened {
    group: XetDownloadStreamGroup,
    stream: XetDownloadStream,
    /// Offset in the file.
    start: u64,
    /// Expiry of the token, in seconds since 1970.
    expires: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Token {
    access_token: String,
    exp: u64,
    cas_url: String,
}

impl<'a> XetFile<'a> {
    /// # Errors
    /// The hub gives no token, or the storage fails.
    pub(super) async fn open(
        client: &'a Client,
        token_url: Url,
        hash: String,
        size: u64,
        meter: &'a Meter,
    ) -> Result<Self, Failure> {
        let memory = Memory::now();
        let opened = memory.watch(Opened::new(client, &token_url, &hash, 0..size, meter)).await?;
        Ok(Self { client, meter, token_url, hash, size, done: 0, opened, memory })
    }
}

impl Body for XetFile<'_> {
    async fn piece(&mut self) -> Result<Option<Piece<impl AsRef<[u8]>>>, Failure> {
        loop {
            let stream = &mut self.opened.stream;
            match self.memory.watch(async { Ok(stream.next().await) }).await? {
                // The client may end a stream before it reports why.
                Ok(None) if self.done < self.size => {
                    return Err(Failure::Xet(format!("the stream ended after {} of {} bytes", self.done, self.size)));
                }
                Ok(piece) => {
                    self.done += piece.as_ref().map_or(0, |piece| piece.len() as u64);
                    return Ok(piece.map(Piece::Bytes));
                }
                // The client could request tokens by itself, but would follow redirects with the hub's token.
                Err(_) if self.opened.is_expired() && self.opened.start < self.done && self.done < self.size => {
                    let rest = self.done..self.size;
                    let opened = Opened::new(self.client, &self.token_url, &self.hash, rest, self.meter);
                    self.opened = self.memory.watch(opened).await?;
                }
                Err(error) => return Err(Failure::Xet(chain(&error))),
            }
        }
    }
}

impl Opened {
    async fn new(
        client: &Client,
        token_url: &Url,
        hash: &str,
        range: std::ops::Range<u64>,
        meter: &Meter,
    ) -> Result<Self, Failure> {
        let answer = Answer::open(client, token_url.clone(), None, meter).await?.whole(MAX_TOKEN_BYTES, |_| ()).await?;
        let token: Token = serde_json::from_slice(&answer)
            .map_err(|error| Failure::Xet(format!("the response with the storage token is malformed: {error}")))?;
        // The client would also accept URLs of folders and of memory, and create them.
        if !Url::parse(&token.cas_url).is_ok_and(|url| matches!(url.scheme(), "http" | "https")) {
            return Err(Failure::Xet(format!("the storage URL {:.200?} is not an HTTP URL", token.cas_url)));
        }
        let failed = |error| Failure::Xet(chain(&error));
        let mut config = XetConfig::new();
        config.reconstruction.download_buffer_size = BUFFER.into();
        config.reconstruction.download_buffer_perfile_size = "0mb".into();
        config.reconstruction.download_buffer_limit = BUFFER.into();
        let session = XetSessionBuilder::new_with_config(config).build().map_err(failed)?;
        let group = session.new_download_stream_group().map_err(failed)?;
        let group = group.with_endpoint(token.cas_url).with_token_info(token.access_token, token.exp);
        let group = group.build().await.map_err(failed)?;
        let (start, size) = (range.start, range.end);
        let range = (start > 0).then_some(range);
        let file = XetFileInfo::new(hash.to_owned(), size);
        let mut stream = group.download_stream(file, range).await.map_err(failed)?;
        stream.start();
        Ok(Self { group, stream, start, expires: token.exp })
    }

    fn is_expired(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        now.saturating_add(MARGIN) >= self.expires
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // The client works on threads of its own until it is stopped.
        self.stream.cancel();
        let _ = self.group.abort();
    }
}

/// Memory of the process before a download.
struct Memory {
    /// Bytes; `None` if the system does not report them.
    before: Option<u64>,
}

impl Memory {
    fn now() -> Self {
        Self { before: resident() }
    }

    /// Waits for work, and fails if the process grows beyond the limit.
    async fn watch<T>(&self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        tokio::select! {
            biased;
            result = work => result,
            () = self.exceeded() => Err(Failure::Xet(format!("the download needed more memory than the limit of {MAX_GROWTH} bytes"))),
        }
    }

    async fn exceeded(&self) {
        let Some(before) = self.before else { return std::future::pending().await };
        while resident().is_none_or(|now| now.saturating_sub(before) <= MAX_GROWTH) {
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Resident memory of the process, in bytes.
fn resident() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? << 10)
}

//! Responses that continue after their connection breaks off.

use super::body::{Body, Piece, start};
use super::client::{ByteRange, Client, FIRST_DELAY, MAX_ATTEMPTS};
use super::failure::Failure;
use super::watch::Meter;
use reqwest::header::{CONTENT_RANGE, ETAG, HeaderValue};
use reqwest::{Response, StatusCode, Url};

/// Bytes after which a broken connection counts as progress and resets the number of attempts.
const PROGRESS: u64 = 64 << 10;
/// Maximum restarts of a body from its first byte, if the server cannot send the rest of the same content.
const MAX_RESTARTS: u32 = 2;

/// The response to GET, whose body is requested again from where it broke off.
pub(super) struct Answer<'a> {
    client: &'a Client,
    meter: &'a Meter,
    url: Url,
    /// Number of requested bytes; the whole body if absent.
    first: Option<u64>,
    response: Response,
    content: Content,
    /// Bytes of the content received so far.
    done: u64,
    /// Bytes received since the last break.
    gained: u64,
    /// Attempts without progress.
    attempts: u32,
    restarts: u32,
}

/// Identity of a body's content.
#[derive(Debug, PartialEq)]
struct Content {
    /// The strong ETag; without one, two contents cannot be distinguished.
    tag: Option<HeaderValue>,
    /// Bytes of the whole, if they are stated.
    total: Option<u64>,
}

impl<'a> Answer<'a> {
    /// Requests a whole body, or its first bytes.
    ///
    /// # Errors
    /// There is no response, or its status is not success.
    pub(super) async fn open(
        client: &'a Client,
        url: Url,
        first: Option<u64>,
        meter: &'a Meter,
    ) -> Result<Self, Failure> {
        let part = ByteRange { start: 0, end: first, content: None };
        let response = client.get(url.clone(), &part, meter).await?;
        let content = Content::of(&response);
        Ok(Self { client, meter, url, first, response, content, done: 0, gained: 0, attempts: 0, restarts: 0 })
    }

    /// Bytes of the body, if they are stated.
    pub(super) fn length(&self) -> Option<u64> {
        self.response.content_length()
    }

    /// A whole body of at most `limit` bytes; `seen` is called with the number so far.
    ///
    /// # Errors
    /// The body is longer, or breaks off for good.
    pub(super) async fn whole(mut self, limit: u64, seen: impl Fn(u64)) -> Result<Vec<u8>, Failure> {
        let body = start(&mut self, limit + 1, seen).await?;
        if body.len() as u64 > limit { Err(Failure::TooLong(limit)) } else { Ok(body) }
    }

    /// Requests the rest of the body after `cause` broke it off; returns `true` if it begins again from its first byte.
    ///
    /// # Errors
    /// There were too many attempts without progress or too many restarts, or the server refuses.
    async fn reconnect(&mut self, mut cause: Failure) -> Result<bool, Failure> {
        if std::mem::take(&mut self.gained) >= PROGRESS {
            self.attempts = 0;
        }
        while self.attempts < MAX_ATTEMPTS {
            tokio::time::sleep(FIRST_DELAY * 2_u32.pow(self.attempts)).await;
            self.attempts += 1;
            let start = if self.content.tag.is_some() { self.done } else { 0 };
            tracing::debug!("{}: {cause}; requesting it again from byte {start}", self.url.path());
            let content = self.content.tag.clone().filter(|_| start > 0);
            let part = ByteRange { start, end: self.first, content };
            match self.client.get(self.url.clone(), &part, self.meter).await {
                Ok(response) if start > 0 && self.is_rest(&response) => {
                    self.response = response;
                    return Ok(false);
                }
                // Another range, or a range of another content.
                Ok(response) if start > 0 && response.status() == StatusCode::PARTIAL_CONTENT => {
                    self.content.tag = None;
                }
                Ok(response) => {
                    self.restarts += u32::from(self.done > 0);
                    if self.restarts > MAX_RESTARTS {
                        return Err(cause);
                    }
                    self.content = Content::of(&response);
                    (self.response, self.done) = (response, 0);
                    return Ok(true);
                }
                Err(Failure::Status { status: 416, .. }) if start > 0 => self.content.tag = None,
                Err(failure) if failure.is_unreachable() || matches!(failure, Failure::Request { .. }) => {
                    cause = failure;
                }
                Err(failure) => return Err(failure),
            }
        }
        Err(cause)
    }

    /// `true` for a response with the rest of the same content.
    fn is_rest(&self, response: &Response) -> bool {
        let range = response.headers().get(CONTENT_RANGE).and_then(|range| range.to_str().ok());
        let start = range.and_then(|range| range.strip_prefix("bytes ")?.split_once('-')?.0.parse().ok());
        let other = Content::of(response);
        let is_same_size = self.content.total.zip(other.total).is_none_or(|(one, other)| one == other);
        response.status() == StatusCode::PARTIAL_CONTENT
            && start == Some(self.done)
            && other.tag == self.content.tag
            && is_same_size
    }
}

impl Content {
    fn of(response: &Response) -> Self {
        let tag = response.headers().get(ETAG).filter(|tag| tag.as_bytes().starts_with(b"\"")).cloned();
        let range = response.headers().get(CONTENT_RANGE).and_then(|range| range.to_str().ok());
        let total = match response.status() {
            StatusCode::PARTIAL_CONTENT => range.and_then(|range| range.rsplit_once('/')?.1.parse().ok()),
            _ => response.content_length(),
        };
        Self { tag, total }
    }
}

impl Body for Answer<'_> {
    async fn piece(&mut self) -> Result<Option<Piece<impl AsRef<[u8]>>>, Failure> {
        loop {
            match self.response.chunk().await {
                Ok(piece) => {
                    let bytes = piece.as_ref().map_or(0, |piece| piece.len() as u64);
                    (self.done, self.gained) = (self.done.saturating_add(bytes), self.gained.saturating_add(bytes));
                    return Ok(piece.map(Piece::Bytes));
                }
                Err(error) => {
                    if self.reconnect(Failure::request(&error)).await? {
                        return Ok(Some(Piece::Restart));
                    }
                }
            }
        }
    }
}

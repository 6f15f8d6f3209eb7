//! Bodies of responses, read piece by piece.

use super::failure::Failure;
use reqwest::Response;

/// A part of a body.
pub(super) enum Piece<B> {
    /// The next bytes.
    Bytes(B),
    /// The body begins again: discard the bytes so far.
    Restart,
}

/// A body that comes in pieces.
pub(super) trait Body {
    /// The next piece; `None` at the end.
    async fn piece(&mut self) -> Result<Option<Piece<impl AsRef<[u8]>>>, Failure>;
}

impl Body for Response {
    async fn piece(&mut self) -> Result<Option<Piece<impl AsRef<[u8]>>>, Failure> {
        let piece = self.chunk().await.map_err(|error| Failure::request(&error))?;
        Ok(piece.map(Piece::Bytes))
    }
}

/// The first `bytes` bytes of a body, or all if there are fewer; `seen` is called with the number so far.
///
/// # Errors
/// The body breaks off, or there is no memory for it.
pub(super) async fn start(body: &mut impl Body, bytes: u64, seen: impl Fn(u64)) -> Result<Vec<u8>, Failure> {
    let mut start = Vec::new();
    while (start.len() as u64) < bytes
        && let Some(piece) = body.piece().await?
    {
        match piece {
            Piece::Restart => start.clear(),
            Piece::Bytes(piece) => {
                let piece = piece.as_ref();
                let left = usize::try_from(bytes).unwrap_or(usize::MAX) - start.len();
                let piece = &piece[..piece.len().min(left)];
                start.try_reserve(piece.len()).map_err(|_| Failure::TooLong(start.len() as u64))?;
                start.extend_from_slice(piece);
            }
        }
        seen(start.len() as u64);
    }
    Ok(start)
}

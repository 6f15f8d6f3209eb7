//! Downloads of single files into the cache.

use super::body::{Body, Piece};
use super::cache::Incomplete;
use super::failure::Failure;
use super::listing::{FileFacts, Listing};
use super::resume::Answer;
use super::watch::{Kind, Meter, follow, lock_file};
use super::xet::XetFile;
use super::{Download, defaults, verify};
use crate::error::LoadError;
use reqwest::Url;
use std::fs;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};

impl Download<'_> {
    /// Downloads a file unless it is in the cache, and returns the folder of the commit's files. A file that fails
    /// verification is removed, and downloaded again if it came from the cache.
    pub(super) async fn fetch(&self, listing: &Listing, file: &str) -> Result<PathBuf, LoadError> {
        let folder = self.cache.snapshot(&listing.commit);
        let path = folder.join(file);
        if path.exists() {
            let Err(problem) = verify::check(&path, file, None) else { return Ok(folder) };
            if listing.is_cached {
                return Err(self.error(file, problem));
            }
            self.discard(&path, &folder, file, &problem)?;
            tracing::warn!("{}: {problem}; downloading it again", path.display());
        }
        let meter = Meter::new(file, self.model.show_progress);
        let size = self.download(listing, file, &meter).await.map_err(|failure| self.failed(file, failure))?;
        let Err(problem) = verify::check(&path, file, size) else { return Ok(folder) };
        self.discard(&path, &folder, file, &problem)?;
        Err(self.error(file, format!("{problem}; it was discarded, try again")))
    }

    fn discard(&self, path: &Path, folder: &Path, file: &str, problem: &str) -> Result<(), LoadError> {
        verify::discard(path, folder).map_err(|error| {
            self.error(
                file,
                format!("{problem}; remove {} by hand, because removing it failed: {error}", path.display()),
            )
        })
    }

    /// Downloads a file's content if the cache lacks it, and links the commit's file to it. Returns the expected size.
    async fn download(&self, listing: &Listing, file: &str, meter: &Meter) -> Result<Option<u64>, Failure> {
        self.spent.add_file()?;
        let silence = self.model.timeout;
        let head = self.client.head(self.file_url(&listing.commit, file), meter);
        let heads = follow(head, meter, silence, Kind::Small).await?;
        let facts = FileFacts::read(&heads, &listing.commit)?;
        let blob = self.cache.blob(&facts.etag);
        fs::create_dir_all(blob.parent().unwrap_or(&blob)).map_err(Failure::Cache)?;
        let _lock = lock_file(&self.cache.lock(&facts.etag), &blob, silence).await?;
        let size = if blob.exists() { facts.size } else { self.content(listing, file, &facts, &blob, meter).await? };
        self.cache.link(&listing.commit, file, &facts.etag)?;
        Ok(size)
    }

    /// Downloads a file's content, and returns the expected size.
    async fn content(
        &self,
        listing: &Listing,
        file: &str,
        facts: &FileFacts,
        blob: &Path,
        meter: &Meter,
    ) -> Result<Option<u64>, Failure> {
        let silence = self.model.timeout;
        // The limits are checked before the request.
        let limit = facts.size.map(|size| self.spent.limit(file, Some(size)).and_then(|limit| self.space(limit)));
        let limit = limit.transpose()?;
        if let Some((hash, size)) = facts.xet.as_ref().filter(|_| defaults::uses_xet()).zip(limit) {
            let token = self.url(["api", "models"], ["xet-read-token", &listing.commit]);
            let opened = XetFile::open(&self.client, token, hash.clone(), size, meter);
            match follow(opened, meter, silence, Kind::Small).await {
                Ok(mut body) => {
                    self.store(&mut body, file, blob, size, Some(size), meter).await?;
                    return Ok(Some(size));
                }
                // A mirror may repeat the hub's headers without having its storage.
                Err(failure @ Failure::Status { .. }) => {
                    tracing::warn!(
                        "{file}: no token for the hub's Xet storage ({failure}); downloading it from the hub itself"
                    );
                }
                Err(failure) => return Err(failure),
            }
        }
        let request = Answer::open(&self.client, self.file_url(&listing.commit, file), None, meter);
        let mut answer = follow(request, meter, silence, Kind::Small).await?;
        let size = facts.size.or_else(|| answer.length());
        let limit = self.space(self.spent.limit(file, size)?)?;
        self.store(&mut answer, file, blob, limit, size, meter).await?;
        Ok(size)
    }

    fn space(&self, bytes: u64) -> Result<u64, Failure> {
        self.cache.check_space(bytes).map(|()| bytes)
    }

    /// Writes a body to the cache, of at most `limit` bytes.
    async fn store(
        &self,
        body: &mut impl Body,
        file: &str,
        blob: &Path,
        limit: u64,
        size: Option<u64>,
        meter: &Meter,
    ) -> Result<(), Failure> {
        if let Some(size) = size {
            meter.set_length(size);
        }
        let mut incomplete = Incomplete::create(blob)?;
        let written = follow(write(body, &mut incomplete.file, limit, meter), meter, self.model.timeout, Kind::File);
        self.spent.add_bytes(file, written.await?);
        incomplete.keep(blob)
    }

    /// URL of a file of a commit.
    pub(super) fn file_url(&self, commit: &str, file: &str) -> Url {
        self.url([], ["resolve", commit].into_iter().chain(file.split('/')))
    }
}

/// Writes a body to a file, and returns its length.
async fn write(body: &mut impl Body, file: &mut fs::File, limit: u64, meter: &Meter) -> Result<u64, Failure> {
    let mut bytes = 0_u64;
    while let Some(piece) = body.piece().await? {
        match piece {
            Piece::Restart => {
                bytes = 0;
                file.set_len(0).and_then(|()| file.rewind()).map_err(Failure::Cache)?;
            }
            Piece::Bytes(piece) => {
                let piece = piece.as_ref();
                bytes = bytes.saturating_add(piece.len() as u64);
                if bytes > limit {
                    return Err(Failure::TooLong(limit));
                }
                file.write_all(piece).map_err(Failure::Cache)?;
            }
        }
        meter.set_completed(bytes);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces of a body; `None` begins it again.
    struct Pieces(Vec<Option<&'static str>>);

    impl Body for Pieces {
        async fn piece(&mut self) -> Result<Option<Piece<impl AsRef<[u8]>>>, Failure> {
            let piece = (!self.0.is_empty()).then(|| self.0.remove(0));
            Ok(piece.map(|piece| piece.map_or(Piece::Restart, Piece::Bytes)))
        }
    }

    #[tokio::test]
    async fn a_body_that_begins_again_leaves_nothing_of_what_came_before() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("file");
        let mut file = fs::File::create(&path).unwrap();
        let mut body = Pieces(vec![Some("a longer"), Some(" beginning"), None, Some("short")]);
        let written = write(&mut body, &mut file, 18, &Meter::new("file", false)).await.unwrap();
        assert_eq!((written, fs::read_to_string(&path).unwrap().as_str()), (5, "short"));
        let mut longer = Pieces(vec![Some("short"), None, Some("shorte"), Some("r")]);
        let refused = write(&mut longer, &mut file, 6, &Meter::new("file", false)).await;
        assert!(matches!(refused, Err(Failure::TooLong(6))));
    }
}

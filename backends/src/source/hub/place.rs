//! Addresses of requests, and where redirects lead. The hub's token goes to the hub alone.

use super::failure::Failure;
use reqwest::header::LOCATION;
use reqwest::{Response, Url};

/// Redirects that are followed for one request; the real hub needs two.
pub(super) const MAX_REDIRECTS: usize = 10;

/// Address of a request.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) url: Url,
    /// The request has been redirected to no other host than the hub's own; only then it may carry the token.
    pub(super) is_hub: bool,
}

impl Place {
    /// An address of the hub itself.
    pub(super) fn of_hub(url: Url) -> Self {
        Self { url, is_hub: true }
    }

    /// Where the response leads, if it is a redirect. Any form of a `Location` is resolved to a full address first, and that is compared
    /// with the hub's by scheme, host and port. Once a redirect has left the hub, none leads back to it.
    ///
    /// # Errors
    /// It leads to no address, or to one that is not of HTTP.
    pub(super) fn next(&self, response: &Response) -> Result<Option<Self>, Failure> {
        if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
            return Ok(None);
        }
        let Some(location) = response.headers().get(LOCATION) else { return Ok(None) };
        let nowhere = || Failure::Answer(format!("it is redirected to {location:.200?}, which is no address"));
        let location = location.to_str().map_err(|_| nowhere())?;
        self.redirected(location).map(Some).ok_or_else(nowhere)
    }

    fn redirected(&self, location: &str) -> Option<Self> {
        let mut url = self.url.join(location).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
        let is_hub = self.is_hub && url.origin() == self.url.origin();
        // A user and password in the hub's address are credentials as well.
        let (user, password) = match is_hub {
            true => (self.url.username(), self.url.password()),
            false => ("", None),
        };
        url.set_username(user).ok()?;
        url.set_password(password).ok()?;
        Some(Self { url, is_hub })
    }
}

#[cfg(test)]
mod tests {
    use super::Place;
    use reqwest::Url;

    #[test]
    fn a_redirect_leaves_the_hub_whatever_the_form_of_its_location() {
        let hub = Place::of_hub(Url::parse("https://me:secret@hub.test/a/b").unwrap());
        for inside in
            ["/c", "c", "?d", "https://hub.test/c", "https://hub.test:443/c", "//hub.test/c", "HTTPS://HUB.test/c"]
        {
            let next = hub.redirected(inside).unwrap();
            assert!(next.is_hub && next.url.password() == Some("secret"), "{inside}");
        }
        for outside in [
            "https://other.test/c",
            "//other.test/c",
            "/\\other.test/c",
            "\\\\other.test/c",
            "/\t/other.test/c",
            "https:\\\\other.test/c",
            "https:/\\other.test/c",
            "https://hub.test:444/c",
            "http://hub.test/c",
            "http://hub.test:443/c",
            "https://hub.test.other.test/c",
            "https://hub.test@other.test/c",
            "//me:secret@other.test/c",
        ] {
            let next = hub.redirected(outside).unwrap();
            assert!(!next.is_hub && next.url.password().is_none() && next.url.username().is_empty(), "{outside}");
            for back in ["/d", "https://hub.test/d"] {
                assert!(!next.redirected(back).unwrap().is_hub, "{outside} and back");
            }
        }
        for nowhere in [
            "file:///etc/passwd",
            "ftp://hub.test/c",
            "https://",
            "data:,x",
            "https://hub.test:99999/",
            "///other.test/c",
        ] {
            assert!(hub.redirected(nowhere).is_none(), "{nowhere}");
        }
    }
}

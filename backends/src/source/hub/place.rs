//! URLs of requests, and where redirects lead. The hub's token goes to the hub alone.

use super::failure::Failure;
use reqwest::header::LOCATION;
use reqwest::{Response, Url};

/// Maximum redirects of one request; the real hub needs two.
pub(super) const MAX_REDIRECTS: usize = 10;

/// URL of a request.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) url: Url,
    /// No redirect led to another host or from HTTPS to HTTP; only then the request may carry the token.
    pub(super) is_hub: bool,
}

impl Place {
    /// A URL of the hub itself.
    pub(super) fn of_hub(url: Url) -> Self {
        Self { url, is_hub: true }
    }

    /// Target of the response if it is a redirect. Any form of a `Location` is resolved to a full URL, whose scheme, host and port are
    /// compared with the hub's. A redirect from HTTP to HTTPS on the default ports of one host stays at the hub. Once a redirect has left
    /// the hub, none leads back.
    ///
    /// # Errors
    /// It does not lead to an HTTP URL.
    pub(super) fn next(&self, response: &Response) -> Result<Option<Self>, Failure> {
        if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
            return Ok(None);
        }
        let Some(location) = response.headers().get(LOCATION) else { return Ok(None) };
        let nowhere = || Failure::Answer(format!("the redirect to {location:.200?} does not lead to an HTTP URL"));
        let location = location.to_str().map_err(|_| nowhere())?;
        self.redirected(location).map(Some).ok_or_else(nowhere)
    }

    fn redirected(&self, location: &str) -> Option<Self> {
        let mut url = self.url.join(location).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
        let is_hub = self.is_hub && (url.origin() == self.url.origin() || is_upgrade(&self.url, &url));
        // A user and password in the hub's URL are credentials too.
        let (user, password) = if is_hub { (self.url.username(), self.url.password()) } else { ("", None) };
        url.set_username(user).ok()?;
        url.set_password(password).ok()?;
        Some(Self { url, is_hub })
    }
}

/// `true` for a redirect from HTTP to HTTPS on the default ports of one host, which encrypts the token. In the other direction anyone on the
/// network could read it.
fn is_upgrade(from: &Url, to: &Url) -> bool {
    let is_default = |url: &Url, scheme| url.scheme() == scheme && url.port().is_none();
    is_default(from, "http") && is_default(to, "https") && from.host() == to.host()
}

#[cfg(test)]
mod tests {
    use super::Place;
    use reqwest::Url;

    #[test]
    fn a_redirect_from_http_to_https_of_the_same_host_stays_at_the_hub() {
        let hub = Place::of_hub(Url::parse("http://me:secret@hub.test/a").unwrap());
        for inside in ["https://hub.test/a", "https://hub.test:443/a", "HTTPS://HUB.test/a"] {
            let next = hub.redirected(inside).unwrap();
            assert!(next.is_hub && next.url.password() == Some("secret"), "{inside}");
            assert!(next.redirected("/b").unwrap().is_hub, "{inside}");
            // Back to HTTP the token would be shown, and does not come again.
            let back = next.redirected("http://hub.test/a").unwrap();
            assert!(!back.is_hub && back.url.password().is_none(), "{inside}");
            assert!(!back.redirected("https://hub.test/a").unwrap().is_hub, "{inside}");
        }
        for outside in
            ["https://hub.test:8443/a", "https://hub.test:80/a", "https://www.hub.test/a", "https://other.test/a"]
        {
            assert!(!hub.redirected(outside).unwrap().is_hub, "{outside}");
        }
        let other_port = Place::of_hub(Url::parse("http://hub.test:8080/a").unwrap());
        for outside in ["https://hub.test/a", "https://hub.test:8080/a", "https://hub.test:8443/a"] {
            assert!(!other_port.redirected(outside).unwrap().is_hub, "{outside}");
        }
    }

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

//! Address of the server under load, as typed by users.

use reqwest::Url;

/// Base URL without a trailing slash, with `http://` before an address without a scheme.
///
/// # Errors
/// A description of the problem for the user.
pub(crate) fn base_url(text: &str) -> Result<String, String> {
    let text = text.trim();
    let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let Some((_, rest)) = whole.split_once("://").filter(|(scheme, _)| is_http(scheme)) else {
        return Err("must begin with http:// or https://".to_owned());
    };
    if rest.is_empty() || rest.starts_with(['/', ':', '?', '#']) {
        return Err("has no host; an address is like localhost:3000 or https://example.com".to_owned());
    }
    let url = Url::parse(&whole).map_err(|error| error.to_string())?;
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must end before `?` and `#`: the path of requests is appended (--path)".to_owned());
    }
    Ok(whole.trim_end_matches('/').to_owned())
}

fn is_http(scheme: &str) -> bool {
    ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_is_the_scheme_of_an_address_without_one() {
        for (text, expected) in [
            ("localhost:3000", "http://localhost:3000"),
            ("127.0.0.1", "http://127.0.0.1"),
            ("[::1]:3000/base/", "http://[::1]:3000/base"),
            ("example.com/a", "http://example.com/a"),
            (" http://a:1/ ", "http://a:1"),
            ("HTTPS://a", "HTTPS://a"),
        ] {
            assert_eq!(base_url(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_in_words_for_users() {
        for (text, words) in [
            ("", "has no host"),
            ("http://", "has no host"),
            (":3000", "has no host"),
            ("/embed", "has no host"),
            ("://a", "must begin with http://"),
            ("ftp://a", "must begin with http://"),
            ("localhost:x", "invalid port number"),
            ("localhost:70000", "invalid port number"),
            ("a b", "invalid"),
            ("a?b=1", "must end before `?`"),
        ] {
            let error = base_url(text).unwrap_err();
            assert!(error.contains(words) && !error.contains("relative URL"), "{text}: {error}");
        }
    }
}

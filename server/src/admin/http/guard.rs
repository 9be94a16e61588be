//! Which requests are let through: those of programs on this machine, not those that a page
//! in a browser on this machine makes for somebody elsewhere.
//!
//! A loopback address is no wall against a browser: any page may ask it for something, and
//! one whose name has been pointed at 127.0.0.1 may also read the answer. The first is known
//! by what browsers say of a request, the second by the name under which the gateway was
//! called, which is then none of its own.

use std::{net::IpAddr, str::FromStr as _};

use axum::{
    extract::{Request, State},
    http::{
        HeaderMap, HeaderName, HeaderValue, StatusCode, Uri,
        header::{self, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, X_CONTENT_TYPE_OPTIONS},
        uri::Authority,
    },
    middleware::Next,
    response::{IntoResponse as _, Response},
};

/// What browsers say of where a request comes from, and of what kind it is.
const FETCH_SITE: &str = "sec-fetch-site";
const FETCH_MODE: &str = "sec-fetch-mode";

/// What every answer tells a browser: nothing of it is kept, guessed at, run or shown in
/// another page.
const HEADERS: [(HeaderName, HeaderValue); 4] = [
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"),
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
];

/// The names under which the admin address may be called: this machine's own, and the
/// address that is listened on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    own: IpAddr,
}

impl Names {
    /// Of a listener on that address.
    #[must_use]
    pub(crate) const fn of(own: IpAddr) -> Self {
        Self { own }
    }

    /// Whether a name, with or without a port, is one of them.
    fn has(self, name: &str) -> bool {
        let Ok(authority) = Authority::from_str(name) else {
            return false;
        };
        let host = authority.host();
        // The parser lets a user stand before the host and more behind an address in brackets.
        let port = authority.as_str().strip_prefix(host);
        if !port.is_some_and(is_port) {
            return false;
        }
        let bracketed = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        match bracketed.unwrap_or(host).parse::<IpAddr>() {
            Ok(address) => {
                let address = address.to_canonical();
                address.is_loopback() || address == self.own.to_canonical()
            }
            Err(_) => {
                let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
                host == "localhost" || host.ends_with(".localhost")
            }
        }
    }

    /// Why a request is not answered; `None`: it is.
    fn refusal(self, uri: &Uri, headers: &HeaderMap) -> Option<&'static str> {
        let called = headers.get_all(HOST).iter().map(HeaderValue::to_str);
        let mut called = called.chain(uri.authority().map(|it| Ok(it.as_str())));
        if !called.all(|name| name.is_ok_and(|name| self.has(name))) {
            return Some(
                "This address answers under the names of this machine only, such as localhost or \
                 127.0.0.1.\n",
            );
        }
        let mut origins = headers.get_all(header::ORIGIN).iter().peekable();
        let foreign = if origins.peek().is_some() {
            !origins.all(|origin| {
                let origin = origin.to_str();
                origin.is_ok_and(|origin| is_own(origin, uri, headers))
            })
        } else {
            is_foreign(headers)
        };
        foreign.then_some("This address answers no pages of other origins.\n")
    }
}

/// What may stand behind a host: nothing, or a port.
fn is_port(text: &str) -> bool {
    let port = text.strip_prefix(':');
    text.is_empty() || port.is_some_and(|port| port.bytes().all(|it| it.is_ascii_digit()))
}

/// Whether a page was loaded from where it asks.
fn is_own(origin: &str, uri: &Uri, headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let called = host.or_else(|| uri.authority().map(Authority::as_str));
    origin
        .strip_prefix("http://")
        .is_some_and(|origin| called == Some(origin))
}

/// Whether a page elsewhere asks for something to use in itself. A link that somebody
/// follows is let through: its page does not see what comes.
fn is_foreign(headers: &HeaderMap) -> bool {
    let says = |name| headers.get_all(name).iter().map(HeaderValue::as_bytes);
    let elsewhere = says(FETCH_SITE).any(|site| site != b"same-origin" && site != b"none");
    let mut modes = says(FETCH_MODE).peekable();
    let follows = modes.peek().is_some() && modes.all(|mode| mode == b"navigate");
    elsewhere && !follows
}

/// Passes what may pass, and tells browsers what not to do with the answer.
pub(super) async fn guard(State(names): State<Names>, request: Request, next: Next) -> Response {
    let mut response = match names.refusal(request.uri(), request.headers()) {
        Some(why) => (StatusCode::FORBIDDEN, why).into_response(),
        None => next.run(request).await,
    };
    response.headers_mut().extend(HEADERS);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(headers: &[(&'static str, &'static str)]) -> bool {
        let names = Names::of("127.0.0.2".parse().unwrap());
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        names.refusal(&Uri::from_static("/readyz"), &map).is_none()
    }

    #[test]
    fn only_names_of_this_machine_are_answered() {
        for good in [
            "127.0.0.1:7655",
            "127.0.0.1",
            "127.0.0.2:1",
            "[::1]:7655",
            "[::ffff:127.0.0.1]:80",
            "localhost:7655",
            "LocalHost",
            "a.localhost:7655",
            "localhost.",
        ] {
            assert!(answered(&[("host", good)]), "{good}");
        }
        for bad in [
            "example.org:7655",
            "localhost.example.org",
            "127.0.0.1.example.org",
            "notlocalhost",
            "192.0.2.1:7655",
            "",
            "a b",
            "[::1]evil.example",
            "user@localhost",
            "localhost..",
            "127.0.0.1]",
        ] {
            assert!(!answered(&[("host", bad)]), "{bad:?}");
        }
        let two = [("host", "localhost"), ("host", "example.org")];
        assert!(!answered(&two), "any of them may be believed");
        assert!(answered(&[]), "no browser leaves it out");
    }

    #[test]
    fn a_name_in_the_request_line_counts_too() {
        let names = Names::of("127.0.0.1".parse().unwrap());
        let refusal = |uri| names.refusal(&Uri::from_static(uri), &HeaderMap::new());
        assert!(refusal("http://localhost:7655/readyz").is_none());
        assert!(refusal("http://example.org/readyz").is_some());
    }

    #[test]
    fn pages_of_other_origins_are_not_answered() {
        let host = ("host", "localhost:7655");
        for origin in [
            "https://example.org",
            "http://localhost:3000",
            "http://localhost",
            "null",
        ] {
            assert!(!answered(&[host, ("origin", origin)]), "{origin}");
        }
        assert!(answered(&[host, ("origin", "http://localhost:7655")]));
        for (site, mode, expected) in [
            ("cross-site", "no-cors", false),
            ("same-site", "cors", false),
            ("cross-site", "navigate", true),
            ("same-origin", "cors", true),
            ("none", "navigate", true),
        ] {
            let all = [host, (FETCH_SITE, site), (FETCH_MODE, mode)];
            assert_eq!(answered(&all), expected, "{site} {mode}");
        }
    }
}

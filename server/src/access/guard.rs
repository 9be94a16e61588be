//! What every call passes: only those with a token that is known come in.

use std::{
    future::{Ready, ready},
    net::SocketAddr,
    task::{Context, Poll},
};

use futures::future::Either;
use tonic::{
    Request, Status,
    codegen::http::{self, header::AUTHORIZATION},
    transport::server::{TcpConnectInfo, TlsConnectInfo},
};
use tower::{Layer, Service};
use tracing::{Span, field::display};

use super::{Principal, Tokens};
use crate::{
    session::Reason,
    telemetry::troubles::{self, Trouble},
};

/// Calls that need no token, so that whoever watches over the gateway needs none.
const OPEN: &str = "/grpc.health.v1.Health/";

/// Lets in whoever has one of these tokens; without tokens, everybody.
#[derive(Clone, Debug)]
pub(crate) struct Guard(pub(crate) Option<Tokens>);

impl<S> Layer<S> for Guard {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded {
            tokens: self.0.clone(),
            inner,
        }
    }
}

/// A service behind a [`Guard`].
#[derive(Clone, Debug)]
pub(crate) struct Guarded<S> {
    tokens: Option<Tokens>,
    inner: S,
}

impl<S, B, R> Service<http::Request<B>> for Guarded<S>
where
    S: Service<http::Request<B>, Response = http::Response<R>>,
    R: Default,
{
    type Response = http::Response<R>;
    type Error = S::Error;
    type Future = Either<S::Future, Ready<Result<http::Response<R>, S::Error>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: http::Request<B>) -> Self::Future {
        let Some(tokens) = &self.tokens else {
            return Either::Left(self.inner.call(request));
        };
        match principal(tokens, &request) {
            Ok(principal) => {
                request.extensions_mut().extend(principal);
                Either::Left(self.inner.call(request))
            }
            // Answered here, before anything is made for the call.
            Err(refusal) => {
                let path = request.uri().path();
                let peer = peer(&request).map(display);
                let reason = refusal.word();
                tracing::debug!(peer, path, reason, "a call is refused");
                if let Some(count) = troubles::again(Trouble::Token) {
                    tracing::warn!(peer, path, reason, count, "calls without a known token");
                }
                let status = refusal.status();
                Either::Right(ready(Ok(status.into_http())))
            }
        }
    }
}

/// Why a call does not go through.
#[derive(Clone, Copy, Debug)]
enum Refusal {
    Missing,
    Unknown,
}

impl Refusal {
    const fn word(self) -> &'static str {
        match self {
            Self::Missing => "token missing",
            Self::Unknown => "token unknown",
        }
    }

    fn status(self) -> Status {
        match self {
            Self::Missing => Reason::TokenMissing.status(
                "this gateway wants a token: send the metadata `authorization: Bearer TOKEN`, once",
            ),
            Self::Unknown => Reason::TokenUnknown.status("the token is none of this gateway's"),
        }
    }
}

/// Who calls, as an extension of the request; empty where nobody has to say.
fn principal<B>(tokens: &Tokens, request: &http::Request<B>) -> Result<http::Extensions, Refusal> {
    let mut extensions = http::Extensions::new();
    if request.uri().path().starts_with(OPEN) {
        return Ok(extensions);
    }
    let mut given = request.headers().get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (given.next(), given.next()) else {
        return Err(Refusal::Missing);
    };
    let token = bearer(value.as_bytes()).ok_or(Refusal::Missing)?;
    let principal = tokens.principal(token).ok_or(Refusal::Unknown)?;
    extensions.insert(principal.clone());
    Ok(extensions)
}

/// The other end of the connection.
fn peer<B>(request: &http::Request<B>) -> Option<SocketAddr> {
    let extensions = request.extensions();
    let plain = extensions.get::<TcpConnectInfo>();
    let secured = || extensions.get::<TlsConnectInfo<TcpConnectInfo>>();
    plain.map_or_else(
        || secured()?.get_ref().remote_addr(),
        TcpConnectInfo::remote_addr,
    )
}

/// What follows `Bearer`, in whatever case that is written.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(b"Bearer ".len())?;
    scheme
        .eq_ignore_ascii_case(b"Bearer ")
        .then(|| token.trim_ascii())
        .filter(|token| !token.is_empty())
}

/// The span in which a call is worked on: its log lines say who calls.
pub(crate) fn span<T>(request: &Request<T>) -> Span {
    match request.extensions().get::<Principal>() {
        Some(principal) => tracing::error_span!("call", %principal),
        None => Span::none(),
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, convert::Infallible, future::Future as _, pin::pin};

    use futures::task::noop_waker;
    use tonic::Code;
    use tonic_types::StatusExt as _;

    use tonic::body::Body;

    use super::*;
    use crate::access::written;

    /// What the call gets, and who called, if it went through.
    fn call(path: &str, authorization: &[&str]) -> (Option<Status>, Option<Option<String>>) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let lines = ["one", "two"].map(|name| written(name, &format!("token-{name}")).unwrap());
        std::fs::write(file.path(), lines.join("\n")).unwrap();
        let tokens = Tokens::read(file.path()).unwrap();
        call_with(Some(tokens), path, authorization)
    }

    fn call_with(
        tokens: Option<Tokens>,
        path: &str,
        authorization: &[&str],
    ) -> (Option<Status>, Option<Option<String>>) {
        let called = Cell::new(None);
        let inner = tower::service_fn(|request: http::Request<()>| {
            let principal = request.extensions().get::<Principal>();
            called.set(Some(principal.map(|it| it.name().to_owned())));
            ready(Ok::<_, Infallible>(http::Response::new(Body::empty())))
        });
        let mut guarded = Guard(tokens).layer(inner);
        let mut request = http::Request::builder().uri(path);
        for value in authorization {
            request = request.header(AUTHORIZATION, *value);
        }
        let future = guarded.call(request.body(()).unwrap());
        let waker = noop_waker();
        let Poll::Ready(Ok(response)) = pin!(future).poll(&mut Context::from_waker(&waker)) else {
            panic!("it is answered at once");
        };
        let status = Status::from_header_map(response.headers());
        (status, called.take())
    }

    const SUBSCRIBE: &str = "/ackgate.v1.GatewayService/Subscribe";

    #[test]
    fn a_known_token_says_who_calls() {
        for written in [
            "Bearer token-two",
            "bearer token-two",
            "BEARER   token-two ",
        ] {
            let (status, called) = call(SUBSCRIBE, &[written]);
            assert!(status.is_none(), "{status:?}");
            assert_eq!(called, Some(Some("two".to_owned())), "{written}");
        }
    }

    #[test]
    fn others_are_answered_before_the_service_hears_of_them() {
        let cases: &[(&[&str], &str)] = &[
            (&[], "TOKEN_MISSING"),
            (&[""], "TOKEN_MISSING"),
            (&["Bearer"], "TOKEN_MISSING"),
            (&["Bearer  "], "TOKEN_MISSING"),
            (&["Basic token-two"], "TOKEN_MISSING"),
            (&["token-two"], "TOKEN_MISSING"),
            (&["Bearer token-two", "Bearer token-two"], "TOKEN_MISSING"),
            (&["Bearer token-three"], "TOKEN_UNKNOWN"),
            (&["Bearer token-two token-two"], "TOKEN_UNKNOWN"),
        ];
        // A service that does not exist is none of a stranger's business either.
        for path in [
            SUBSCRIBE,
            "/grpc.reflection.v1.ServerReflection/X",
            "/x",
            "/grpc.health.v1.HealthX/Check",
        ] {
            for (given, reason) in cases {
                let (status, called) = call(path, given);
                let status = status.expect("a status");
                assert_eq!(status.code(), Code::Unauthenticated, "{given:?}");
                let details = status.get_error_details();
                assert_eq!(details.error_info().unwrap().reason, *reason, "{given:?}");
                assert_eq!(called, None, "{given:?}");
                assert!(!status.message().contains("token-t"), "{status:?}");
            }
        }
    }

    #[test]
    fn health_needs_no_token_and_without_tokens_nothing_does() {
        let (status, called) = call("/grpc.health.v1.Health/Check", &[]);
        assert!(status.is_none() && called == Some(None));
        let (status, called) = call_with(None, SUBSCRIBE, &["Bearer x"]);
        assert!(status.is_none() && called == Some(None));
    }
}

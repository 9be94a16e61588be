//! gRPC-Web: what pages in browsers call, and which pages may.
//!
//! **Boundary**: translation alone. From here on such a call is as any other, with the
//! same bounds; those that send streams know it by [`OverWeb`] and say that they cannot be
//! carried.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::{Either, Ready, ready};
use tonic::{
    codegen::{
        Service,
        http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header},
    },
    service::Routes,
};
use tonic_web::GrpcWebLayer;
use tower::{layer::layer_fn, util::MapRequestLayer};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use crate::session::OverWeb;

/// What stands for any origin.
const ANY: &str = "*";

/// How the content of requests by gRPC-Web is called, whatever follows.
const CONTENT: &[u8] = b"application/grpc-web";

/// What a page may read of a response, beside its body: a call that is refused before it
/// begins has its status there.
const EXPOSED: [HeaderName; 3] = [
    HeaderName::from_static("grpc-status"),
    HeaderName::from_static("grpc-message"),
    HeaderName::from_static("grpc-status-details-bin"),
];

/// How long a browser may remember what is allowed.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// Serves the routes by gRPC-Web too, to pages of these origins.
pub(super) fn over(routes: Routes, origins: &[String]) -> Routes {
    let origins = Origins::new(origins);
    let cors = {
        let origins = origins.clone();
        CorsLayer::new()
            .allow_origin(AllowOrigin::predicate(move |origin, _| {
                origins.allow(origin)
            }))
            .allow_methods([Method::POST])
            // What a page adds says nothing about where it comes from.
            .allow_headers(AllowHeaders::mirror_request())
            .expose_headers(EXPOSED)
            .max_age(REMEMBERED)
    };
    let guard = layer_fn(move |inner| Guard {
        inner,
        origins: origins.clone(),
    });
    let router = routes.into_axum_router();
    let router = router.layer(GrpcWebLayer::new());
    let router = router.layer(MapRequestLayer::new(mark)).layer(guard);
    router.layer(cors).into()
}

/// Notes that a request came by gRPC-Web.
fn mark<B>(mut request: Request<B>) -> Request<B> {
    if is_web(request.headers()) {
        request.extensions_mut().insert(OverWeb);
    }
    request
}

fn is_web(headers: &HeaderMap) -> bool {
    let content = headers.get(header::CONTENT_TYPE);
    content.is_some_and(|content| content.as_bytes().starts_with(CONTENT))
}

/// Where pages may come from. Clones are one.
#[derive(Clone, Debug)]
struct Origins {
    any: bool,
    these: Arc<[HeaderValue]>,
}

impl Origins {
    fn new(origins: &[String]) -> Self {
        let these = origins
            .iter()
            .filter_map(|it| HeaderValue::from_str(it).ok());
        Self {
            any: origins.iter().any(|origin| origin == ANY),
            these: these.collect(),
        }
    }

    fn allow(&self, origin: &HeaderValue) -> bool {
        self.any || self.these.contains(origin)
    }
}

/// Refuses calls of pages that may not call. A browser asks before it lets a page call
/// another origin, but not where a page has got the gateway's name for its own.
#[derive(Clone, Debug)]
struct Guard<S> {
    inner: S,
    origins: Origins,
}

impl<S, A, B> Service<Request<A>> for Guard<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    B: Default,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = Either<Ready<Result<Response<B>, S::Error>>, S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let origin = request.headers().get(header::ORIGIN);
        if origin.is_none_or(|origin| self.origins.allow(origin)) {
            return Either::Right(self.inner.call(request));
        }
        let mut refused = Response::new(B::default());
        *refused.status_mut() = StatusCode::FORBIDDEN;
        Either::Left(ready(Ok(refused)))
    }
}

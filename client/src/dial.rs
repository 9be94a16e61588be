//! Where gateways are, and how one is called: names are resolved to gateways, and
//! connections made, or the program's own channel is used.
//!
//! Boundary: knows nothing of streams.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpStream, lookup_host},
    time,
};
use tonic::{
    body::Body,
    codegen::{Body as HttpBody, Bytes, StdError, http},
    transport::{Endpoint, Uri},
};
use tower::{Service, ServiceExt as _, service_fn, util::BoxCloneSyncService};

use crate::{
    Error,
    addresses::DEFAULT_PORT,
    plain::{Answered, Plain, SpeaksTls},
    token::Token,
};

/// Most gateways at a time; others that names resolve to are left out.
const MOST_GATEWAYS: usize = 64;

/// What calls go through.
pub(crate) type Channel = BoxCloneSyncService<http::Request<Body>, http::Response<Body>, Failure>;

/// Why a call failed, whatever the channel. A type of its own, because the compiler cannot
/// see of the box alone that calls may move between threads.
#[derive(Debug)]
pub(crate) struct Failure(StdError);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}

/// The program's own channel.
#[derive(Clone)]
pub(crate) struct Injected(pub(crate) Channel);

impl fmt::Debug for Injected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Injected")
    }
}

/// One gateway.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Target {
    /// Which of the endpoints.
    endpoint: usize,
    /// Where it is, and where else the same gateway is; empty: the program's channel.
    at: Vec<SocketAddr>,
}

/// Finds and calls gateways.
#[derive(Clone)]
pub(crate) struct Dialer {
    /// The addresses as they were given.
    endpoints: Vec<(String, Endpoint)>,
    channel: Option<Injected>,
    /// What every call shows.
    token: Token,
    timeout: Duration,
    /// Endpoints whose name does not resolve, as it was logged: that is told once.
    unresolved: Arc<Mutex<BTreeSet<usize>>>,
}

impl Dialer {
    /// `channel` takes the place of connections; of the endpoints only the first one's name
    /// is used then. Each step may take `timeout`.
    pub(crate) fn new(
        endpoints: Vec<(String, Endpoint)>,
        channel: Option<Injected>,
        token: Token,
        timeout: Duration,
    ) -> Self {
        Self {
            endpoints,
            channel,
            token,
            timeout,
            unresolved: Arc::default(),
        }
    }

    /// What every call shows.
    pub(crate) const fn token(&self) -> &Token {
        &self.token
    }

    /// Whether what an address stands for can change.
    pub(crate) fn has_names(&self) -> bool {
        let is_name = |(_, endpoint): &(String, Endpoint)| literal(endpoint.uri()).is_none();
        self.channel.is_none() && self.endpoints.iter().any(is_name)
    }

    /// The gateways there are now, in a fixed order, each once.
    ///
    /// # Errors
    /// A name does not resolve, and nothing else is known.
    pub(crate) async fn targets(&self) -> Result<Vec<Target>, Error> {
        if self.channel.is_some() {
            return Ok(vec![Target {
                endpoint: 0,
                at: Vec::new(),
            }]);
        }
        let mut targets: Vec<Target> = Vec::new();
        let mut failed = Vec::new();
        for (index, (name, endpoint)) in self.endpoints.iter().enumerate() {
            match self.resolve(name, endpoint.uri()).await {
                Ok(found) => {
                    self.resolves(index, name);
                    for at in found {
                        // Two names of one gateway are one gateway.
                        let known = |it: &Target| it.at.iter().any(|addr| at.contains(addr));
                        if !targets.iter().any(known) && targets.len() < MOST_GATEWAYS {
                            targets.push(Target {
                                endpoint: index,
                                at,
                            });
                        }
                    }
                }
                Err(error) => failed.push((index, error)),
            }
        }
        if targets.is_empty()
            && let Some((_, error)) = failed.pop()
        {
            // Whoever asks tells it.
            return Err(error);
        }
        for (index, error) in failed {
            self.does_not_resolve(index, &error);
        }
        Ok(targets)
    }

    /// Says once that a name does not resolve, while others do.
    fn does_not_resolve(&self, index: usize, error: &Error) {
        if self.unresolved().insert(index) {
            tracing::warn!(%error, "a name does not resolve; the other gateways are used");
        }
    }

    fn resolves(&self, index: usize, address: &str) {
        if self.unresolved().remove(&index) {
            tracing::info!(address, "the name resolves again");
        }
    }

    fn unresolved(&self) -> std::sync::MutexGuard<'_, BTreeSet<usize>> {
        let unresolved = self.unresolved.lock();
        unresolved.unwrap_or_else(PoisonError::into_inner)
    }

    async fn resolve(&self, name: &str, uri: &Uri) -> Result<Vec<Vec<SocketAddr>>, Error> {
        let port = uri.port_u16().unwrap_or(DEFAULT_PORT);
        if let Some(ip) = literal(uri) {
            return Ok(vec![vec![SocketAddr::new(ip, port)]]);
        }
        let host = uri.host().unwrap_or_default();
        let looked = time::timeout(self.timeout, lookup_host((host, port))).await;
        let found = match looked {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => return Err(Error::unreachable(name, &error)),
            Err(slow) => return Err(Error::unreachable(name, &slow)),
        };
        Ok(gateways(found))
    }

    /// How a gateway is called in messages: by its address as it was given, and where that
    /// was found.
    pub(crate) fn name(&self, target: &Target) -> String {
        let Some((name, endpoint)) = self.endpoints.get(target.endpoint) else {
            return String::new();
        };
        match target.at.first() {
            Some(at) if literal(endpoint.uri()).is_none() => format!("{name} ({at})"),
            Some(_) | None => name.clone(),
        }
    }

    /// Connects to a gateway. Returns what its calls go through, and the URI that they name.
    pub(crate) async fn dial(&self, target: &Target) -> Result<(Channel, Uri), Error> {
        let Some((_, endpoint)) = self.endpoints.get(target.endpoint) else {
            return Err(Error::Protocol("no such endpoint"));
        };
        let uri = endpoint.uri().clone();
        if let Some(Injected(channel)) = &self.channel {
            return Ok((channel.clone(), uri));
        }
        let at = target.at.clone();
        // Over TLS it is meant to answer in TLS.
        let answered = (uri.scheme_str() != Some("https")).then(Answered::default);
        let noted = answered.clone();
        let connector = service_fn(move |_: Uri| {
            let (at, noted) = (at.clone(), noted.clone());
            async move {
                let stream = TcpStream::connect(&*at).await?;
                stream.set_nodelay(true)?;
                Ok::<_, std::io::Error>(TokioIo::new(Plain::new(stream, noted)))
            }
        });
        let name = self.name(target);
        let connected = endpoint.connect_with_connector(connector).await;
        let channel = connected.map_err(|error| Error::unreachable(&name, &error))?;
        let channel = boxed(channel);
        let Some(answered) = answered else {
            return Ok((channel, uri));
        };
        // Whatever HTTP/2 makes of such an answer: it would be so again.
        let channel = channel.map_err(move |failure| match answered.in_tls() {
            true => Failure(
                SpeaksTls {
                    address: name.clone(),
                }
                .into(),
            ),
            false => failure,
        });
        Ok((BoxCloneSyncService::new(channel), uri))
    }
}

/// What an address stands for: names with several addresses of a family are several
/// gateways, each with one address of the larger family (IPv4, if both are equal); others
/// are one gateway, wherever it answers.
fn gateways(found: impl Iterator<Item = SocketAddr>) -> Vec<Vec<SocketAddr>> {
    let mut families: BTreeMap<bool, Vec<SocketAddr>> = BTreeMap::new();
    for at in found {
        let family = families.entry(at.is_ipv6()).or_default();
        if !family.contains(&at) {
            family.push(at);
        }
    }
    let mut families: Vec<_> = families.into_values().collect();
    if families.iter().all(|family| family.len() == 1) {
        let one: Vec<_> = families.into_iter().flatten().collect();
        return if one.is_empty() {
            Vec::new()
        } else {
            vec![one]
        };
    }
    families.sort_by_key(|family| std::cmp::Reverse(family.len()));
    let mut largest = families.into_iter().next().unwrap_or_default();
    largest.sort_unstable();
    largest.into_iter().map(|at| vec![at]).collect()
}

/// The address of a URI that names one.
fn literal(uri: &Uri) -> Option<IpAddr> {
    let host = uri.host()?;
    host.trim_start_matches('[')
        .trim_end_matches(']')
        .parse()
        .ok()
}

/// Any gRPC service as a channel.
pub(crate) fn boxed<S, B>(service: S) -> Channel
where
    S: Service<http::Request<Body>, Response = http::Response<B>> + Clone + Send + Sync + 'static,
    S::Error: Into<StdError>,
    S::Future: Send + 'static,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<StdError>,
{
    let service = service
        .map_response(|response: http::Response<B>| response.map(Body::new))
        .map_err(|error| Failure(error.into()));
    BoxCloneSyncService::new(service)
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<_> = self.endpoints.iter().map(|(name, _)| name).collect();
        f.debug_struct("Dialer")
            .field("addresses", &addresses)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn found(addresses: &[&str]) -> Vec<Vec<String>> {
        let parsed = addresses.iter().map(|it| it.parse().expect("an address"));
        let shown = |at: Vec<SocketAddr>| at.iter().map(ToString::to_string).collect();
        gateways(parsed).into_iter().map(shown).collect()
    }

    /// Counts warnings.
    struct Warnings(Arc<AtomicUsize>);

    impl tracing::Subscriber for Warnings {
        fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
            *metadata.level() == tracing::Level::WARN
        }

        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }

        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

        fn event(&self, _: &tracing::Event<'_>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn enter(&self, _: &tracing::span::Id) {}

        fn exit(&self, _: &tracing::span::Id) {}
    }

    #[test]
    fn name_that_does_not_resolve_is_told_once_until_it_does() {
        let second = Duration::from_secs(1);
        let dialer = Dialer::new(Vec::new(), None, Token::default(), second);
        let error = Error::Ended;
        let warnings = Arc::new(AtomicUsize::new(0));
        tracing::subscriber::with_default(Warnings(Arc::clone(&warnings)), || {
            let told = || warnings.load(Ordering::Relaxed);
            for _ in 0..3 {
                dialer.does_not_resolve(0, &error);
                // A clone looks on behalf of the same program.
                dialer.clone().does_not_resolve(0, &error);
                assert_eq!(told(), 1);
            }
            dialer.does_not_resolve(1, &error);
            assert_eq!(told(), 2);
            dialer.resolves(0, "http://gateway:7654");
            dialer.does_not_resolve(0, &error);
            assert_eq!(told(), 3);
        });
    }

    #[test]
    fn name_of_both_families_is_one_gateway() {
        assert_eq!(
            found(&["[::1]:7", "127.0.0.1:7", "127.0.0.1:7"]),
            [["127.0.0.1:7", "[::1]:7"]]
        );
        assert_eq!(found(&["[::1]:7"]), [["[::1]:7"]]);
        assert!(found(&[]).is_empty());
    }

    #[test]
    fn name_with_several_addresses_is_several_gateways_of_one_family() {
        let both = ["[::1]:7", "10.0.0.2:7", "[::2]:7", "10.0.0.1:7"];
        assert_eq!(found(&both), [["10.0.0.1:7"], ["10.0.0.2:7"]]);
        let six = ["10.0.0.1:7", "[::1]:7", "[::2]:7"];
        assert_eq!(found(&six), [["[::1]:7"], ["[::2]:7"]]);
    }
}

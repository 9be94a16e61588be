//! The finished tree becomes the types of the gateway.
//!
//! Each function reads all of its options before it gives up, so that one run tells
//! everything that is wrong.

use super::{
    Cluster, Config, Health, Listen, Log, Shutdown, Subscription, access_parse, ad_hoc_parse,
    address, admin, checks, log_filter,
    options::{self, Spec},
    otlp_parse,
    properties::{self, Ruling},
    publish_parse,
    reader::{Reader, path, problem},
    subscription_parse, traces,
    tree::{Node, Origin},
    value, web_parse,
};

/// Reads everything.
pub(super) fn config(reader: &mut Reader<'_>) -> Option<Config> {
    let memory_bytes = reader.read(&options::MEMORY, "", value::size);
    let listen = listen(reader);
    let admin = admin::admin(reader);
    let shutdown = shutdown(reader);
    let log = log(reader);
    let traces = traces::traces(reader);
    let stalled_after = reader.read(&options::HEALTH_STALLED_AFTER, "", value::duration);

    let telemetry = otlp_parse::telemetry(reader);

    let names = reader.names("clusters");
    let clusters: Vec<Option<Cluster>> = names.iter().map(|name| cluster(reader, name)).collect();
    let subscriptions: Vec<_> = reader
        .names("subscriptions")
        .into_iter()
        .map(|name| subscription_parse::subscription(reader, name, &names))
        .collect();
    checks::presence(reader);
    if let Some(memory) = memory_bytes {
        checks::memory(reader, memory);
    }
    checks::revoke_drain(reader);
    checks::overlaps(reader, &clusters);
    checks::retry_topics(reader, &clusters);
    let mut ad_hoc = ad_hoc_parse::ad_hoc(reader, &names, memory_bytes);
    if let Some(Some(ad_hoc)) = &mut ad_hoc {
        let subscriptions = subscriptions.iter().flatten();
        ad_hoc.written = subscriptions.flat_map(Subscription::writes).collect();
    }
    let publish = publish_parse::publish(reader, &names);

    Some(Config {
        listen: listen?,
        admin: admin?,
        clusters: clusters.into_iter().collect::<Option<_>>()?,
        publish: publish?,
        subscriptions: subscriptions.into_iter().collect::<Option<_>>()?,
        ad_hoc: ad_hoc?,
        shutdown: shutdown?,
        log: log?,
        traces: traces?,
        health: Health {
            stalled_after: stalled_after?,
        },
        telemetry: telemetry?,
        memory_bytes: memory_bytes?,
    })
}

fn listen(reader: &mut Reader<'_>) -> Option<Listen> {
    let address = reader.read(&options::LISTEN_ADDRESS, "", value::socket);
    let insecure = reader.read(&options::LISTEN_INSECURE, "", value::flag);
    let max_streams = reader.read(&options::LISTEN_MAX_STREAMS, "", value::small);
    let interval = reader.read(&options::LISTEN_KEEPALIVE_INTERVAL, "", value::duration);
    let timeout = reader.read(&options::LISTEN_KEEPALIVE_TIMEOUT, "", value::duration);
    let ping = reader.read(&options::LISTEN_PING_INTERVAL, "", value::duration);
    let reflection = reader.read(&options::LISTEN_REFLECTION, "", value::flag);
    let pulls = reader.read(&options::LISTEN_MAX_PULL_SESSIONS, "", value::small);
    let idle = reader.read(&options::LISTEN_PULL_IDLE, "", value::duration);
    let connections = reader.read(&options::LISTEN_MAX_CONNECTIONS, "", value::small);
    let age = reader.read(&options::LISTEN_MAX_CONNECTION_AGE, "", value::duration);
    let web = web_parse::web(reader);
    let access = access_parse::access(reader);
    let (address, insecure, access) = (address?, insecure?, access?);
    let open = access.tls.is_none() && access.tokens.is_none();
    if !address.ip().is_loopback() && open && !insecure {
        reader.refuse(
            &options::LISTEN_ADDRESS,
            "",
            "is open to the network without TLS or tokens: anyone who reaches it can read the \
             topics and acknowledge their records; use a loopback address such as \
             127.0.0.1:7654, set listen.tls and listen.tokens_file, or set listen.insecure = true \
             if the network itself is trusted",
        );
        return None;
    }
    let (grpc_web, web_origins) = web?;
    Some(Listen {
        address,
        insecure,
        tls: access.tls,
        tokens: access.tokens,
        max_streams: max_streams?,
        max_connections: usize::try_from(connections?).unwrap_or(usize::MAX),
        max_connection_age: age,
        grpc_web,
        web_origins,
        keepalive_interval: interval?,
        keepalive_timeout: timeout?,
        ping_interval: ping?,
        reflection: reflection?,
        max_pull_sessions: pulls?,
        pull_idle: idle?,
    })
}

fn shutdown(reader: &mut Reader<'_>) -> Option<Shutdown> {
    let drain = reader.read(&options::SHUTDOWN_DRAIN, "", value::duration);
    let close = reader.read(&options::SHUTDOWN_CLOSE, "", value::duration);
    Some(Shutdown {
        drain: drain?,
        close: close?,
    })
}

fn log(reader: &mut Reader<'_>) -> Option<Log> {
    let filter = reader.read(&options::LOG_FILTER, "", |node, spec| {
        let text = value::text(node, spec)?;
        log_filter::check(text, &spec.expected()).map(|()| text.to_owned())
    });
    let format = reader.read(&options::LOG_FORMAT, "", value::choice);
    Some(Log {
        filter: filter?,
        json: format? == "json",
    })
}

fn cluster(reader: &mut Reader<'_>, name: &str) -> Option<Cluster> {
    let dsn = reader.read(&options::CLUSTER_ADDRESS, name, |node, spec| {
        address::parse(value::text(node, spec)?)
    });
    let list = reader.read(&options::CLUSTER_BOOTSTRAP, name, |node, spec| {
        value::texts(node, spec)?
            .iter()
            .map(|entry| address::host(entry))
            .collect()
    });
    let properties = properties(reader, &options::CLUSTER_PROPERTIES, name);

    let given = (
        reader
            .given(&options::CLUSTER_ADDRESS, name)
            .map(from_environment),
        reader
            .given(&options::CLUSTER_BOOTSTRAP, name)
            .map(from_environment),
    );
    let by_address = match given {
        (Some(address), Some(list)) if address == list => {
            let why = "stands beside address: give one of them";
            reader.refuse(&options::CLUSTER_BOOTSTRAP, name, why);
            return None;
        }
        // One stands in the file, the other in the environment, which goes over it.
        (Some(address), Some(_)) => address,
        (Some(_), None) => true,
        (None, Some(_)) => false,
        (None, None) => {
            let why = "is missing: give address or bootstrap";
            reader.refuse(&options::CLUSTER_ADDRESS, name, why);
            return None;
        }
    };
    let mut properties = properties?;
    let bootstrap: Vec<String> = if by_address {
        let address::Dsn {
            bootstrap,
            user,
            password,
        } = dsn?;
        checks::credentials(reader, name, user, password, &mut properties)?;
        bootstrap
    } else {
        list?
    };
    Some(Cluster {
        name: name.to_owned(),
        bootstrap,
        properties,
    })
}

fn from_environment(node: &Node) -> bool {
    matches!(node.origin, Origin::Environment { .. })
}

/// A property table, ruled on. `None` if something in it is refused.
pub(super) fn properties(
    reader: &mut Reader<'_>,
    spec: &Spec,
    name: &str,
) -> Option<Vec<(String, String)>> {
    let Some(node) = reader.given(spec, name) else {
        return Some(Vec::new());
    };
    let mut passed = Vec::new();
    let mut refused = false;
    for (property, node) in node.table().into_iter().flatten() {
        if matches!(node.value, super::tree::Value::Unreadable) {
            refused = true;
            continue;
        }
        let ruling = match spec.key == options::PUBLISH_PRODUCER.key {
            true => properties::rule_for_publishing(property, node),
            false => properties::rule(property, node),
        };
        match ruling {
            Ruling::Pass(value) => passed.push((property.clone(), value)),
            Ruling::Drop => {}
            Ruling::Refuse(why) => {
                let found = if properties::may_be_shown(property) {
                    value::shown(node, None)
                } else {
                    super::problem::MASK.to_owned()
                };
                let mut key = path(spec, name);
                key.push(property.clone());
                let refusal = problem(reader.file, &node.origin, &key, Some(found), why);
                reader.problems.push(refusal);
                refused = true;
            }
        }
    }
    (!refused).then_some(passed)
}

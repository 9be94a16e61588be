//! The configuration as it counts, for the log: every setting, no secret.

use super::{
    Batch, Cluster, Config, Delivery, Intake, OnFailure, Publish, StartAt, Subscription, Telemetry,
    Traces,
    options::{size, span},
    problem::MASK,
};
use crate::access::{Tls, Tokens};
use ackgate_lane::{Backoff, OnExpired, OnReject, OnUnwritten, Order, Policy, Ratio};

/// Properties that are shown with their value; every other one is masked, since a
/// future secret must not have to be listed first.
const SHOWN: [&str; 9] = [
    "acks",
    "client.id",
    "client.rack",
    "compression.type",
    "debug",
    "isolation.level",
    "sasl.mechanism",
    "sasl.mechanisms",
    "security.protocol",
];

/// Ends of property names whose values are plain figures.
const FIGURES: [&str; 4] = [".ms", ".bytes", ".kbytes", ".messages"];

impl Config {
    /// One entry per part of the configuration: its name, as `subscriptions.orders`,
    /// and its settings, defaults included. Passwords, tokens, keys and every other
    /// client property that might be one are masked.
    #[must_use]
    pub fn effective(&self) -> Vec<(String, String)> {
        let listen = &self.listen;
        let age = listen.max_connection_age;
        let mut parts = vec![
            (
                "gateway".to_owned(),
                line(&[("memory", size(self.memory_bytes))]),
            ),
            (
                "listen".to_owned(),
                line(&[
                    ("address", listen.address.to_string()),
                    ("insecure", listen.insecure.to_string()),
                    ("tls", listen.tls.as_ref().map_or_else(off, files)),
                    ("tokens", listen.tokens.as_ref().map_or_else(off, count)),
                    ("max_streams", listen.max_streams.to_string()),
                    ("max_connections", listen.max_connections.to_string()),
                    (
                        "max_connection_age",
                        age.map_or_else(|| "none".to_owned(), span),
                    ),
                    ("grpc_web", listen.grpc_web.to_string()),
                    ("web_origins", listen.web_origins.join(",")),
                    ("keepalive.interval", span(listen.keepalive_interval)),
                    ("keepalive.timeout", span(listen.keepalive_timeout)),
                    ("ping_interval", span(listen.ping_interval)),
                    ("reflection", listen.reflection.to_string()),
                    ("max_pull_sessions", listen.max_pull_sessions.to_string()),
                    ("pull_idle", span(listen.pull_idle)),
                ]),
            ),
            (
                "shutdown".to_owned(),
                line(&[
                    ("drain", span(self.shutdown.drain)),
                    ("close", span(self.shutdown.close)),
                ]),
            ),
            (
                "log".to_owned(),
                line(&[
                    ("filter", self.log.filter.clone()),
                    (
                        "format",
                        if self.log.json { "json" } else { "text" }.to_owned(),
                    ),
                ]),
            ),
            (
                "health".to_owned(),
                line(&[("stalled_after", span(self.health.stalled_after))]),
            ),
            ("telemetry.traces".to_owned(), traces(&self.traces)),
            ("telemetry".to_owned(), telemetry(&self.telemetry)),
        ];
        if let Some(admin) = &self.admin {
            let address = admin.address.to_string();
            parts.push(("admin".to_owned(), line(&[("address", address)])));
        }
        parts.extend(self.clusters.iter().map(cluster));
        parts.extend(self.publish.iter().map(publish));
        parts.extend(self.subscriptions.iter().map(subscription));
        if let Some(ad_hoc) = &self.ad_hoc {
            parts.push(("ad_hoc".to_owned(), line(&ad_hoc.settings())));
            parts.push((
                "ad_hoc.template".to_owned(),
                line(&ad_hoc.template_settings()),
            ));
        }
        parts
    }
}

fn traces(traces: &Traces) -> String {
    line(&[
        ("sample", traces.sample.to_string()),
        ("trust_parent", traces.trust_parent.to_string()),
        ("keep", traces.keep.to_string()),
    ])
}

/// Of headers only how many there are.
fn telemetry(telemetry: &Telemetry) -> String {
    let mut settings = vec![
        ("service_name", telemetry.service_name.clone()),
        ("instance", telemetry.instance.clone()),
        ("metrics.max_lanes", telemetry.max_lanes.to_string()),
    ];
    match &telemetry.otlp {
        None => settings.push(("otlp", off())),
        Some(otlp) => settings.extend([
            ("otlp.endpoint", otlp.endpoint.clone()),
            ("otlp.headers", otlp.headers.len().to_string()),
            ("otlp.traces", otlp.traces.to_string()),
            ("otlp.metrics", otlp.metrics.to_string()),
            ("otlp.metrics_interval", span(otlp.metrics_interval)),
        ]),
    }
    line(&settings)
}

fn off() -> String {
    "off".to_owned()
}

fn files(tls: &Tls) -> String {
    let files = tls.files();
    let written: Vec<String> = files
        .map(|(option, path)| format!("{option}={}", path.display()))
        .collect();
    written.join(",")
}

fn count(tokens: &Tokens) -> String {
    tokens.count().to_string()
}

fn cluster(cluster: &Cluster) -> (String, String) {
    let settings = line(&[
        ("bootstrap", cluster.bootstrap.join(",")),
        ("properties", properties(&cluster.properties)),
    ]);
    (format!("clusters.{}", cluster.name), settings)
}

fn publish(publish: &Publish) -> (String, String) {
    let settings = line(&[
        ("topics", publish.topics.join(",")),
        ("acks", publish.acks.word().to_owned()),
        (
            "idempotence",
            publish.is_idempotent(publish.acks).to_string(),
        ),
        ("max_record_bytes", size(publish.max_record_bytes)),
        (
            "max_in_flight_records",
            publish.max_in_flight_records.to_string(),
        ),
        ("max_in_flight_bytes", size(publish.max_in_flight_bytes)),
        ("producer", properties(&publish.producer_properties)),
    ]);
    (format!("clusters.{}.publish", publish.cluster), settings)
}

const fn on_reject(on_reject: OnReject) -> &'static str {
    match on_reject {
        OnReject::DeadLetter => "dead_letter",
        OnReject::Drop => "drop",
        OnReject::Hold => "hold",
    }
}

/// `none` where keys have no order.
fn key_share(order: Order) -> String {
    match order {
        Order::Key { share } => (f64::from(share) / 1000.0).to_string(),
        Order::None | Order::Lane { .. } => "none".to_owned(),
    }
}

fn subscription(subscription: &Subscription) -> (String, String) {
    (
        format!("subscriptions.{}", subscription.name),
        line(&subscription.settings()),
    )
}

impl Subscription {
    /// Every setting by its name in the configuration, defaults included, as the log
    /// shows it: secrets are masked. What is not set is left out.
    #[must_use]
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        settings(self)
    }
}

fn settings(subscription: &Subscription) -> Vec<(&'static str, String)> {
    let policy = &subscription.policy;
    let (order, skip_acked) = match policy.order {
        Order::None => ("none", false),
        Order::Key { .. } => ("key", false),
        Order::Lane { skip_acked } => ("lane", skip_acked),
    };
    let delivery = match subscription.delivery {
        Delivery::Competing => "competing",
        Delivery::Broadcast(_) => "broadcast",
    };
    let mut settings = vec![
        ("cluster", subscription.cluster.clone()),
        ("topics", subscription.topics.join(",")),
        ("group", subscription.group.clone()),
        ("start", start(subscription.start)),
        ("order", order.to_owned()),
        ("skip_acked", skip_acked.to_string()),
        ("key_share", key_share(policy.order)),
        ("delivery", delivery.to_owned()),
        ("ack_deadline", span(policy.ack_deadline)),
        ("max_attempts", policy.max_attempts.to_string()),
        ("max_deliveries", policy.max_deliveries.to_string()),
        ("backoff", backoff(policy.backoff)),
        ("on_reject", on_reject(policy.on_reject).to_owned()),
        ("window.records", policy.window.records.to_string()),
        ("window.span", policy.window.span.to_string()),
        ("window.bytes", size(subscription.window_bytes)),
        ("min_age", span(subscription.intake.min_age)),
        ("commit.interval", span(policy.commit_interval)),
        ("commit.settlements", policy.commit_settlements.to_string()),
        ("commit.ack_map", (subscription.map_bytes > 0).to_string()),
        (
            "commit.metadata_bytes",
            (subscription.map_bytes / 3 * 4).to_string(),
        ),
        ("consumer", properties(&subscription.consumer_properties)),
    ];
    settings.extend(batch(&subscription.batch));
    settings.extend(sharing(subscription.delivery));
    settings.extend(presence(subscription));
    settings.extend(intake(&subscription.intake));
    if let Some(dead_letter) = &subscription.dead_letter {
        settings.push(("dead_letter.topic", dead_letter.topic.clone()));
        if let Some(retry_topic) = &dead_letter.retry_topic {
            settings.push(("dead_letter.retry_topic", retry_topic.clone()));
        }
        if let Some(exactly_once) = &dead_letter.exactly_once {
            settings.push(("dead_letter.exactly_once", true.to_string()));
            settings.push((
                "dead_letter.transaction_timeout",
                span(exactly_once.transaction_timeout),
            ));
            if let Some(id) = &exactly_once.transactional_id {
                settings.push(("dead_letter.transactional_id", id.clone()));
            }
        }
        settings.extend(dead_letter.copying.settings());
        settings.push(("dead_letter.backoff", backoff(policy.dead_letter_backoff)));
        settings.extend(unwritten(policy));
        settings.push((
            "dead_letter.producer",
            properties(&dead_letter.producer_properties),
        ));
    }
    settings
}

/// What becomes of dead letters that cannot be written, and of too many.
fn unwritten(policy: &Policy) -> Vec<(&'static str, String)> {
    let (on_failure, tries) = match policy.on_unwritten {
        OnUnwritten::Block => ("block", None),
        OnUnwritten::Park { tries } => ("park", Some(tries)),
        OnUnwritten::Discard { tries } => ("discard", Some(tries)),
    };
    let mut settings = vec![("dead_letter.on_failure", on_failure.to_owned())];
    settings.extend(tries.map(|tries| ("dead_letter.tries", tries.to_string())));
    if let Some(run) = policy.breaker.run {
        settings.push(("dead_letter.breaker.run", run.to_string()));
    }
    if let Some(Ratio { part, of }) = policy.breaker.ratio {
        let part = f64::from(part) / 1000.0;
        settings.push(("dead_letter.breaker.ratio", part.to_string()));
        settings.push(("dead_letter.breaker.window", of.to_string()));
    }
    settings
}

fn batch(batch: &Batch) -> [(&'static str, String); 4] {
    [
        ("batch.max_records", batch.max_records.to_string()),
        ("batch.max_bytes", size(batch.max_bytes)),
        ("batch.linger", span(batch.linger)),
        ("batch.min_fill", batch.min_fill.to_string()),
    ]
}

/// Where a group begins, in words.
pub(super) fn start(start: StartAt) -> String {
    match start {
        StartAt::Earliest => "earliest".to_owned(),
        StartAt::Latest => "latest".to_owned(),
        StartAt::Timestamp(millis) => format!("timestamp {millis}"),
        StartAt::Fail => "fail".to_owned(),
    }
}

/// How subscribers and the gateway itself come, go and stay.
fn presence(subscription: &Subscription) -> [(&'static str, String); 7] {
    [
        ("linger", span(subscription.linger)),
        ("revoke_drain", span(subscription.revoke_drain)),
        ("resume_grace", span(subscription.resume_grace)),
        ("lease.duration", span(subscription.lease.duration)),
        ("lease.beat", span(subscription.lease.beat)),
        ("cohort_grace", span(subscription.cohort_grace)),
        ("min_subscribers", subscription.min_subscribers.to_string()),
    ]
}

/// What only a broadcast has.
fn sharing(delivery: Delivery) -> Vec<(&'static str, String)> {
    let Delivery::Broadcast(sharing) = delivery else {
        return Vec::new();
    };
    let slow = sharing.cut_off_after.map_or_else(
        || "pause".to_owned(),
        |after| format!("fail; slow_after={}", span(after)),
    );
    vec![
        ("slow_subscriber", slow),
        ("absent_grace", span(sharing.absent_grace)),
    ]
}

/// What is not at its default.
fn intake(intake: &Intake) -> Vec<(&'static str, String)> {
    let mut settings = Vec::new();
    if let Some(max_age) = intake.max_age {
        let then = match max_age.then {
            OnExpired::DeadLetter => "dead_letter",
            OnExpired::Drop => "drop",
        };
        settings.push(("max_age", span(max_age.age)));
        settings.push(("on_expired", then.to_owned()));
    }
    if let Some(filter) = &intake.filter {
        settings.push(("filter", format!("{:?}", filter.source())));
    }
    if let Some(content) = intake.content {
        let on_failure = match content.on_failure {
            OnFailure::Reject => "reject",
            OnFailure::Skip => "skip",
            OnFailure::Deliver => "deliver",
        };
        settings.push(("content.check", content.check.name().to_owned()));
        settings.push(("content.on_failure", on_failure.to_owned()));
    }
    settings
}

fn backoff(backoff: Backoff) -> String {
    format!(
        "{} x {} up to {}",
        span(backoff.initial),
        backoff.factor,
        span(backoff.max)
    )
}

fn properties(properties: &[(String, String)]) -> String {
    let shown = |(name, value): &(String, String)| {
        let figure = FIGURES.iter().any(|end| name.ends_with(end));
        let plain = SHOWN.contains(&name.as_str()) || figure && value.trim().parse::<i64>().is_ok();
        format!("{name}={}", if plain { value } else { MASK })
    };
    let all: Vec<String> = properties.iter().map(shown).collect();
    format!("{{{}}}", all.join(", "))
}

fn line(settings: &[(&str, String)]) -> String {
    let all: Vec<String> = settings
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    all.join("; ")
}

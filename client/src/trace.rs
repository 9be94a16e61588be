//! [`TraceContext`]: which trace a record belongs to: by the gateway's span of its delivery,
//! else by its headers `traceparent` and `tracestate` as W3C Trace Context has them.
//!
//! Headers come from whoever wrote the record: what is not exactly as it should be is none.

use std::fmt::{self, Write as _};

use ackgate_proto::v1;

use crate::{Delivery, Outgoing, Record};

/// Name of the header with trace, span and flags.
const PARENT: &str = "traceparent";

/// Name of the header with what vendors add.
const STATE: &str = "tracestate";

/// Longest `tracestate` that is passed on, and most of its members.
const MAX_STATE: usize = 512;
const MAX_MEMBERS: usize = 32;

/// Length of `traceparent` in version 00: `00-`, 32 digits, `-`, 16 digits, `-`, 2 digits.
const PARENT_LENGTH: usize = 55;

/// The place of a record in a trace: the span that wrote it, in which trace, and whether that
/// is sampled.
///
/// ```
/// use ackgate_client::{Outgoing, TraceContext};
///
/// let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
/// let context = TraceContext::parse(parent, "vendor=1").expect("it is well formed");
/// assert!(context.is_sampled());
/// assert_eq!(context.to_string(), parent);
/// // On the way into Kafka:
/// let order = Outgoing::new("orders", "one espresso").trace_context(&context);
/// # assert_eq!(order.size(), 12 + 11 + 55 + 10 + 8);
/// // And what is wrong is none.
/// assert_eq!(TraceContext::parse("00-0af7", ""), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TraceContext {
    trace_id: [u8; 16],
    span_id: [u8; 8],
    flags: u8,
    state: String,
}

impl TraceContext {
    /// A context without state; `None` if either id has only zeros, which mean none.
    #[must_use]
    pub fn new(trace_id: [u8; 16], span_id: [u8; 8], is_sampled: bool) -> Option<Self> {
        let given = trace_id != [0; 16] && span_id != [0; 8];
        given.then_some(Self {
            trace_id,
            span_id,
            flags: is_sampled.into(),
            state: String::new(),
        })
    }

    /// Reads the two headers; `None` if `traceparent` is not well formed. A `tracestate` that
    /// is not, or has more than 512 bytes or 32 members, is left out.
    #[must_use]
    pub fn parse(traceparent: &str, tracestate: &str) -> Option<Self> {
        let (known, rest) = traceparent.as_bytes().split_at_checked(PARENT_LENGTH)?;
        let version: [u8; 1] = hex(known.get(..2)?)?;
        // Later versions may go on after another dash; 255 is forbidden.
        let ends = rest.is_empty() || (version != [0] && rest.first() == Some(&b'-'));
        let dashes = [2, 35, 52].iter().all(|at| known.get(*at) == Some(&b'-'));
        if !ends || !dashes || version == [255] {
            return None;
        }
        let trace_id = hex(known.get(3..35)?)?;
        let span_id = hex(known.get(36..52)?)?;
        let [flags] = hex(known.get(53..55)?)?;
        let context = Self::new(trace_id, span_id, flags & 1 == 1)?;
        let state = if is_state(tracestate) { tracestate } else { "" };
        Some(Self {
            state: state.to_owned(),
            ..context
        })
    }

    /// The gateway's span of a delivery, which is one of `traces` in offset order, if it has
    /// one; else what the headers of the record say.
    pub(crate) fn of(traces: &[v1::RecordTrace], record: Record<'_>) -> Option<Self> {
        let found = traces.binary_search_by_key(&record.offset(), |trace| trace.offset);
        let own = found.ok().and_then(|index| traces.get(index));
        own.and_then(|own| Self::parse(&own.traceparent, &own.tracestate))
            .or_else(|| Self::of_headers(record.headers()))
    }

    /// What headers say, whatever the case of their names: of several `traceparent` the last
    /// that has a value.
    ///
    /// ```
    /// use ackgate_client::TraceContext;
    ///
    /// let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    /// let headers = [("Traceparent", Some(parent.as_bytes())), ("traceparent", None)];
    /// let context = TraceContext::of_headers(headers).expect("it is well formed");
    /// assert_eq!(context.to_string(), parent);
    /// ```
    pub fn of_headers<'a>(
        headers: impl IntoIterator<Item = (&'a str, Option<&'a [u8]>)>,
    ) -> Option<Self> {
        let mut parent = None;
        let mut states = Vec::new();
        for (name, value) in headers {
            let Some(value) = value else { continue };
            if name.eq_ignore_ascii_case(PARENT) {
                parent = Some(value);
            } else if name.eq_ignore_ascii_case(STATE) {
                states.push(value);
            }
        }
        let parent = str::from_utf8(parent?).ok()?;
        let mut state = String::new();
        for part in states.into_iter().filter_map(|it| str::from_utf8(it).ok()) {
            // Far above what is passed on; others may have written more.
            if state.len() > MAX_STATE || part.len() > MAX_STATE {
                state.clear();
                break;
            }
            if !state.is_empty() {
                state.push(',');
            }
            state.push_str(part);
        }
        Self::parse(parent, &state)
    }

    /// Returns the trace.
    #[must_use]
    pub const fn trace_id(&self) -> [u8; 16] {
        self.trace_id
    }

    /// Returns the span.
    #[must_use]
    pub const fn span_id(&self) -> [u8; 8] {
        self.span_id
    }

    /// Returns whether whoever wrote it may have recorded the trace.
    #[must_use]
    pub const fn is_sampled(&self) -> bool {
        self.flags & 1 == 1
    }

    /// Returns the `tracestate`, empty if there is none.
    #[must_use]
    pub fn state(&self) -> &str {
        &self.state
    }
}

impl fmt::Display for TraceContext {
    /// As `traceparent`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("00-")?;
        self.trace_id
            .iter()
            .try_for_each(|it| write!(f, "{it:02x}"))?;
        f.write_char('-')?;
        self.span_id
            .iter()
            .try_for_each(|it| write!(f, "{it:02x}"))?;
        write!(f, "-{:02x}", self.flags)
    }
}

impl Delivery {
    /// Returns the trace that the work on this delivery belongs to, and its parent there: the
    /// gateway's own span of the delivery, if it traces the record; else what the record's
    /// headers say, if they do. Both are of the same trace. The headers come as the producer
    /// wrote them: [`TraceContext::of_headers`] reads its span from them.
    #[must_use]
    pub fn trace_context(&self) -> Option<TraceContext> {
        TraceContext::of(&self.origin.traces, self.record())
    }

    /// Returns a span for the work on this delivery, with the names that OpenTelemetry has
    /// for messaging: of kind `consumer`, at level `INFO` and target `ackgate_client::work`,
    /// with the record's place, its attempt, and the id of its trace, if it has one. Neither
    /// key nor value is in it. A [`Worker`](crate::Worker) runs each handler in one.
    ///
    /// Where `tracing` is exported by OpenTelemetry, the trace itself is continued by giving
    /// the span [`trace_context`](Self::trace_context) as its parent.
    ///
    /// ```
    /// use ackgate_client::Delivery;
    /// use tracing::Instrument as _;
    ///
    /// # async fn store(_order: Option<&[u8]>) {}
    /// async fn work(delivery: Delivery) {
    ///     let span = delivery.span();
    ///     async {
    ///         store(delivery.value()).await;
    ///         delivery.ack();
    ///     }
    ///     .instrument(span)
    ///     .await;
    /// }
    /// ```
    #[must_use]
    pub fn span(&self) -> tracing::Span {
        let span = tracing::info_span!(
            target: "ackgate_client::work",
            "process",
            otel.name = tracing::field::Empty,
            otel.kind = "consumer",
            messaging.system = "kafka",
            messaging.operation.name = "process",
            messaging.operation.type = "process",
            messaging.destination.name = self.topic(),
            messaging.destination.partition.id = self.partition(),
            messaging.kafka.offset = self.offset(),
            ackgate.attempt = self.attempt(),
            trace_id = tracing::field::Empty,
        );
        // Nothing is made for a span that nobody looks at.
        if !span.is_disabled() {
            span.record("otel.name", format!("process {}", self.topic()));
            if let Some(context) = self.trace_context() {
                let trace_id = u128::from_be_bytes(context.trace_id);
                span.record("trace_id", format!("{trace_id:032x}"));
            }
        }
        span
    }
}

impl Outgoing {
    /// Says which trace the record belongs to, in place of what it said before.
    pub fn trace_context(mut self, context: &TraceContext) -> Self {
        let others =
            |name: &str| !name.eq_ignore_ascii_case(PARENT) && !name.eq_ignore_ascii_case(STATE);
        self.0.headers.retain(|header| others(&header.key));
        let record = self.header(PARENT, context.to_string());
        match context.state.as_str() {
            "" => record,
            state => record.header(STATE, state.to_owned()),
        }
    }
}

#[cfg(feature = "opentelemetry")]
impl TraceContext {
    /// The context of OpenTelemetry in which this is the remote span: the parent for a span
    /// of the work on the record.
    ///
    /// Needs the crate's feature `opentelemetry`; it has types of that crate, version 0.33.
    #[must_use]
    pub fn to_opentelemetry(&self) -> opentelemetry::Context {
        use opentelemetry::trace::{
            SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState,
        };
        let state: TraceState = self.state.parse().unwrap_or_default();
        let span = SpanContext::new(
            TraceId::from_bytes(self.trace_id),
            SpanId::from_bytes(self.span_id),
            TraceFlags::new(self.flags),
            true,
            state,
        );
        opentelemetry::Context::new().with_remote_span_context(span)
    }

    /// The span of a context of OpenTelemetry, for [`Outgoing::trace_context`]; `None` if it
    /// has none.
    ///
    /// Needs the crate's feature `opentelemetry`.
    #[must_use]
    pub fn of_opentelemetry(context: &opentelemetry::Context) -> Option<Self> {
        use opentelemetry::trace::TraceContextExt as _;
        let span = context.span();
        let span = span.span_context();
        let (trace_id, span_id) = (span.trace_id().to_bytes(), span.span_id().to_bytes());
        let context = Self::new(trace_id, span_id, span.is_sampled())?;
        let state = span.trace_state().header();
        let state = if is_state(&state) {
            state
        } else {
            String::new()
        };
        Some(Self { state, ..context })
    }
}

/// Bytes from exactly as many pairs of lower-case hexadecimal digits.
fn hex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    if text.len() != 2 * N {
        return None;
    }
    let digit = |byte: &u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = digit(high)? << 4 | digit(low)?;
    }
    Some(bytes)
}

/// Whether a text is a list of `key=value`, as `tracestate` is.
fn is_state(text: &str) -> bool {
    let member = |member: &str| {
        let member = member.trim_matches([' ', '\t']);
        member.is_empty()
            || member
                .split_once('=')
                .is_some_and(|(key, value)| is_key(key) && is_value(value))
    };
    text.len() <= MAX_STATE && text.split(',').count() <= MAX_MEMBERS && text.split(',').all(member)
}

fn is_key(key: &str) -> bool {
    let may_follow =
        |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || b"_-*/@".contains(&it);
    key.len() <= 256
        && key
            .bytes()
            .next()
            .is_some_and(|it| it.is_ascii_lowercase() || it.is_ascii_digit())
        && key.bytes().all(may_follow)
}

fn is_value(value: &str) -> bool {
    let allowed = |it: u8| (b' '..=b'~').contains(&it) && it != b',' && it != b'=';
    !value.is_empty() && value.len() <= 256 && !value.ends_with(' ') && value.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn only_what_is_well_formed_is_a_context() {
        let context = TraceContext::parse(PLAIN, "a=1,b=2").expect("a context");
        assert_eq!(context.trace_id()[..3], [0x0a, 0xf7, 0x65]);
        assert_eq!(context.span_id()[7], 0x31);
        assert_eq!(
            (context.state(), context.to_string().as_str()),
            ("a=1,b=2", PLAIN)
        );
        let later = format!("cc{}-what-comes", &PLAIN[2..]);
        assert!(
            TraceContext::parse(&later, "").is_some(),
            "of a later version"
        );
        let malformed = [
            "".to_owned(),
            PLAIN[..54].to_owned(),
            format!("{PLAIN}-"),
            format!("{PLAIN}0"),
            format!("ff{}", &PLAIN[2..]),
            format!("cc{}.what", &PLAIN[2..]),
            PLAIN.to_uppercase(),
            PLAIN.replace('-', "_"),
            PLAIN.replace("b7", "g7"),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01".to_owned(),
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01".to_owned(),
            "00-0af7651916cd43dd8448eb211c80319é-b7ad6b7169203331-1".to_owned(),
        ];
        for text in malformed {
            assert_eq!(TraceContext::parse(&text, ""), None, "{text}");
        }
    }

    #[test]
    fn state_that_is_wrong_is_left_out_and_the_rest_kept() {
        for state in [
            "no pairs",
            "A=1",
            "a=1,=2",
            "a=\u{e9}",
            "a=1\n",
            &"a=1,".repeat(40),
        ] {
            let context = TraceContext::parse(PLAIN, state).expect("a context");
            assert_eq!(context.state(), "", "{state}");
        }
        let spaced = TraceContext::parse(PLAIN, "a@b=x y, c/d=2,").expect("a context");
        assert_eq!(spaced.state(), "a@b=x y, c/d=2,");
    }

    #[test]
    fn headers_of_a_record_are_read_and_written() {
        let context = TraceContext::parse(PLAIN, "a=1").expect("a context");
        let outgoing = Outgoing::new("orders", "x")
            .header(PARENT, "old")
            .header("other", "y")
            .trace_context(&context);
        let record = v1::Record {
            headers: outgoing.0.headers,
            ..v1::Record::default()
        };
        assert_eq!(record.headers.len(), 3);
        assert_eq!(TraceContext::of(&[], Record(&record)), Some(context));
        let plain = |headers: &[(&str, &[u8])]| v1::Record {
            headers: headers
                .iter()
                .map(|(key, value)| v1::Header {
                    key: (*key).to_owned(),
                    value: Some(bytes::Bytes::copy_from_slice(value)),
                })
                .collect(),
            ..v1::Record::default()
        };
        let split = plain(&[(PARENT, PLAIN.as_bytes()), (STATE, b"a=1"), (STATE, b"b=2")]);
        let split = TraceContext::of(&[], Record(&split)).expect("a context");
        assert_eq!(split.state(), "a=1,b=2");
        let huge = vec![b'a'; 1 << 20];
        let huge = plain(&[(PARENT, PLAIN.as_bytes()), (STATE, &huge), (STATE, &huge)]);
        assert!(TraceContext::of(&[], Record(&huge)).is_some_and(|it| it.state().is_empty()));
        assert_eq!(
            TraceContext::of(&[], Record(&plain(&[(PARENT, b"\xff\xfe")]))),
            None
        );
        assert_eq!(TraceContext::of(&[], Record(&plain(&[]))), None);
    }

    #[test]
    fn gateways_span_goes_before_headers_and_nonsense_does_not() {
        let header = |key: &str, value: Option<&str>| v1::Header {
            key: key.to_owned(),
            value: value.map(|value| bytes::Bytes::copy_from_slice(value.as_bytes())),
        };
        let record = v1::Record {
            offset: 7,
            headers: vec![
                header("TraceParent", Some(PLAIN)),
                header(PARENT, None),
                header("TRACESTATE", Some("a=1")),
            ],
            ..v1::Record::default()
        };
        let own = PLAIN.replace("b7ad6b7169203331", "00f067aa0ba902b7");
        let trace = |offset, parent: &str| v1::RecordTrace {
            offset,
            traceparent: parent.to_owned(),
            tracestate: "b=2".to_owned(),
        };
        let said = |traces: &[v1::RecordTrace]| {
            let context = TraceContext::of(traces, Record(&record)).expect("a context");
            (context.to_string(), context.state().to_owned())
        };
        let headers = (PLAIN.to_owned(), "a=1".to_owned());
        assert_eq!(said(&[]), headers, "of any case, and null is none");
        assert_eq!(
            said(&[trace(6, &own), trace(7, &own)]),
            (own.clone(), "b=2".to_owned())
        );
        assert_eq!(said(&[trace(6, &own)]), headers, "of another record");
        assert_eq!(said(&[trace(7, "00-0af7")]), headers);
    }

    #[cfg(feature = "opentelemetry")]
    #[test]
    fn context_goes_to_opentelemetry_and_back() {
        let context = TraceContext::parse(PLAIN, "a=1").expect("a context");
        let there = context.to_opentelemetry();
        assert_eq!(TraceContext::of_opentelemetry(&there), Some(context));
        let none = opentelemetry::Context::new();
        assert_eq!(TraceContext::of_opentelemetry(&none), None);
    }
}

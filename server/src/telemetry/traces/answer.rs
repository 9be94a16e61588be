//! [`Answer`]: spans as the bytes of one answer, and their way to whoever asked.
//!
//! **Invariant**: an answer has a bound in bytes, and is gone by a deadline whether it is
//! read or not; whatever was to be given back then is.

use std::{io, sync::Arc, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use opentelemetry_proto::{
    tonic::trace::v1::{Span, TracesData},
    transform::trace::tonic::group_spans_by_resource_and_scope,
};
use opentelemetry_sdk::{Resource, trace::SpanData};
use tokio::sync::mpsc;

/// Bytes that are on their way at a time.
const PIECE: usize = 64 * 1024;

/// What is written of some spans.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) json: Vec<u8>,
    /// The older spans that found no room.
    pub(super) left_out: usize,
}

impl Answer {
    /// Writes `spans`, the oldest first, of `resource`: as many of the newest as `most` bytes
    /// hold. Takes its time.
    pub(super) fn write(
        spans: &[Arc<SpanData>],
        resource: &Resource,
        most: usize,
    ) -> serde_json::Result<Self> {
        let mut kept = Vec::new();
        let mut room = most;
        for span in spans.iter().rev() {
            let span = Span::from((**span).clone());
            let mut length = Length(1);
            serde_json::to_writer(&mut length, &span)?;
            let Some(left) = room.checked_sub(length.0) else {
                break;
            };
            room = left;
            kept.push(span);
        }
        let left_out = spans.len() - kept.len();
        kept.reverse();
        // All spans are of one scope: one of them makes the frame for the others.
        let one = spans.last().filter(|_| !kept.is_empty());
        let mut resource_spans = one.map_or_else(Vec::new, |one| {
            group_spans_by_resource_and_scope(vec![(**one).clone()], &resource.into())
        });
        let scopes = resource_spans.iter_mut().flat_map(|it| &mut it.scope_spans);
        for scope in scopes {
            scope.spans = std::mem::take(&mut kept);
        }
        let json = serde_json::to_vec(&TracesData { resource_spans })?;
        Ok(Self { json, left_out })
    }
}

/// Counts what is written.
struct Length(usize);

impl io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A body of these bytes. They and `place` are dropped once all are read, nobody reads any
/// more, or `limit` is over; the body ends in an error then.
pub(super) fn body(json: Vec<u8>, place: impl Send + 'static, limit: Duration) -> Body {
    let (pieces, read) = mpsc::channel::<Bytes>(1);
    let all = json.len();
    tokio::spawn(async move {
        let _place = place;
        let sending = async {
            for piece in json.chunks(PIECE) {
                // What is passed on must not keep the rest.
                if pieces.send(Bytes::copy_from_slice(piece)).await.is_err() {
                    return;
                }
            }
        };
        // Who reads notices by itself that bytes are missing.
        let _late = tokio::time::timeout(limit, sending).await;
    });
    Body::from_stream(stream::unfold((read, all), |(mut read, left)| async move {
        if let Some(piece) = read.recv().await {
            let left = left.saturating_sub(piece.len());
            return Some((Ok(piece), (read, left)));
        }
        let error = io::Error::new(io::ErrorKind::TimedOut, "it was not read in time");
        (left > 0).then_some((Err(error), (read, 0)))
    }))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use futures::StreamExt as _;
    use tokio::sync::Semaphore;

    use super::{
        super::{Filter, Operation, Ring, Tracer},
        *,
    };

    #[test]
    fn newest_spans_are_kept_within_the_bytes() {
        let ring = Arc::new(Ring::new(10));
        let tracer = Tracer::to_ring(&ring, "shop", "billing", 1.0);
        for topic in ["first", "second", "third"] {
            let at = SystemTime::UNIX_EPOCH;
            let span = tracer.begin(Operation::Poll, Some(topic), at).unwrap();
            tracer.end(span, at);
        }
        let spans = ring.last(10, &Filter::default());
        let resource = Resource::builder_empty().build();
        let written = |most| {
            let answer = Answer::write(&spans, &resource, most).unwrap();
            let json: serde_json::Value = serde_json::from_slice(&answer.json).unwrap();
            let spans = json["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array();
            let name = |span: &serde_json::Value| span["name"].as_str().unwrap().to_owned();
            let names: Vec<_> = spans.into_iter().flatten().map(name).collect();
            (names, answer.left_out, answer.json.len())
        };
        let (names, left_out, all) = written(1 << 20);
        assert_eq!(names, ["poll first", "poll second", "poll third"]);
        assert_eq!(left_out, 0);
        let (names, left_out, _) = written(all * 2 / 3);
        assert_eq!(names, ["poll second", "poll third"]);
        assert_eq!(left_out, 1);
        let (names, left_out, _) = written(10);
        assert!(names.is_empty());
        assert_eq!(left_out, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn body_gives_its_place_back_read_or_not() {
        let places = Arc::new(Semaphore::new(1));
        let limit = Duration::from_secs(30);
        let long = || vec![b'x'; 5 * PIECE + 1];
        let taken = || Arc::clone(&places).try_acquire_owned();
        let free = || places.available_permits();
        let back = || tokio::time::timeout(limit * 3, places.acquire());

        let read = axum::body::to_bytes(body(long(), taken().unwrap(), limit), usize::MAX);
        assert_eq!(read.await.unwrap(), long(), "all of it, in its order");
        drop(back().await.unwrap());

        let unread = body(long(), taken().unwrap(), limit);
        tokio::time::sleep(limit / 2).await;
        assert_eq!(free(), 0, "there is time yet");
        drop(back().await.unwrap());
        let pieces: Vec<_> = unread.into_data_stream().collect().await;
        assert!(pieces.len() < 5, "the rest is gone");
        assert!(pieces.last().unwrap().is_err(), "and that is said");

        let dropped = body(long(), taken().unwrap(), limit);
        drop(dropped);
        let soon = tokio::time::timeout(limit / 2, places.acquire());
        drop(soon.await.unwrap());
    }
}

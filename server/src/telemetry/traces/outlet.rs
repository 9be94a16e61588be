//! [`Outlet`]: the way of spans to a receiver, with a bound of its own in front of the SDK's
//! queue, which drops what finds no room and tells nobody how much.
//!
//! **Invariants**: whoever ends a span never waits for it. Each span that has come is sent, or
//! lost, or one of at most [`QUEUE`] that wait or are on their way; nothing is counted twice.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanExporter, SpanProcessor as _},
};
use parking_lot::Mutex;

use crate::telemetry::{cause::cause, episode::Episode};

/// Spans that wait or are on their way, and how many go together.
const QUEUE: usize = 8192;
const BATCH: usize = 512;

/// How long the first of them waits for others.
const DELAY: Duration = Duration::from_secs(1);

/// What became of spans that were to be sent.
#[derive(Debug, Default)]
pub struct Spans {
    /// The receiver has them.
    pub(in crate::telemetry) sent: AtomicU64,
    /// It did not take them, or too many waited for it already.
    pub(in crate::telemetry) lost: AtomicU64,
}

/// Takes spans that have ended. The SDK's processor sends them from a thread of its own.
#[derive(Debug)]
pub struct Outlet {
    processor: BatchSpanProcessor,
    shared: Arc<Shared>,
}

/// What both sides of the queue know.
#[derive(Debug)]
struct Shared {
    endpoint: String,
    spans: Arc<Spans>,
    /// Spans that have come and are neither sent nor lost.
    waiting: AtomicUsize,
    /// Nothing that comes from now on can be sent.
    closed: AtomicBool,
    /// Batches that the receiver did not take.
    refused: Mutex<Losses>,
    /// Spans that found no room. Not over before half of the queue is free, or a receiver
    /// that is merely slow would have it told with each batch.
    full: Mutex<Losses>,
}

impl Outlet {
    /// Sends with `exporter`, which `endpoint` names in the log, and counts in `spans`.
    pub(super) fn begin(
        exporter: impl SpanExporter + 'static,
        endpoint: String,
        resource: &Resource,
        spans: &Arc<Spans>,
    ) -> Self {
        let shared = Arc::new(Shared {
            endpoint,
            spans: Arc::clone(spans),
            waiting: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            refused: Mutex::default(),
            full: Mutex::default(),
        });
        let exporter = Telling {
            exporter,
            shared: Arc::clone(&shared),
        };
        let config = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE)
            .with_max_export_batch_size(BATCH)
            .with_scheduled_delay(DELAY)
            .build();
        let mut processor = BatchSpanProcessor::builder(exporter)
            .with_batch_config(config)
            .build();
        processor.set_resource(resource);
        Self { processor, shared }
    }

    /// Takes a span, or counts it as lost. Never waits.
    pub(super) fn take(&self, span: SpanData) {
        let shared = &self.shared;
        if shared.closed.load(Ordering::Acquire) {
            shared.lose(1);
        } else if shared.waiting.fetch_add(1, Ordering::AcqRel) < QUEUE {
            // There is room: what the SDK keeps is a part of what waits.
            self.processor.on_end(span);
        } else {
            shared.waiting.fetch_sub(1, Ordering::AcqRel);
            shared.lose(1);
            shared.tell_full();
        }
    }

    /// Sends what waits, within `limit`, and takes nothing more. Blocks.
    ///
    /// # Errors
    /// How many spans are neither sent nor known to be lost.
    pub(super) fn shut_down(&self, limit: Duration) -> Result<(), usize> {
        let shared = &self.shared;
        shared.closed.store(true, Ordering::Release);
        // An error of the last batch is told by whoever sent it.
        let ended = self.processor.shutdown_with_timeout(limit);
        if ended.is_err() {
            return Err(shared.waiting.load(Ordering::Acquire));
        }
        // They came while it closed: the thread that would have sent them has ended.
        shared.lose(shared.waiting.swap(0, Ordering::AcqRel) as u64);
        Ok(())
    }
}

impl Shared {
    fn lose(&self, spans: u64) {
        self.spans.lost.fetch_add(spans, Ordering::Relaxed);
    }

    fn tell_full(&self) {
        let due = self.full.lock().again(1, Instant::now());
        if let Some((_, spans)) = due {
            tracing::warn!(
                endpoint = self.endpoint,
                spans,
                limit = QUEUE,
                "spans are lost: the collector takes them slower than they end"
            );
        }
    }

    /// A batch has been tried.
    fn tell(&self, batch: usize, result: &OTelSdkResult) {
        let endpoint = &self.endpoint;
        let spans = batch as u64;
        match result {
            Ok(()) => {
                self.spans.sent.fetch_add(spans, Ordering::Relaxed);
                let over = self.refused.lock().over();
                if let Some((count, spans)) = over {
                    tracing::info!(endpoint, count, spans, "spans reach the collector again");
                }
            }
            Err(error) => {
                self.lose(spans);
                let due = self.refused.lock().again(spans, Instant::now());
                if let Some((count, spans)) = due {
                    tracing::warn!(
                        endpoint,
                        error = cause(error),
                        count,
                        spans,
                        "spans do not reach the collector and are lost"
                    );
                }
            }
        }
        let before = self.waiting.fetch_sub(batch, Ordering::AcqRel);
        if before.saturating_sub(batch) <= QUEUE / 2 {
            let over = self.full.lock().over();
            if let Some((_, spans)) = over {
                tracing::info!(
                    endpoint,
                    spans,
                    "spans find room on their way to the collector"
                );
            }
        }
    }
}

/// Losses one after another, and the spans in them.
#[derive(Debug, Default)]
struct Losses {
    episode: Episode,
    spans: u64,
}

impl Losses {
    /// One more; how many there were, and the spans in them, if it is time to tell.
    fn again(&mut self, spans: u64, now: Instant) -> Option<(u64, u64)> {
        self.spans = self.spans.saturating_add(spans);
        let count = self.episode.again(now)?;
        Some((count, self.spans))
    }

    /// They are over; what was lost, if anything was.
    fn over(&mut self) -> Option<(u64, u64)> {
        let count = self.episode.over()?;
        Some((count, std::mem::take(&mut self.spans)))
    }
}

/// Counts what the exporter does, and tells of it.
#[derive(Debug)]
struct Telling<E> {
    exporter: E,
    shared: Arc<Shared>,
}

impl<E: SpanExporter> SpanExporter for Telling<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let result = self.exporter.export(batch).await;
        self.shared.tell(spans, &result);
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::mpsc::{self, Receiver, SyncSender},
        time::SystemTime,
    };

    use opentelemetry::{InstrumentationScope, TraceId};
    use opentelemetry_sdk::error::OTelSdkError;

    use super::*;
    use crate::telemetry::traces::{Operation, span::Span};

    /// Far more than is needed: only a fault takes as long.
    const LIMIT: Duration = Duration::from_secs(60);

    #[test]
    fn losses_are_told_at_once_then_with_their_sum_and_when_they_are_over() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut losses = Losses::default();
        assert_eq!(losses.over(), None);
        assert_eq!(losses.again(512, at(0)), Some((1, 512)));
        assert_eq!(losses.again(512, at(1)), None);
        assert_eq!(losses.again(100, at(31)), Some((3, 1124)));
        assert_eq!(losses.again(1, at(32)), None);
        assert_eq!(losses.over(), Some((4, 1125)));
        assert_eq!(losses.again(7, at(33)), Some((1, 7)), "another episode");
    }

    /// Stalls until it is told how the first batch ends; all others are taken.
    #[derive(Debug)]
    struct Stalling(Mutex<Receiver<OTelSdkResult>>);

    impl SpanExporter for Stalling {
        async fn export(&self, _batch: Vec<SpanData>) -> OTelSdkResult {
            self.0.lock().recv().unwrap_or(Ok(()))
        }
    }

    /// An outlet, how its first batch ends, and what became of its spans.
    fn stalled() -> (Outlet, SyncSender<OTelSdkResult>, Arc<Spans>) {
        let (go, stall) = mpsc::sync_channel(1);
        let spans = Arc::default();
        let exporter = Stalling(Mutex::new(stall));
        let resource = Resource::builder_empty().build();
        let outlet = Outlet::begin(exporter, "there".to_owned(), &resource, &spans);
        (outlet, go, spans)
    }

    fn end(outlet: &Outlet, count: usize) {
        let scope = InstrumentationScope::builder("test").build();
        for _ in 0..count {
            let now = SystemTime::now();
            let span = Span::new(
                TraceId::from(1),
                Operation::Poll,
                None,
                now,
                &Arc::default(),
            );
            outlet.take(span.finish(now, &scope));
        }
    }

    fn counted(spans: &Spans) -> (u64, u64) {
        let Spans { sent, lost } = spans;
        (sent.load(Ordering::Relaxed), lost.load(Ordering::Relaxed))
    }

    #[test]
    fn span_that_finds_no_room_behind_a_stalled_receiver_is_counted_as_lost() {
        let (outlet, go, spans) = stalled();
        end(&outlet, QUEUE);
        assert_eq!(counted(&spans), (0, 0), "all of them may still arrive");
        end(&outlet, 1000);
        assert_eq!(counted(&spans), (0, 1000));
        assert_eq!(outlet.shared.full.lock().spans, 1000);
        drop(go);
        assert_eq!(outlet.shut_down(LIMIT), Ok(()));
        assert_eq!(counted(&spans), (QUEUE as u64, 1000));
        assert_eq!(outlet.shared.full.lock().over(), None, "told as over");
    }

    #[test]
    fn refused_batch_and_what_comes_after_the_end_are_counted_as_lost() {
        let (outlet, go, spans) = stalled();
        end(&outlet, BATCH);
        go.send(Err(OTelSdkError::InternalFailure("no".to_owned())))
            .unwrap();
        drop(go);
        assert_eq!(outlet.shut_down(LIMIT), Ok(()));
        let (sent, lost) = counted(&spans);
        assert!(lost > 0, "the first batch, of however many");
        assert_eq!(sent + lost, BATCH as u64);
        end(&outlet, 3);
        assert_eq!(counted(&spans), (sent, lost + 3));
    }

    #[test]
    fn end_that_comes_too_early_says_how_many_spans_are_left() {
        let (outlet, go, spans) = stalled();
        end(&outlet, 700);
        assert_eq!(outlet.shut_down(Duration::ZERO), Err(700));
        assert_eq!(counted(&spans), (0, 0), "they may still arrive");
        drop(go);
    }
}

//! [`Keeper`]: listens for a session between its calls, gives lanes a sign of life, hands
//! over what a call has taken, and ends the session when nobody comes any more.
//!
//! **Invariant**: what a call took is either handed over or released at once; deadlines
//! begin with the hand-over.

use std::{collections::VecDeque, future::pending, sync::Arc, time::Duration};

use ackgate_lane::{OffsetRange, Target, Verdict};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, Interval, MissedTickBehavior, interval, sleep_until, timeout_at},
};

use super::{
    call::{Call, NotTaken, Reply, Taken},
    sitting::Sitting,
};
use crate::{
    consumer::{
        Confirm, Departure, Drawn, End, Input, LaneNotice, LaneVerdict, NoticeKind, Outbound,
        OutboundBatch,
        mutation::{self, Mutation},
    },
    session::{
        goodbye::{Attached, Goodbye},
        handshake::Opening,
        writer::cut_short,
    },
};

/// News kept for the next answer.
const NEWS: usize = 32;

/// A session that cannot end yet is asked again after this long.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// Time for the transport to take an answer: what waits for it has no deadline yet.
const LEAST_HAND_OVER: Duration = Duration::from_secs(30);

/// A draw under way.
#[derive(Debug)]
struct Drawing {
    reply: Reply,
    batches: Vec<OutboundBatch>,
    /// Nobody waits for it any more.
    is_abandoned: bool,
    /// Its caller cannot wait any longer.
    is_hurried: bool,
}

/// An answer on its way to the transport.
#[derive(Debug)]
struct Handing {
    receipt: oneshot::Receiver<()>,
    runs: Vec<(u64, Vec<OffsetRange>)>,
    until: Instant,
}

/// The task of a session.
#[derive(Debug)]
pub(super) struct Keeper {
    sitting: Arc<Sitting>,
    calls: mpsc::Receiver<Call>,
    messages: mpsc::Receiver<Outbound>,
    goodbye: Goodbye,
    cut: Option<oneshot::Receiver<End>>,
    /// How often lanes want to hear of it, if at all.
    beat: Option<Duration>,
    hand_over_within: Duration,
    idle: Duration,
    is_broadcast: bool,
    /// Somebody has been told the token.
    is_known: bool,
    is_draining: bool,
    drawing: Option<Drawing>,
    handing: Option<Handing>,
    news: VecDeque<LaneNotice>,
}

impl Keeper {
    pub(super) fn new(
        sitting: Arc<Sitting>,
        calls: mpsc::Receiver<Call>,
        attached: Attached,
        opening: &Opening,
        is_broadcast: bool,
        idle: Duration,
    ) -> Self {
        Self {
            sitting,
            calls,
            messages: attached.messages,
            goodbye: attached.goodbye,
            cut: Some(attached.cut),
            beat: opening.handle.subscription().lane_lease().map(|it| it.beat),
            hand_over_within: opening.ack_deadline.max(LEAST_HAND_OVER),
            idle,
            is_broadcast,
            is_known: false,
            is_draining: false,
            drawing: None,
            handing: None,
            news: VecDeque::new(),
        }
    }

    /// Keeps the session until it ends.
    pub(super) async fn run(mut self) {
        let end = self.keep().await;
        tracing::debug!(
            session = self.sitting.session().0,
            outcome = end.word(),
            "pull session ends"
        );
        self.sitting.end(end);
        // The driver knows unless it has gone too.
        self.goodbye.tell(Departure::Lost).await;
    }

    async fn keep(&mut self) -> End {
        let cut = self.cut.take();
        let cut = async move {
            match cut {
                Some(cut) => cut_short(cut).await,
                None => pending().await,
            }
        };
        tokio::pin!(cut);
        let mut beats = self.beat.map(beats);
        let mut look = Instant::now() + self.idle;
        loop {
            tokio::select! {
                biased;
                end = &mut cut => return end,
                // Before anything that its caller may say next.
                taken = receipt(&mut self.handing) => self.handed(taken).await,
                message = self.messages.recv() => match message {
                    Some(message) => {
                        if let Some(end) = self.hear(message).await {
                            return end;
                        }
                    }
                    // The driver let go of the session without a word.
                    None if self.is_draining => return End::ShuttingDown,
                    None => return End::Closed,
                },
                () = abandoned(&mut self.drawing) => self.abandon().await,
                Some(call) = self.calls.recv() => self.call(call).await,
                () = next(&mut beats) => self.tell(Input::Beat(self.sitting.session())).await,
                () = sleep_until(look) => look = self.look().await,
            }
        }
    }

    async fn call(&mut self, call: Call) {
        match call {
            Call::Pull(_, reply) if self.drawing.is_some() || self.handing.is_some() => {
                // The caller has gone.
                let _unheard = reply.send(Err(NotTaken::InProgress));
            }
            Call::Pull(draw, reply) => {
                self.drawing = Some(Drawing {
                    reply,
                    batches: Vec::new(),
                    is_abandoned: false,
                    is_hurried: false,
                });
                self.tell(Input::Draw(self.sitting.session(), draw)).await;
            }
            Call::Hurry => {
                if let Some(drawing) = &mut self.drawing {
                    drawing.is_hurried = true;
                    self.tell(Input::EndDraw(self.sitting.session())).await;
                }
            }
            Call::Close => self.goodbye.tell(Departure::Closed).await,
        }
    }

    /// Takes a message of the driver's; the end, if it is that.
    async fn hear(&mut self, message: Outbound) -> Option<End> {
        match message {
            Outbound::Batch(batch) => match &mut self.drawing {
                Some(drawing) => drawing.batches.push(batch),
                // Nothing was asked for.
                None => self.release(vec![(batch.lane.lane, batch.ranges)]).await,
            },
            Outbound::Drawn(how) => self.drawn(how).await,
            Outbound::Settled {
                sequence, answers, ..
            } => self.sitting.answered(sequence, answers),
            Outbound::Lane(news) => self.note(news),
            Outbound::Drain(..) => self.is_draining = true,
            Outbound::End(end) => return Some(end),
        }
        None
    }

    /// The draw is over: its call is answered.
    async fn drawn(&mut self, how: Drawn) {
        let Some(drawing) = self.drawing.take() else {
            return;
        };
        let is_empty = drawing.batches.is_empty();
        // A first call that found nothing leaves nothing behind, unless something may be
        // kept for it from now on.
        let has_ended = is_empty && !self.is_known && !self.is_broadcast;
        if has_ended {
            self.goodbye.tell(Departure::Closed).await;
        }
        let runs = drawing.batches.iter();
        let runs = runs.map(|batch| (batch.lane.lane, batch.ranges.clone()));
        let (tell, receipt) = oneshot::channel();
        let handing = Handing {
            receipt,
            runs: runs.collect(),
            until: Instant::now() + self.hand_over_within,
        };
        let answer = match how {
            // Ended before its time, it has not seen whether there is anything.
            Drawn::NotSeen | Drawn::Done if is_empty && drawing.is_hurried => {
                Err(NotTaken::Hurried)
            }
            Drawn::NotSeen if is_empty => Err(NotTaken::NotSeen),
            Drawn::NotSeen | Drawn::Done => Ok(Taken {
                batches: drawing.batches,
                news: self.news.drain(..).collect(),
                is_draining: self.is_draining,
                has_ended,
                receipt: tell,
            }),
        };
        self.handing = Some(handing);
        // Unheard, the answer is dropped, and its receipt says so.
        let _unheard = drawing.reply.send(answer);
    }

    /// The transport has taken the answer, or never will.
    async fn handed(&mut self, taken: bool) {
        let Some(handing) = self.handing.take() else {
            return;
        };
        self.sitting.touch();
        if !taken {
            if !mutation::is_on(Mutation::KeepAbandoned) {
                self.release(handing.runs).await;
            }
            if !self.is_known {
                // Nobody can come back for it.
                self.goodbye.tell(self.farewell()).await;
            }
            return;
        }
        self.is_known = true;
        if mutation::is_on(Mutation::ReleaseHandedOver) {
            self.release(handing.runs.clone()).await;
        }
        for (lane, ranges) in handing.runs {
            let session = self.sitting.session();
            self.tell(Input::Sent {
                session,
                lane,
                ranges,
            })
            .await;
        }
    }

    /// The caller has gone: what was drawn is released as soon as it is all here.
    async fn abandon(&mut self) {
        if let Some(drawing) = &mut self.drawing {
            drawing.is_abandoned = true;
            self.tell(Input::EndDraw(self.sitting.session())).await;
        }
    }

    async fn release(&self, runs: Vec<(u64, Vec<OffsetRange>)>) {
        let verdict = |lane, range| LaneVerdict {
            lane,
            target: Target {
                range,
                delivery: None,
            },
            verdict: Verdict::Released,
            code: String::new(),
            reason: String::new(),
        };
        let verdicts: Vec<LaneVerdict> = runs
            .into_iter()
            .flat_map(|(lane, ranges)| ranges.into_iter().map(move |range| verdict(lane, range)))
            .collect();
        if verdicts.is_empty() {
            return;
        }
        self.tell(Input::Settle {
            session: self.sitting.session(),
            sequence: self.sitting.number(),
            verdicts,
            refused: Vec::new(),
            confirm: Confirm::Problems,
            ticket: None,
        })
        .await;
    }

    /// Ends the session if nobody has come for long and nothing is out; when to look again.
    async fn look(&self) -> Instant {
        let due = self.sitting.touched() + self.idle;
        let now = Instant::now();
        if self.drawing.is_some() || self.handing.is_some() {
            return now + self.idle;
        }
        if due > now {
            return due;
        }
        let session = self.sitting.session();
        self.tell(Input::Retire(session, self.farewell())).await;
        now + ASK_AGAIN
    }

    /// How it leaves: in a broadcast what it owes is kept for its name.
    const fn farewell(&self) -> Departure {
        if self.is_broadcast {
            Departure::Lost
        } else {
            Departure::Closed
        }
    }

    /// Keeps news that may explain why something is missing.
    fn note(&mut self, news: LaneNotice) {
        match news.kind {
            NoticeKind::Assigned | NoticeKind::Revoking | NoticeKind::Leased => {}
            NoticeKind::Revoked
            | NoticeKind::Held
            | NoticeKind::Rewound
            | NoticeKind::Recovered
            | NoticeKind::LostRange
            | NoticeKind::Standby
            | NoticeKind::Reset
            | NoticeKind::Fenced => {
                if self.news.len() == NEWS {
                    self.news.pop_front();
                }
                self.news.push_back(news);
            }
        }
    }

    async fn tell(&self, input: Input) {
        // A driver that has stopped says so by what it lets go of.
        let _stopped = self.sitting.handle().send(input).await;
    }
}

/// Resolves when the transport has taken the answer on its way, or will not.
async fn receipt(handing: &mut Option<Handing>) -> bool {
    match handing {
        Some(handing) => timeout_at(handing.until, &mut handing.receipt)
            .await
            .is_ok_and(|receipt| receipt.is_ok()),
        None => pending().await,
    }
}

/// Resolves when the caller of a draw has gone.
async fn abandoned(drawing: &mut Option<Drawing>) {
    match drawing {
        Some(drawing) if !drawing.is_abandoned => drawing.reply.closed().await,
        Some(_) | None => pending().await,
    }
}

fn beats(every: Duration) -> Interval {
    let mut beats = interval(every);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beats
}

async fn next(beats: &mut Option<Interval>) {
    match beats {
        Some(beats) => {
            beats.tick().await;
        }
        None => pending().await,
    }
}

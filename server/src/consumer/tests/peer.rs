//! A session without gRPC: what a subscriber says and hears, in one line each.

use super::*;

/// A session without gRPC.
pub(super) struct Peer {
    pub(super) session: Session,
    pub(super) handle: Handle,
    pub(super) inbox: mpsc::Receiver<Outbound>,
    pub(super) cut: oneshot::Receiver<End>,
    pub(super) sequence: u64,
    /// What the driver said to it.
    pub(super) accepted: Accepted,
    /// News of lanes that have come.
    pub(super) news: Vec<LaneNotice>,
}

/// How a peer begins.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub(super) session: u64,
    pub(super) name: String,
    pub(super) records: u64,
    pub(super) resumable: bool,
    pub(super) takeover: bool,
    pub(super) resume: Option<Manifest>,
    pub(super) max_message_bytes: u64,
    pub(super) filter: Option<Filter>,
    pub(super) batch: Batch,
    pub(super) until_drained: bool,
}

impl Wish {
    pub(super) fn new(session: u64, name: &str) -> Self {
        Self {
            session,
            name: name.to_owned(),
            records: 100,
            resumable: false,
            takeover: false,
            resume: None,
            max_message_bytes: 4 << 20,
            filter: None,
            batch: BATCH,
            until_drained: false,
        }
    }
}

/// One record as a peer got it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Got {
    pub(super) lane: u64,
    pub(super) offset: u64,
    pub(super) delivery: u32,
}

impl Peer {
    pub(super) async fn attach(handle: &Handle, number: u64, records: u64) -> Self {
        Self::attach_as(handle, number, &format!("peer-{number}"), records).await
    }

    /// With batches of its own, or until nothing is left.
    pub(super) async fn attach_with(
        handle: &Handle,
        number: u64,
        records: u64,
        batch: Batch,
        until_drained: bool,
    ) -> Self {
        let wish = Wish {
            records,
            batch,
            until_drained,
            ..Wish::new(number, &format!("peer-{number}"))
        };
        Self::open(handle, wish).await.expect("it may attach")
    }

    pub(super) async fn attach_as(handle: &Handle, number: u64, name: &str, records: u64) -> Self {
        let wish = Wish {
            records,
            ..Wish::new(number, name)
        };
        Self::open(handle, wish).await.expect("it may attach")
    }

    pub(super) async fn open(handle: &Handle, wish: Wish) -> Result<Self, Refusal> {
        let (outbox, inbox) = mpsc::channel(OUTBOX);
        let (cut, cut_heard) = oneshot::channel();
        let session = Session(wish.session);
        let attach = Attach {
            session,
            name: Arc::from(wish.name),
            resumable: wish.resumable,
            takeover: wish.takeover,
            pulls: false,
            resume: wish.resume,
            credit: Credit {
                records: wish.records,
                bytes: 1 << 20,
            },
            max_message_bytes: wish.max_message_bytes,
            ack_deadline: Duration::from_secs(30),
            filter: wish.filter,
            batch: wish.batch,
            until_drained: wish.until_drained,
            outbox,
            cut,
        };
        let (opened, heard) = oneshot::channel();
        handle
            .send(Input::Attach(attach, opened))
            .await
            .expect("a running driver");
        let accepted = heard.await.expect("a running driver")?;
        Ok(Self {
            session,
            handle: handle.clone(),
            inbox,
            cut: cut_heard,
            sequence: 0,
            accepted,
            news: Vec::new(),
        })
    }

    /// The first batch within `for_as_long`, told as sent.
    pub(super) async fn batch_within(&mut self, for_as_long: Duration) -> Vec<Got> {
        tokio::time::timeout(for_as_long, self.batch())
            .await
            .unwrap_or_default()
    }

    pub(super) async fn grant(&self, records: u64, bytes: u64) {
        let credit = Credit { records, bytes };
        self.tell(Input::Credit(self.session, credit)).await;
    }

    pub(super) async fn leave(&self, how: Departure) {
        self.tell(Input::Detach(self.session, how)).await;
    }

    /// Acks what it got, record by record.
    pub(super) async fn ack(&mut self, got: &[Got]) {
        for got in got {
            self.say(*got, Verdict::Acked).await;
        }
    }

    /// Gives a verdict without waiting: only a problem is answered, and fails the wait
    /// for the next batch.
    pub(super) async fn say(&mut self, got: Got, verdict: Verdict) {
        let Got { lane, offset, .. } = got;
        self.declare(lane, offset, offset, verdict, Confirm::Problems)
            .await;
    }

    /// The next message that is not news of a lane.
    pub(super) async fn next(&mut self) -> Outbound {
        loop {
            let next = tokio::time::timeout(LONG, self.inbox.recv());
            match next
                .await
                .expect("a message in time")
                .expect("an open outbox")
            {
                Outbound::Lane(news) => self.news.push(news),
                other @ (Outbound::Batch(_)
                | Outbound::Drawn(_)
                | Outbound::Settled { .. }
                | Outbound::Drain(..)
                | Outbound::End(_)) => return other,
            }
        }
    }

    /// The next batch, told as sent.
    pub(super) async fn batch(&mut self) -> Vec<Got> {
        let next = self.next().await;
        let Outbound::Batch(batch) = next else {
            panic!("a batch is due, not {next:?}")
        };
        let lane = batch.lane.lane;
        let mut got = Vec::new();
        for range in &batch.ranges {
            for offset in range.first().get()..range.end().get() {
                let of = |run: &&Redelivered| run.range.contains(Offset::new(offset));
                let delivery = batch
                    .redelivered
                    .iter()
                    .find(of)
                    .map_or(1, |run| run.delivery);
                got.push(Got {
                    lane,
                    offset,
                    delivery,
                });
            }
        }
        let session = self.session;
        self.tell(Input::Sent {
            session,
            lane,
            ranges: batch.ranges,
        })
        .await;
        got
    }

    /// Batches until `count` records have come.
    pub(super) async fn records(&mut self, count: usize) -> Vec<Got> {
        let mut got = Vec::new();
        while got.len() < count {
            got.extend(self.batch().await);
        }
        got
    }

    pub(super) async fn tell(&self, input: Input) {
        self.handle.send(input).await.expect("a running driver");
    }

    /// Gives a verdict and returns the problems.
    pub(super) async fn settle(
        &mut self,
        lane: u64,
        first: u64,
        last: u64,
        verdict: Verdict,
    ) -> Vec<VerdictAnswer> {
        self.declare(lane, first, last, verdict, Confirm::Applied)
            .await;
        self.answer().await
    }

    /// Gives a verdict without waiting for its answer.
    pub(super) async fn declare(
        &mut self,
        lane: u64,
        first: u64,
        last: u64,
        verdict: Verdict,
        confirm: Confirm,
    ) {
        self.sequence += 1;
        let range = OffsetRange::inclusive(Offset::new(first), Offset::new(last)).expect("a run");
        let verdict = LaneVerdict {
            lane,
            target: Target {
                range,
                delivery: None,
            },
            verdict,
            code: "code".to_owned(),
            reason: "reason".to_owned(),
        };
        let (session, sequence) = (self.session, self.sequence);
        let verdicts = vec![verdict];
        let refused = Vec::new();
        self.tell(Input::Settle {
            session,
            sequence,
            verdicts,
            refused,
            confirm,
            ticket: None,
        })
        .await;
    }

    /// The answer to the last message; others are passed over.
    pub(super) async fn answer(&mut self) -> Vec<VerdictAnswer> {
        loop {
            if let Outbound::Settled {
                sequence, answers, ..
            } = self.next().await
                && sequence == self.sequence
            {
                return answers;
            }
        }
    }

    /// Whether nothing but news comes for a while.
    pub(super) async fn is_quiet(&mut self, for_as_long: Duration) -> bool {
        let end = Instant::now() + for_as_long;
        loop {
            match tokio::time::timeout_at(end, self.inbox.recv()).await {
                Err(_elapsed) => return true,
                Ok(Some(Outbound::Lane(news))) => self.news.push(news),
                Ok(_) => return false,
            }
        }
    }
}

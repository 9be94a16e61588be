//! [`Sitting`]: a session as its calls see it.

use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ackgate_proto::{Pulled, v1};
use parking_lot::Mutex;
use prost::Message as _;
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    time::{Instant, timeout},
};
use tonic::{Response, Status};

use super::{
    ANSWER_ROOM,
    call::{Call, NotTaken, Taken},
    receipt::Receipt,
    unknown,
};
use crate::{
    access::Principal,
    consumer::{
        ANSWERS, Confirm, Draw, End, HEAD_ROOM, Handle, Input, Session, Ticket, VerdictAnswer,
    },
    session::{
        age::{Age, aged},
        convert,
        handshake::Opening,
        outcome::{Outcome, connection_aged, shutting_down},
        reader::weight,
        status::Reason,
    },
};

/// Calls that wait for the keeper's attention.
const CALLS: usize = 16;

/// How long a call waits for a place among the session's questions, and for its answer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

/// A session without a stream.
#[derive(Debug)]
pub(super) struct Sitting {
    token: String,
    session: Session,
    /// Who opened it, where the gateway asks for tokens: nobody else may use it.
    owner: Option<Principal>,
    name: Arc<str>,
    handle: Handle,
    ack_deadline: Duration,
    /// The largest answer.
    max_bytes: u64,
    calls: mpsc::Sender<Call>,
    /// Questions that wait for their answers.
    questions: Mutex<HashMap<u64, oneshot::Sender<Vec<VerdictAnswer>>>>,
    places: Arc<Semaphore>,
    last_question: AtomicU64,
    /// When a call was made last.
    touched: Mutex<Instant>,
    /// Why it is over, once it is.
    ended: OnceLock<End>,
}

impl Sitting {
    /// A session that takes part, and where its keeper hears of its calls.
    pub(super) fn new(
        token: String,
        session: Session,
        owner: Option<Principal>,
        opening: &Opening,
    ) -> (Self, mpsc::Receiver<Call>) {
        let (calls, heard) = mpsc::channel(CALLS);
        let sitting = Self {
            token,
            session,
            owner,
            name: Arc::clone(&opening.name),
            handle: opening.handle.clone(),
            ack_deadline: opening.ack_deadline,
            max_bytes: opening.max_message_bytes,
            calls,
            questions: Mutex::default(),
            places: Arc::new(Semaphore::new(ANSWERS)),
            last_question: AtomicU64::new(0),
            touched: Mutex::new(Instant::now()),
            ended: OnceLock::new(),
        };
        (sitting, heard)
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    pub(super) const fn owner(&self) -> Option<&Principal> {
        self.owner.as_ref()
    }

    pub(super) const fn session(&self) -> Session {
        self.session
    }

    pub(super) const fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Takes records, without waiting once the connection is too old. Dropped before its
    /// answer goes out, it has taken none.
    pub(super) async fn pull(
        &self,
        mut draw: Draw,
        idle: Duration,
        age: Option<&Age>,
    ) -> Result<Response<Pulled>, Status> {
        // The last batch may be larger by what it takes beside its records.
        draw.most.bytes = draw.most.bytes.min(self.max_bytes - HEAD_ROOM);
        self.touch();
        let (reply, mut taken) = oneshot::channel();
        if self.calls.send(Call::Pull(draw, reply)).await.is_err() {
            return Err(self.over());
        }
        let taken = tokio::select! {
            biased;
            taken = &mut taken => taken,
            _grace = aged(age) => {
                // A keeper that has ended lets go of the reply too.
                let _ended = self.calls.send(Call::Hurry).await;
                taken.await
            }
        };
        match taken {
            Ok(Ok(taken)) => Ok(self.answer(taken, idle)),
            Ok(Err(NotTaken::InProgress)) => Err(Reason::PullInProgress
                .status("another Pull of the session is under way, or its answer on its way")),
            Ok(Err(NotTaken::NotSeen)) => Err(Reason::NotReady.status(
                "whether there are records could not be seen in time: Kafka has assigned no \
                 partitions yet, or does not answer",
            )),
            Ok(Err(NotTaken::Hurried)) => Err(connection_aged()),
            Err(_ended) => Err(self.over()),
        }
    }

    fn answer(&self, taken: Taken, idle: Duration) -> Response<Pulled> {
        let batches = taken.batches.into_iter().map(convert::encoded_batch);
        let receipt = Receipt::new(taken.receipt);
        let mut pulled = Pulled {
            head: v1::PullResponse {
                session: if taken.has_ended {
                    String::new()
                } else {
                    self.token.clone()
                },
                subscriber_id: self.name.to_string(),
                batches: Vec::new(),
                ack_deadline: convert::duration(self.ack_deadline),
                idle_after: convert::duration(idle),
                lane_events: Vec::new(),
                draining: taken.is_draining,
            },
            batches: batches.collect(),
        };
        let most = self.max_bytes + ANSWER_ROOM;
        let mut left = most.saturating_sub(pulled.encoded_len() as u64);
        for news in taken.news.into_iter().map(convert::lane_event).rev() {
            let bytes = news.encoded_len() as u64 + 8;
            let Some(less) = left.checked_sub(bytes) else {
                break;
            };
            left = less;
            pulled.head.lane_events.push(news);
        }
        pulled.head.lane_events.reverse();
        let mut answer = Response::new(pulled);
        answer.extensions_mut().insert(receipt);
        answer
    }

    /// Says something to the driver and waits for its answer.
    pub(super) async fn ask(
        &self,
        confirm: Confirm,
        question: impl FnOnce(Session, u64) -> Input,
    ) -> Result<Vec<VerdictAnswer>, Status> {
        self.touch();
        let sequence = self.last_question.fetch_add(1, Ordering::Relaxed) + 1;
        let mut input = question(self.session, sequence);
        let places = Arc::clone(&self.places).acquire_many_owned(weight(&input, confirm));
        let Ok(Ok(place)) = timeout(ANSWERED_WITHIN, places).await else {
            return Err(stalled());
        };
        if let Input::Settle { ticket, .. } | Input::Extend { ticket, .. } = &mut input {
            *ticket = Some(Ticket::new(place));
        }
        let (tell, answer) = oneshot::channel();
        self.questions.lock().insert(sequence, tell);
        // Also if the caller goes.
        let _asked = Asked(self, sequence);
        if self.ended.get().is_some() || self.handle.send(input).await.is_err() {
            return Err(self.over());
        }
        match timeout(ANSWERED_WITHIN, answer).await {
            Ok(Ok(answers)) => {
                self.touch();
                Ok(answers)
            }
            Ok(Err(_ended)) => Err(self.over()),
            Err(_elapsed) => Err(stalled()),
        }
    }

    /// Ends the session; what is out to it is released.
    pub(super) async fn close(&self) {
        // One that has ended already is what was wanted.
        let _over = self.calls.send(Call::Close).await;
    }

    /// Passes an answer on.
    pub(super) fn answered(&self, sequence: u64, answers: Vec<VerdictAnswer>) {
        if let Some(tell) = self.questions.lock().remove(&sequence) {
            // The caller has gone.
            let _unheard = tell.send(answers);
        }
    }

    /// The session is over: nobody is answered any more.
    pub(super) fn end(&self, end: End) {
        // The first reason is the true one.
        let _first = self.ended.set(end);
        self.questions.lock().clear();
    }

    /// A number that no question of a call has.
    pub(super) fn number(&self) -> u64 {
        self.last_question.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Whether another stream or session has its name now.
    pub(super) fn is_superseded(&self) -> bool {
        self.ended.get() == Some(&End::Superseded)
    }

    /// When a call was made last.
    pub(super) fn touched(&self) -> Instant {
        *self.touched.lock()
    }

    pub(super) fn touch(&self) {
        *self.touched.lock() = Instant::now();
    }

    /// Why there is no answer.
    fn over(&self) -> Status {
        match self.ended.get().copied() {
            Some(End::ShuttingDown) => shutting_down(),
            Some(End::Closed | End::Drained) | None => unknown(),
            Some(
                end @ (End::NotReading
                | End::NotDurable
                | End::TooManyAnswers
                | End::Superseded
                | End::ConnectionAged
                | End::Slow),
            ) => Outcome::from(end).into_status().unwrap_or_else(unknown),
        }
    }
}

/// Takes a question back when its call is over.
struct Asked<'a>(&'a Sitting, u64);

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.0.questions.lock().remove(&self.1);
    }
}

fn stalled() -> Status {
    Reason::CommitsStalled.status(
        "what the verdicts did has not become durable in time; they have been applied unless the \
         session had too many questions open, and may be sent again",
    )
}

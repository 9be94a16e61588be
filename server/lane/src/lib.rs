//! One lane: every decision about one topic-partition while this gateway owns it.
//!
//! Inputs go in through `handle_*` methods, what the outside must do comes out of
//! [`Lane::poll_effect`], and time is an argument. The lane knows no clock, no
//! network, no runtime and no record's bytes: it works on offsets alone. The same
//! inputs in the same order give the same effects. This page is its specification.
//!
//! # A turn
//!
//! Give one input, carry out effects until there is none, ask [`Lane::poll_timeout`]
//! when to come back. Nothing is answered by calling into the lane from an effect;
//! answers are inputs of later turns.
//!
//! | input | meaning | answers |
//! |---|---|---|
//! | [`handle_fetched`](Lane::handle_fetched), [`handle_fetched_keyed`](Lane::handle_fetched_keyed) | records exist and their bodies are held | [`Effect::Seek`] begins it anew |
//! | [`handle_end`](Lane::handle_end) | the log ends here; gaps below need no record | |
//! | [`handle_gone`](Lane::handle_gone) | the log begins here now; what was below is lost | |
//! | [`handle_filtered`](Lane::handle_filtered), [`handle_unfit`](Lane::handle_unfit), [`handle_expired`](Lane::handle_expired) | some of them are not to be handed out | |
//! | [`handle_dispatched`](Lane::handle_dispatched) | the beginning of [`Lane::ready_for`] goes to a subscriber | |
//! | [`handle_sent`](Lane::handle_sent) | it reached the transport: its deadline starts | |
//! | [`handle_verdict`](Lane::handle_verdict), [`handle_extend`](Lane::handle_extend) | what a subscriber says | |
//! | [`handle_subscriber_lost`](Lane::handle_subscriber_lost), [`handle_subscriber_closed`](Lane::handle_subscriber_closed) | it has gone | |
//! | [`handle_resumed`](Lane::handle_resumed) | it is back and names what it still works on | |
//! | [`handle_subscriber_paused`](Lane::handle_subscriber_paused) | it takes nothing for now | |
//! | [`handle_fenced`](Lane::handle_fenced) | Kafka may have given the lane away | |
//! | [`handle_oversize`](Lane::handle_oversize) | a ready record fits nobody | |
//! | [`handle_dead_letter`](Lane::handle_dead_letter) | stored or not | [`Effect::DeadLetter`] |
//! | [`reset_breaker`](Lane::reset_breaker) | an operator says to go on | [`Effect::Tripped`] |
//! | [`confirm`](Lane::confirm) | tell when it is durable | [`poll_confirmation`](Lane::poll_confirmation) |
//! | [`handle_commit`](Lane::handle_commit) | committed or not | [`Effect::Commit`] |
//! | [`handle_seek`](Lane::handle_seek) | sought or not | [`Effect::Seek`] |
//! | [`handle_timeout`](Lane::handle_timeout) | time has passed | |
//! | [`begin_drain`](Lane::begin_drain) | the assignment ends | |
//!
//! # States of a record
//!
//! ```text
//! fetched ─► ready ─► dispatched ─► out ─┬─ acked ─────────────────────────► settled
//!              ▲                         ├─ rejected ──────► dead-lettering ─► settled
//!              │                         │       ▲ attempts or     (stored)
//!              │                         │       │ deliveries used up
//!              ├── delayed ◄── backoff ──┼─ failed, expired   (one attempt)
//!              └───────────────────────  └─ released, lost    (no attempt)
//! ```
//!
//! - Every hand-over is a delivery and has a number. A verdict counts from the
//!   subscriber that has the record, also before the notice that it was sent. After
//!   an expiry it still counts until the record is handed out again; the expiry has
//!   used its attempt by then, and a late failed or released verdict uses no second.
//! - `max_attempts` and `max_deliveries` are tested when a record comes back, so the
//!   last failure is dead-lettered at once. Deliveries voided by a neighbour's
//!   failure do not count.
//! - A subscriber whose stream broke keeps what is out to it until its owner says that it
//!   is lost, or that it is back: then what it does not name is lost. Deadlines go on.
//! - From its third lost delivery on a record is handed out alone.
//! - `drop` settles at once, `hold` leaves the record to an operator.
//! - What is filtered settles where it is received, also above an unsettled record
//!   and in lane order; verdicts on it are unknown. What is unfit goes the way of
//!   rejected records, with no attempt used. What expired before its first hand-over
//!   is dead-lettered or settles, whatever `on_reject` says.
//! - Verdicts on decided records: an equal one is a duplicate, another a conflict.
//!   Below the floor everything not remembered as refused counts as acked. Superseded
//!   deliveries are expired or stale, strangers' verdicts unknown; beyond the bounded
//!   memory of ended deliveries unknown becomes stale.
//! - Runs of equal neighbours are one entry, so a million plainly acked records above
//!   the floor cost as much as one, and an input costs what it touches.
//!
//! # Dead letters that cannot be written, and too many of them
//!
//! - While the write of a dead letter fails, the lane hands out nothing new and tries
//!   again with its backoff; what is out stays out, and verdicts count. With
//!   [`OnUnwritten::Park`] a record stops holding the lane after so many failed writes:
//!   it stays unsettled, and what may overtake it goes on
//!   ([`Effect::Parked`]). With [`OnUnwritten::Discard`]
//!   it settles then ([`Effect::Discarded`]).
//! - The [`Breaker`] opens with the record that fills its run or its ratio
//!   ([`Effect::Tripped`]). That record's dead letter is the last one asked for; what is
//!   given up afterwards waits, and nothing is handed out, until
//!   [`Lane::reset_breaker`]. Then what waits is asked for, uncounted, and counting
//!   begins anew.
//!
//! # Floor and commits
//!
//! The floor is the lowest unsettled offset received, else the next to fetch. It is
//! what gets committed: at the multiples of `commit_interval`, earlier after
//! `commit_settlements`, at once when a drain ends; not before anything has settled,
//! not twice, and with one request outstanding at a time. A failed commit is asked for
//! again at the next multiple. Only the end of a drain asks beside an unanswered
//! request, even for the same position, since that one may fail with the revoke.
//!
//! # Ack map
//!
//! With each position goes a map ([`AckMap`]) of what is settled above it and of how
//! often the unsettled records were tried, within [`MapStart::most_bytes`]. What settles
//! or comes back makes a commit due even where the floor stands; a hand-over alone does
//! not. The next assignment begins with it ([`MapStart::restored`]): settled records are
//! answered with [`Effect::Skipped`] when they are read, numbers go on, and what was
//! unsettled and has vanished is reported.
//!
//! - A map of another position or topic is not used, and a new epoch begins.
//! - Provisional acks of lane order are not in it; what does not fit is left out.
//! - When an upper bound of its settled part reaches 80 % of the room, only records up
//!   to the highest one handed out or settled may go out.
//! - After [`CommitOutcome::MetadataTooLarge`] the position is committed alone, and the
//!   room is halved ([`Effect::MapRefused`]).
//! - [`confirm`](Lane::confirm) waits until a successful commit covers what was decided.
//!   After that no commit is made that covers less: it waits for the floor instead.
//!
//! # Exactly once
//!
//! With [`Policy::exactly_once`] no dead letter is asked for by itself. Given-up records
//! wait for the next commit, whose position and map say what they would if those were
//! settled, and [`Lane::commit_letters`] names them: the dead letters and the commit are
//! stored together or not at all, and the answer settles all of them or none.
//!
//! - A record that begins to wait makes a commit due at once, as after a durable verdict.
//! - Only letters go that the commit's position or map covers; without a map, those
//!   below the floor as it is then. The others wait for it.
//! - An answer must be the truth: while it is not known whether Kafka has a commit with
//!   letters, no other commit is asked for, not even at the end of a drain.
//! - After a failure at most half as many go, and what else there is to commit goes
//!   first. Stored letters stay covered, as what has been confirmed does.
//! - [`DeadLetterOutcome::Failed`] sets one letter aside for its backoff, whose record
//!   is not at hand.
//!
//! # Lane order
//!
//! With [`Order::Lane`] only one subscriber has records of the lane at a time. Which one
//! may take them, and for how long, is said by a [`Lease`] beside the lane.
//!
//! - A failure, expiry, release or loss voids everything above it, handed out or
//!   answered, and nothing is handed out until the way back is done: the wait, then
//!   [`Effect::Seek`] to the floor once nothing is out and no dead letter is pending.
//!   Of several waits the longest decides. A release or loss has no wait.
//! - Acks and refusals above an unsettled record are provisional: they are acted on
//!   when everything below is decided. With `skip_acked` acks settle at once and are
//!   passed over when read again ([`Effect::Skipped`]); refusals stay provisional.
//! - While a given-up record is not settled nothing above it is handed out; what is
//!   out stays out.
//! - Attempts and deliveries survive the seek. Records that are not there any more are
//!   reported ([`Effect::Lost`]) and settle.
//! - A verdict from before the seek changes nothing; an expired record's own late
//!   verdict counts until the seek is asked for.
//!
//! # Key order
//!
//! With [`Order::Key`] one record of a key is ready or out at a time, the earliest
//! unsettled one; those behind it wait, whatever became of it short of settling: a
//! backoff, a dead letter not yet confirmed, a hold. Records with a null key are free.
//!
//! - A key of which a subscriber has got a record stays with it until all records of the
//!   key that were received are settled, also after failed verdicts and while it has no
//!   credit. It is anyone's again when that hand-over is void (released, expired, lost),
//!   and when the subscriber pauses or goes.
//! - Records of one key beyond its share of `window.records` do not count against it, so
//!   that a key that makes no progress does not keep the others from being fetched. The
//!   span bounds everything.
//! - A key is forgotten with its last unsettled record.
//!
//! # Drain
//!
//! A draining lane fetches and hands out nothing, verdicts count, and dead letters in
//! flight are awaited. When nothing is out or awaited, or at the deadline, it takes
//! back what is out, asks for the last commit and is done: no effect follows and every
//! verdict is fenced. The next assignment is a new lane that knows the committed
//! position and its map alone.
//!
//! # Membership
//!
//! [`Fence`] says when a gateway that hears nothing from its group must stop handing
//! out, and when it must take everything back. It is shared by the lanes of a member.
//!
//! # Accounts
//!
//! - Each record dispatched is returned exactly once ([`Effect::Returned`]), and only
//!   while it is dispatched or out: that is what credit is counted by.
//! - Each record settles exactly once ([`Effect::Settled`]); its body can go.
//! - Verdicts that were applied are counted, for whoever watches ([`Lane::take_answered`]).
//!
//! The numbered rules are in [`invariants`].

mod ackmap;
mod answered;
mod atomic;
mod breaker;
mod broadcast;
mod commit;
mod confirm;
mod deadline;
mod delivery;
mod effect;
mod fence;
mod fetch;
mod ids;
mod intake;
pub mod invariants;
mod jitter;
mod judge;
mod key_order;
mod keys;
mod kind;
mod lane;
mod lease;
mod maps;
mod memory;
mod policy;
mod resume;
mod rewind;
mod settle;
mod slot;
mod verdict;
mod view;
mod window;

pub use ackmap::{AckMap, Counters, Doubt, Encoded, MAX_MAP_BYTES, MAX_MAP_SPAN, MIN_MAP_BYTES};
pub use answered::{Answered, TIME_BOUNDS, Times};
pub use atomic::Letter;
pub use breaker::{Breaker, Ratio, Trip};
pub use broadcast::{Broadcast, Counts, Debt, Joined, Refusal, Sharing};
pub use confirm::{Confirmation, Confirmed};
pub use effect::{Cause, Effect, Return};
pub use fence::{Fence, Standing};
pub use ids::{Epoch, Generation, Offset, OffsetRange, Position, Subscriber, Time};
pub use kind::Kind;
pub use lane::{CommitOutcome, DeadLetterOutcome, Lane, SeekOutcome, Start};
pub use lease::Lease;
pub use maps::{MapStart, MapView};
pub use policy::{Backoff, OnExpired, OnReject, OnUnwritten, Order, Policy, Window};
pub use resume::{ResumeAnswer, ResumeResult};
pub use verdict::{Answer, Target, Verdict, VerdictResult};
pub use view::{Hold, Ready, Snapshot, Stop};

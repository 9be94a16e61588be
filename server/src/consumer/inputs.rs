//! What sessions say, carried to the lanes.

use std::{sync::Arc, time::Duration};

use ackgate_lane::{Answer, OffsetRange, Subscriber, Target, Time, Verdict, VerdictResult};

use super::{
    driver::Driver,
    durable::Deeds,
    handle::{
        Confirm, Credit, End, Input, LaneVerdict, NoticeKind, Outbound, Ticket, VerdictAnswer,
    },
    lanes::Note,
    meter::Problem,
    mutation::{self, Mutation},
    opening::Session,
    traces::{self, Ended},
};

/// Answers to one message. Verdicts on long runs with a mixed past could ask for any
/// number; an honest subscriber's 10,000 verdicts never need more.
const MAX_ANSWERS: usize = 20_000;

impl Driver {
    pub(super) fn handle_input(&mut self, input: Input) {
        match input {
            Input::Attach(attach, opened) => self.attach(attach, opened),
            Input::Beat(session) => {
                self.speaks(session);
            }
            Input::Credit(session, credit) => {
                if let Some(subscriber) = self.speaks(session) {
                    self.set_credit(subscriber, credit);
                }
            }
            Input::Draw(session, draw) => self.begin_draw(session, draw),
            Input::EndDraw(session) => self.stop_draw(session),
            Input::Retire(session, how) => self.retire(session, how),
            Input::Settle {
                session,
                sequence,
                verdicts,
                refused,
                confirm,
                ticket,
            } => {
                let Some(subscriber) = self.speaks(session) else {
                    return;
                };
                let question = (subscriber, sequence);
                self.settle_all(question, verdicts, refused, confirm, ticket);
            }
            Input::Extend {
                session,
                sequence,
                targets,
                refused,
                by,
                confirm,
                ticket,
            } => {
                let Some(subscriber) = self.speaks(session) else {
                    return;
                };
                let malformed = refused.len() as u64;
                self.meter.problems.note(Problem::Malformed, malformed);
                let mut answers = refused;
                for (lane, range) in targets {
                    self.extend(subscriber, lane, range, by, &mut answers);
                    if answers.len() > MAX_ANSWERS {
                        break;
                    }
                }
                self.answer(subscriber, sequence, answers, confirm, ticket);
            }
            Input::Sent {
                session,
                lane,
                ranges,
            } => self.sent(session, lane, &ranges),
            Input::Drain(session, grace) => self.drain_session(session, grace),
            Input::Detach(session, how) => self.depart(session, how),
            Input::Show(answer) => self.show(answer),
            Input::Measure(answer) => self.measure(answer),
            Input::ResetBreakers(of, answer) => self.reset_breakers(&of, answer),
            Input::Stop(drain) => self.stop(drain),
        }
    }

    /// Applies the verdicts of one message and answers it, now or when it is durable.
    fn settle_all(
        &mut self,
        question: (Subscriber, u64),
        verdicts: Vec<LaneVerdict>,
        refused: Vec<VerdictAnswer>,
        confirm: Confirm,
        ticket: Option<Ticket>,
    ) {
        let (subscriber, sequence) = question;
        let malformed = refused.len() as u64;
        self.meter.problems.note(Problem::Malformed, malformed);
        let mut answers = refused;
        let is_durable = confirm == Confirm::Durable && !mutation::is_on(Mutation::ConfirmEarly);
        let mut deeds = is_durable.then(Deeds::default);
        for verdict in verdicts {
            self.settle(subscriber, verdict, &mut answers, deeds.as_mut());
            if answers.len() > MAX_ANSWERS {
                break;
            }
        }
        match deeds.filter(|deeds| !deeds.is_empty() && answers.len() <= MAX_ANSWERS) {
            Some(deeds) => {
                self.answer_when_durable(self.now(), question, answers, deeds, ticket);
            }
            None => {
                let confirm = confirm != Confirm::Problems;
                self.answer(subscriber, sequence, answers, confirm, ticket);
            }
        }
    }

    /// Who says something: a sign of life. A session that was cut off or superseded has
    /// nothing to say any more.
    pub(super) fn speaks(&mut self, session: Session) -> Option<Subscriber> {
        let subscriber = self.subscribers.of(session)?;
        self.sign_of_life(subscriber);
        Some(subscriber)
    }

    /// A subscriber that takes nothing any more gives up its keys: others may go on with
    /// them.
    fn set_credit(&mut self, subscriber: Subscriber, credit: Credit) {
        self.leases_moved = true;
        let taking = self.taking();
        if !self.subscribers.set_credit(taking, subscriber, credit) {
            return;
        }
        self.give_up_keys(self.now(), subscriber);
    }

    /// The subscriber takes nothing for now: what is out stays out, its keys go on with
    /// others.
    pub(super) fn give_up_keys(&mut self, now: Time, subscriber: Subscriber) {
        for generation in self.lanes.generations() {
            if let Some(entry) = self.lanes.touch(generation) {
                entry.lane.handle_subscriber_paused(now, subscriber);
            }
        }
    }

    fn settle(
        &mut self,
        subscriber: Subscriber,
        verdict: LaneVerdict,
        answers: &mut Vec<VerdictAnswer>,
        deeds: Option<&mut Deeds>,
    ) {
        let now = self.now();
        let known = self.lanes.knew(verdict.lane);
        let LaneVerdict {
            lane,
            target,
            verdict,
            code,
            reason,
        } = verdict;
        let Some(entry) = self.lanes.touch_named(lane) else {
            self.meter.problems.note(elsewhere(known), 1);
            answers.push(answer_elsewhere(lane, target.range, known));
            return;
        };
        let mut parts = Vec::with_capacity(1);
        let verdict = mutation::verdict(verdict);
        entry
            .lane
            .handle_verdict(now, subscriber, target, verdict, &mut parts);
        if mutation::is_on(Mutation::AcceptSuperseded) {
            for other in self.subscribers.ids() {
                if parts.iter().any(|p| p.result != VerdictResult::Applied) {
                    parts.clear();
                    let target = Target {
                        delivery: None,
                        ..target
                    };
                    entry
                        .lane
                        .handle_verdict(now, other, target, verdict, &mut parts);
                }
            }
        }
        if mutation::is_on(Mutation::HideProblems) {
            return;
        }
        if !entry.traces.is_empty() {
            let is_broadcast = entry.lane.is_broadcast();
            let at = std::time::SystemTime::now();
            let applied = parts
                .iter()
                .filter(|it| it.result == VerdictResult::Applied);
            for Answer { range, .. } in applied {
                let end = Ended {
                    range: *range,
                    subscriber,
                    how: traces::End::of(verdict),
                    code: &code,
                    at,
                };
                entry.traces.ended(&self.parts.tracer, is_broadcast, end);
            }
        }
        self.meter.note_problems(&parts);
        if let Some(deeds) = deeds {
            deeds.note(entry.lane.generation(), lane, verdict, &parts);
        }
        match verdict {
            Verdict::Acked | Verdict::Released => {}
            Verdict::Rejected | Verdict::Failed { .. } => {
                let name = self.subscribers.get(subscriber).map(|of| of.name.as_ref());
                let note = Note {
                    code: code.into(),
                    reason: reason.into(),
                    subscriber: Arc::from(name.unwrap_or_default()),
                };
                entry.keep_notes(subscriber, &parts, &note);
            }
        }
        answers.extend(parts.iter().filter_map(|part| problem(lane, part)));
    }

    fn extend(
        &mut self,
        subscriber: Subscriber,
        lane: u64,
        range: OffsetRange,
        by: Duration,
        answers: &mut Vec<VerdictAnswer>,
    ) {
        let now = self.now();
        let known = self.lanes.knew(lane);
        let Some(entry) = self.lanes.touch_named(lane) else {
            self.meter.problems.note(elsewhere(known), 1);
            answers.push(answer_elsewhere(lane, range, known));
            return;
        };
        let mut parts = Vec::with_capacity(1);
        let target = Target {
            range,
            delivery: None,
        };
        entry
            .lane
            .handle_extend(now, subscriber, target, by, &mut parts);
        self.meter.note_problems(&parts);
        answers.extend(parts.iter().filter_map(|part| problem(lane, part)));
    }

    pub(super) fn answer(
        &mut self,
        subscriber: Subscriber,
        sequence: u64,
        answers: Vec<VerdictAnswer>,
        confirm: bool,
        ticket: Option<Ticket>,
    ) {
        if answers.len() > MAX_ANSWERS {
            self.cut_off(subscriber, End::TooManyAnswers);
            return;
        }
        if answers.is_empty() && !confirm {
            return;
        }
        let settled = Outbound::Settled {
            sequence,
            answers,
            ticket,
        };
        if !self.subscribers.tell(subscriber, settled) {
            self.cut_off(subscriber, End::NotReading);
        }
    }

    fn sent(&mut self, session: Session, lane: u64, ranges: &[OffsetRange]) {
        let now = self.now();
        let Some(subscriber) = self.subscribers.of(session) else {
            return;
        };
        let name = self.name(subscriber);
        let Some(entry) = self.lanes.touch_named(lane) else {
            return;
        };
        let at = std::time::SystemTime::now();
        for range in ranges {
            entry.lane.handle_sent(now, subscriber, *range);
            entry.bodies.handed_over(*range, at, &name);
            if !entry.traces.is_empty() {
                entry.traces.sent(subscriber, *range, at);
            }
        }
    }
}

/// What a verdict on a lane that is not here comes to.
const fn elsewhere(known: bool) -> Problem {
    if known {
        Problem::Fenced
    } else {
        Problem::Unknown
    }
}

/// The answer to a verdict on a lane that is not here.
fn answer_elsewhere(lane: u64, range: OffsetRange, known: bool) -> VerdictAnswer {
    let result = if known {
        VerdictResult::Fenced
    } else {
        VerdictResult::Unknown
    };
    answer_on(lane, range, result)
}

fn problem(lane: u64, part: &Answer) -> Option<VerdictAnswer> {
    (part.result != VerdictResult::Applied).then(|| answer_on(lane, part.range, part.result))
}

pub(super) fn answer_on(lane: u64, range: OffsetRange, result: VerdictResult) -> VerdictAnswer {
    VerdictAnswer {
        lane,
        first: i64::try_from(range.first().get()).unwrap_or(i64::MAX),
        last: i64::try_from(range.last().get()).unwrap_or(i64::MAX),
        result: Ok(result),
    }
}

/// Makes a notice.
pub(super) fn notice(
    lane: super::handle::LaneLabel,
    kind: NoticeKind,
    range: Option<OffsetRange>,
    detail: &str,
) -> super::handle::LaneNotice {
    super::handle::LaneNotice {
        lane,
        kind,
        range,
        detail: detail.to_owned(),
    }
}
